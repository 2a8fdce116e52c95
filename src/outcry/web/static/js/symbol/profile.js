/** The chart of a symbol's page: fetch, draw and update it, and keep its view in the URL.
 *
 * If the data cannot be fetched, a message is shown and the request is retried. The URL always matches the view,
 * including the visible slots.
 */

import { paced } from "./pace.js";
import { filled, say, words } from "../common.js";

/** Retry delay after a failed request. */
const RETRY_MS = 10_000;
/** Below this window width in pixels, two sessions are shown unless the URL says otherwise. */
const NARROW = 640;
/** How long a view must be stable before the URL is updated. */
const SETTLED_MS = 300;

/** Draw the chart of a symbol in a box. said: the texts `chart_coming` and `chart_failed`; moved: called after the URL
 * changed.
 *
 * Returns {refresh(), quote(price), pause(since), press(key), note(texts)}; before the chart is drawn, calls wait or
 * do nothing.
 */
export function showProfile(box, symbol, said, moved) {
  const form = document.getElementById("chart-tools");
  const note = box.querySelector(".chart-note span");
  let chart = null;
  let since = null;
  let dated = words("dated-words");
  const refresh = paced(2000, () => (chart ? update() : draw()));

  async function ask(sessions) {
    try {
      const answer = await fetch(`/page/chart?symbol=${encodeURIComponent(symbol)}&sessions=${sessions}`);
      return answer.ok ? await answer.json() : null;
    } catch {
      return null; // the service is unreachable
    }
  }

  async function update() {
    const answer = await ask(1);
    if (answer) chart.update(answer);
  }

  async function draw() {
    note.textContent ||= said.chart_coming;
    const drawing = await import("../chart.js").catch(() => null);
    if (!chosen() && innerWidth < NARROW) form.elements.namedItem("sessions").value = "2";
    const view = drawing?.viewIn(form);
    const answer = drawing && (await ask(view.sessions));
    if (answer) return mount(drawing, view, answer);
    if (note.textContent !== said.chart_failed) say(said.chart_failed);
    note.textContent = said.chart_failed;
    setTimeout(refresh, RETRY_MS);
  }

  const chosen = () => new URLSearchParams(location.search).has("sessions");

  /* Show how many sessions are available if fewer than requested. */
  function count(answer, asked) {
    const known = answer.sessions.length;
    const text = known < asked ? filled(words("chart-words").fewer, { known, asked }) : "";
    document.getElementById("chart-count").textContent = text;
  }

  function mount(drawing, first, answer) {
    let view = first;
    let settling = 0;
    chart = drawing.mount(box, answer, view, { ...words("chart-words"), dated }, {
      view: (changed) => {
        drawing.write(form, changed);
        look(changed);
      },
      span: (span) => {
        clearTimeout(settling);
        settling = setTimeout(() => {
          drawing.writeSpan(form, span);
          moved();
        }, SETTLED_MS);
      },
      say: (text) => say(text, { asked: true }),
    });
    count(answer, view.sessions);
    if (since) chart.pause(since);
    drawing.bind(form, (changed) => {
      chart.set(changed);
      look(changed);
    });
    async function look(changed) {
      const more = changed.sessions !== view.sessions;
      view = changed;
      moved();
      const wider = more && (await ask(view.sessions));
      if (!wider) return;
      chart.update(wider);
      count(wider, view.sessions);
    }
  }

  refresh(0);
  return {
    refresh,
    quote: (price) => chart?.quote(price),
    press: (key) => chart?.press(key),
    pause: (at) => {
      since = at;
      chart?.pause(at);
    },
    note: (texts) => {
      dated = texts;
      chart?.note(texts);
    },
  };
}
