/* TPOs as blocks, for rows too low for letters. */

import { rowsOf } from "../model.js";
import { inkOf, letterLeft, pitchOf } from "./letters.js";

export function paintBlocks(pen, g, day, look) {
  const { facts } = day;
  if (!facts.levels) return;
  const { context, notes } = pen;
  const pitch = pitchOf(g, look);
  const apart = g.rowHeight >= 3 * g.ratio ? g.line() : 0;
  const between = pitch >= 4 * g.ratio ? g.line() : 0;
  const newest = facts.final ? -1 : facts.brackets.length - 1;
  context.globalAlpha = 0.82;
  for (const [row, places] of rowsOf(facts, g.size)) {
    if (!g.seesRow(row)) continue;
    const y = g.rowTop(row);
    const height = Math.max(1, g.rowBottom(row) - y - apart);
    const ink = inkOf(facts.levels, row, g.size, look.colours);
    places.forEach((place, nth) => {
      const left = Math.round(letterLeft(g, day, look, nth, facts.brackets[place]));
      const right = Math.round(letterLeft(g, day, look, nth, facts.brackets[place]) + pitch);
      context.fillStyle = place === newest ? look.colours.live : ink;
      context.fillRect(left, y, Math.max(1, right - left - between), height);
      if (place === newest) notes.set("live", facts.brackets[place].letter);
    });
    notes.put("blocks", look.rowPrice(row), places.length);
  }
  context.globalAlpha = 1;
}
