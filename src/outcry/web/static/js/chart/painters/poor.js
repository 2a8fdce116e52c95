/* Poor highs and lows: a zigzag line at the price, dimmed once a later session has traded beyond it. */

import { rowsOf } from "../model.js";
import { letterLeft, pitchOf } from "./letters.js";

export function paintPoor(pen, g, day, look) {
  const { facts } = day;
  if (!facts.levels || !look.view.show.has("poor")) return;
  const { context, notes } = pen;
  context.strokeStyle = look.colours.poor;
  context.lineWidth = g.line(1.25);
  for (const [side, state, ticks] of [["high", facts.poorHigh, facts.levels.high], ["low", facts.poorLow, facts.levels.low]]) {
    if (!state) continue;
    const row = g.rowOf(ticks);
    const [left, right] = across(g, day, look, row);
    const gap = g.px(4);
    const y = side === "high" ? g.rowTop(row) - gap : g.rowBottom(row) + gap;
    context.globalAlpha = state === "open" ? 1 : 0.5;
    saw(context, left, right, y, g.px(3));
    notes.put("poor", side, { state, price: look.price(ticks) });
  }
  context.globalAlpha = 1;
}

/* From the first letter of a row to behind the last one; long enough to be visible. */
function across(g, day, look, row) {
  const places = rowsOf(day.facts, g.size).get(row) ?? [];
  if (!places.length) return [g.slot(day.open), g.slot(day.open) + g.px(12)];
  const { brackets } = day.facts;
  const inTime = look.view.layout !== "collapsed";
  const left = inTime ? g.slot(day.open + brackets[places[0]].slot) : letterLeft(g, day, look, 0, null);
  const right = inTime
    ? g.slot(day.open + brackets[places.at(-1)].slot + 1)
    : left + places.length * pitchOf(g, look);
  return [left, Math.min(Math.max(right, left + g.px(14)), Math.max(right, g.slot(day.end)))];
}

function saw(context, left, right, y, tooth) {
  context.beginPath();
  context.moveTo(left, y);
  let down = false;
  for (let x = left + tooth; x <= right; x += tooth) {
    context.lineTo(x, down ? y : y - tooth);
    down = !down;
  }
  context.stroke();
}
