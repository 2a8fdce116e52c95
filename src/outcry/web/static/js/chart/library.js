/* Options of the chart library: our colours, price format and time format. */

import { dayAt } from "./model.js";

const TICK_TYPE_TIME = 3;

/* Return all options of a chart (chart.js) for its current look and view. */
export function optionsOf(chart) {
  const { colours, mono } = chart.look;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const line = { color: colours["line-3"], labelBackgroundColor: colours["bg-3"] };
  return {
    autoSize: true,
    layout: {
      background: { type: "solid", color: colours["bg-1"] }, textColor: colours["fg-3"], fontFamily: mono, fontSize: 11,
      attributionLogo: false,
    },
    grid: { vertLines: { visible: false }, horzLines: { color: colours["line-1"] } },
    rightPriceScale: { borderVisible: false, scaleMargins: { top: 0.01, bottom: 0.01 }, entireTextOnly: true },
    timeScale: {
      borderVisible: false, visible: chart.view.layout !== "collapsed", timeVisible: true, secondsVisible: false, minBarSpacing: 0.1,
      tickMarkFormatter: (time, type) => markOf(chart, time, type), shiftVisibleRangeOnNewBar: false,
    },
    crosshair: { mode: 0, vertLine: line, horzLine: line },
    localization: { timeFormatter: (time) => momentOf(chart, time) },
    kineticScroll: { touch: !still, mouse: false },
    handleScroll: { vertTouchDrag: false },
    handleScale: { mouseWheel: false }, // watching.js handles the wheel
  };
}

/* Price format of the axis, in whole ticks. */
export function formatOf(chart) {
  const write = (price) => chart.wording.price(chart.model.units.price(chart.model.units.ticks(price)), chart.answer.notation);
  return { type: "custom", formatter: write, ...stepOf(chart.answer.tickSize) };
}

/* The library divides its axis by twos and fives only, with no step above one. */
function stepOf(tick) {
  if (tick >= 1) return { minMove: 1 };
  const base = Math.round(1 / tick);
  let rest = base;
  for (const factor of [2, 5]) while (rest % factor === 0) rest /= factor;
  return rest === 1 ? { minMove: tick, base } : { minMove: 1e-9, base: 1e9 };
}

function markOf(chart, time, type) {
  const { model, wording } = chart;
  const slot = model.at.get(time);
  const day = slot === undefined ? null : dayAt(model, slot);
  if (!day || slot < day.open) return "";
  if (type >= TICK_TYPE_TIME || slot > day.open) return day.facts ? wording.time(time) : "";
  return wording.day(day.date);
}

function momentOf(chart, time) {
  const { model, wording } = chart;
  const slot = model.at.get(time);
  const day = slot === undefined ? null : dayAt(model, slot);
  if (!day) return "";
  return day.facts && slot >= day.open ? `${wording.dayMonth(day.date)} ${wording.time(time)}` : wording.dayMonth(day.date);
}
