/** The chart on the page of a symbol: fetched, drawn, kept up to date, and how it is looked at in the address.
 *
 * Rules kept: what cannot be fetched is told in its place and tried again, never left empty; the address always says what
 * is shown, to the slots in view.
 */

import { paced } from "./pace.js";
import { filled, say, words } from "./page.js";

/** How soon a chart that could not be had is tried again. */
const RETRY_MS = 10_000;
/** In a window narrower than this, in pixels, an address that says nothing of sessions shows two. */
const NARROW = 640;
/** How long a view has to stand before the address follows. */
const SETTLED_MS = 300;

/** Draw the chart of a symbol in a box. said: `chart_coming`, `chart_failed`; moved: told when the address has changed.
 *
 * Gives back {refresh(), quote(price), pause(since), press(key), note(texts)}; until it is drawn they wait or do nothing. */
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
      return null; // nothing can be asked at the moment
    }
  }

  async function update() {
    const answer = await ask(1);
    if (answer) chart.update(answer);
  }

  async function draw() {
    note.textContent ||= said.chart_coming;
    const modules = await Promise.all([import("./chart/chart.js"), import("./chart/controls.js")]).catch(() => null);
    if (!chosen() && innerWidth < NARROW) form.elements.namedItem("sessions").value = "2";
    const view = modules?.[1].viewIn(form);
    const answer = modules && (await ask(view.sessions));
    if (answer) return mount(...modules, view, answer);
    if (note.textContent !== said.chart_failed) say(said.chart_failed);
    note.textContent = said.chart_failed;
    setTimeout(refresh, RETRY_MS);
  }

  const chosen = () => new URLSearchParams(location.search).has("sessions");

  /* Fewer sessions are known than were asked for: how many. */
  function count(answer, asked) {
    const known = answer.sessions.length;
    const text = known < asked ? filled(words("chart-words").fewer, { known, asked }) : "";
    document.getElementById("chart-count").textContent = text;
  }

  function mount(drawing, controls, first, answer) {
    let view = first;
    let settling = 0;
    chart = drawing.mount(box, answer, view, { ...words("chart-words"), dated }, {
      view: (changed) => {
        controls.write(form, changed);
        look(changed);
      },
      span: (span) => {
        clearTimeout(settling);
        settling = setTimeout(() => {
          controls.writeSpan(form, span);
          moved();
        }, SETTLED_MS);
      },
      say: (text) => say(text, { asked: true }),
    });
    count(answer, view.sessions);
    if (since) chart.pause(since);
    controls.bind(form, (changed) => {
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
