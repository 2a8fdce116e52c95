/* The chart by keyboard: a cursor of period and row, zoom, sessions, and the switches of the toolbar.

   The effect of each key is announced to screen readers. The chart handles only keys without Ctrl, Alt and Meta, and only
   while it has the focus or the page passes them on. */

import { fill } from "./wording.js";

const LAYOUTS = ["collapsed", "split", "candles"];
const LETTERS = ["auto", "letters", "blocks"];
const PARTS = { v: "volume", n: "naked", r: "prior", i: "ib", o: "overnight", u: "singles", x: "poor", p: "path", c: "candles" };
const PAGE = 10;

/* The action of each key on a chart (chart.js). */
const KEYS = {
  ArrowLeft: (chart) => chart.cursor.step(-1),
  ArrowRight: (chart) => chart.cursor.step(1),
  ArrowUp: (chart) => chart.cursor.climb(1),
  ArrowDown: (chart) => chart.cursor.climb(-1),
  PageUp: (chart) => chart.cursor.climb(PAGE),
  PageDown: (chart) => chart.cursor.climb(-PAGE),
  Home: (chart) => chart.cursor.first(),
  End: (chart) => chart.cursor.newest(),
  "[": (chart) => chart.cursor.session(-1),
  "]": (chart) => chart.cursor.session(1),
  Escape: (chart) => chart.cursor.hide(),
  "+": (chart) => chart.zoom(1.25),
  "=": (chart) => chart.zoom(1.25),
  "-": (chart) => chart.zoom(0.8),
  0: (chart) => chart.fit(),
  s: (chart) => turn(chart, "layout", LAYOUTS),
  b: (chart) => turn(chart, "letters", LETTERS),
};

/* Run the action of a key. Returns false if it has none. */
export function press(chart, key) {
  if (PARTS[key]) return toggle(chart, PARTS[key]);
  if (!Object.hasOwn(KEYS, key)) return false;
  return KEYS[key](chart) !== false;
}

/* Listen on the chart's box. Returns a function that stops. */
export function listen(box, chart) {
  const onKey = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target !== box) return;
    if (!press(chart, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  box.addEventListener("keydown", onKey);
  return () => box.removeEventListener("keydown", onKey);
}

function turn(chart, name, choices) {
  const next = choices[(choices.indexOf(chart.view[name]) + 1) % choices.length];
  chart.change({ [name]: next });
  chart.say(chart.wording.words.read[name][next]);
}

function toggle(chart, part) {
  const show = new Set(chart.view.show);
  const on = !show.delete(part);
  if (on) show.add(part);
  chart.change({ show });
  const { words } = chart.wording;
  chart.say(fill(on ? words.read.on : words.read.off, { part: words.parts[part] }));
  return true;
}
