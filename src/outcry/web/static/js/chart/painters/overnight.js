/* The overnight session before a regular one, in its own gutter: its range, and the number of periods at each row. */

import { nightOf } from "../model.js";

export function paintNight(pen, g, day, look) {
  const { night } = day.facts;
  if (!night || !look.view.show.has("overnight")) return;
  const { context, notes } = pen;
  const left = g.slot(day.first) + g.line();
  const right = g.slot(day.open) - g.line(g.step > 4 ? 2 : 0);
  const top = g.rowTop(g.rowOf(night.high));
  const bottom = g.rowBottom(g.rowOf(night.low));
  context.fillStyle = look.colours.on;
  context.globalAlpha = 0.09;
  context.fillRect(left, top, right - left, bottom - top);
  context.globalAlpha = 1;
  notes.set("night", { high: look.price(night.high), low: look.price(night.low), rows: {} });
  const rows = nightOf(night, g.size);
  const most = Math.max(...rows.values(), 1);
  const space = g.rowHeight > 3 * g.ratio ? g.line() : 0;
  context.globalAlpha = 0.55;
  for (const [row, count] of rows) {
    if (!g.seesRow(row)) continue;
    const y = g.rowTop(row);
    const height = Math.max(1, g.rowBottom(row) - y - space);
    context.fillRect(left, y, Math.max(1, Math.round(((right - left) * count) / most)), height);
    if (notes.facts) notes.facts.night.rows[look.rowPrice(row)] = count;
  }
  context.globalAlpha = 1;
}
