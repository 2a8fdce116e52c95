/* The open, an arrow from the left, and the close or last price, an arrow from the right. */

import { rowsOf } from "../model.js";
import { letterLeft, pitchOf } from "./letters.js";

const REACH = 5;

export function paintEnds(pen, g, day, look) {
  const { facts } = day;
  if (!facts.levels || g.step < 2.5 * g.ratio) return;
  const { context, notes } = pen;
  const { open, close } = facts.levels;
  const reach = g.px(REACH);
  const left = g.slot(day.open) - g.px(5);
  context.strokeStyle = look.colours["bg-1"]; // an outline, to be visible on any background
  context.lineWidth = g.line(2);
  context.fillStyle = look.colours["fg-1"];
  arrow(context, left, g.at(open), -reach);
  notes.put("ends", "open", look.price(open));
  const right = Math.min(closeAt(g, day, look), g.slot(day.end) - reach - g.px(3)); // the next overnight session is painted over anything beyond
  context.fillStyle = close >= open ? look.colours.up : look.colours.down;
  arrow(context, right + g.px(2), g.at(close), reach);
  notes.put("ends", "close", look.price(close));
}

function closeAt(g, day, look) {
  const { facts } = day;
  if (look.view.layout !== "collapsed") return g.slot(day.open + facts.brackets.at(-1).slot + 1);
  const prints = rowsOf(facts, g.size).get(g.rowOf(facts.levels.close)) ?? [];
  return Math.round(letterLeft(g, day, look, prints.length, null));
}

/* A triangle with its tip at x, y and its base `reach` to the right (negative: to the left). */
function arrow(context, x, y, reach) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + reach, y - Math.abs(reach) * 0.7);
  context.lineTo(x + reach, y + Math.abs(reach) * 0.7);
  context.closePath();
  context.stroke();
  context.fill();
}
