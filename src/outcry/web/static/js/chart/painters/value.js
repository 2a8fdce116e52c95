/* The value area, a box from VAL to VAH, and the POC, a gold row. With rows of one tick, the box includes the rows of VAL and
   VAH. With larger rows, the box ends at the exact prices, and a line in the gold row marks the exact POC. Lines at exact
   prices are drawn beside the letters of their row, not through them. */

import { rowsOf } from "../model.js";
import { endOfPrints } from "./letters.js";

export function paintValue(pen, g, day, look) {
  const { levels } = day.facts;
  if (!levels) return;
  const { context, notes } = pen;
  const { colours } = look;
  const left = g.slot(day.open);
  const width = g.slot(day.end) - left;
  const top = g.size === 1 ? g.rowTop(levels.vah) : Math.round(g.at(levels.vah));
  const bottom = g.size === 1 ? g.rowBottom(levels.val) : Math.round(g.at(levels.val));
  context.fillStyle = colours.va;
  context.globalAlpha = 0.12;
  context.fillRect(left, top, width, bottom - top);
  context.globalAlpha = 0.9;
  edge(context, g, day, look, levels.vah, top);
  notes.put("value", "vah", look.price(levels.vah));
  edge(context, g, day, look, levels.val, bottom - g.line());
  notes.put("value", "val", look.price(levels.val));
  context.globalAlpha = 1;
}

export function paintControl(pen, g, day, look) {
  const { levels } = day.facts;
  if (!levels) return;
  const { context, notes } = pen;
  const left = g.slot(day.open);
  const width = g.slot(day.end) - left;
  const row = g.rowOf(levels.poc);
  context.fillStyle = look.colours.poc;
  context.globalAlpha = look.mode === "blocks" && g.rowHeight < 4 * g.ratio ? 0.5 : 0.26;
  context.fillRect(left, g.rowTop(row), width, Math.max(g.line(), g.rowBottom(row) - g.rowTop(row)));
  notes.put("value", "pocRow", look.rowPrice(row));
  context.globalAlpha = 1;
  if (g.size > 1) edge(context, g, day, look, levels.poc, Math.round(g.at(levels.poc)));
  notes.put("value", "poc", look.price(levels.poc));
}

/* The right end of a row's letters. */
function behindLetters(g, day, look, row) {
  const places = rowsOf(day.facts, g.size).get(row) ?? [];
  return places.length ? endOfPrints(g, day, look, places) : g.slot(day.open);
}

function edge(context, g, day, look, ticks, y) {
  const from = g.size > 1 && look.mode === "letters" ? behindLetters(g, day, look, g.rowOf(ticks)) : g.slot(day.open);
  context.fillRect(from, y, g.slot(day.end) - from, g.line());
}
