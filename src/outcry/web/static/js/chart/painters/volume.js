/* Volume at each row, from the right edge of the session inwards; the volume POC is gold. */

import { volumesOf } from "../model.js";

const SHARE = 0.34;

export function paintVolume(pen, g, day, look) {
  const { facts } = day;
  if (!facts.levels || !look.view.show.has("volume")) return;
  const { context, notes } = pen;
  const right = g.slot(day.end) - g.line();
  const room = (right - g.slot(day.open)) * SHARE;
  const rows = volumesOf(facts, g.size);
  let most = 1;
  for (const lots of rows.values()) most = Math.max(most, lots);
  const control = g.rowOf(facts.levels.vpoc);
  const [low, high] = [g.rowOf(facts.levels.val), g.rowOf(facts.levels.vah)];
  const space = g.rowHeight > 4 * g.ratio ? g.line() : 0;
  for (const [row, lots] of rows) {
    if (!g.seesRow(row)) continue;
    const y = g.rowTop(row);
    const width = Math.max(1, Math.round((room * lots) / most));
    context.fillStyle = row === control ? look.colours.poc : look.colours.va;
    context.globalAlpha = row === control ? 0.5 : row >= low && row <= high ? 0.34 : 0.22;
    context.fillRect(right - width, y, width, Math.max(1, g.rowBottom(row) - y - space));
    notes.put("volume", look.rowPrice(row), lots);
  }
  notes.set("vpoc", look.price(facts.levels.vpoc));
  context.globalAlpha = 1;
}
