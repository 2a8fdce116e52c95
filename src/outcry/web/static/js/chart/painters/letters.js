/* The letters of a profile: side by side from the left if collapsed, each in its own period if split. They are brighter in
   the value area and gold in the POC's row. Letters of the current period have the live colour. */

import { glyphsOf } from "../glyphs.js";
import { rowsOf } from "../model.js";

/* Spacing of letters in a row in pixels of the page, and at most this fraction of their slot. */
const WIDEST = 13;
const SPREAD = 0.45;

export function pitchOf(g, look) {
  return look.view.layout === "split" ? g.step : Math.min(g.step, Math.max(g.px(WIDEST), g.rowHeight * 0.8, g.step * SPREAD));
}

/* The x position of a row's n-th letter. */
export function letterLeft(g, day, look, nth, bracket) {
  return look.view.layout === "split" ? g.x + (day.open + bracket.slot) * g.step : g.x + day.open * g.step + nth * pitchOf(g, look);
}

/* The right end of a row's letters. `places`: from rowsOf. */
export function endOfPrints(g, day, look, places) {
  if (look.view.layout !== "collapsed") return g.slot(day.open + day.facts.brackets[places.at(-1)].slot + 1);
  return Math.round(letterLeft(g, day, look, places.length, null));
}

/* The colour of a row's letters. */
export function inkOf(levels, row, size, colours) {
  if (row === Math.floor(levels.poc / size)) return colours.poc;
  const inside = row * size <= levels.vah && row * size + size > levels.val;
  return inside ? colours["tpo-in"] : colours["tpo-out"];
}

export function paintLetters(pen, g, day, look) {
  const { facts } = day;
  if (!facts.levels) return;
  const pitch = pitchOf(g, look);
  const glyphs = glyphsOf(look.mono, Math.min(g.rowHeight * 0.94, pitch * 1.42, g.px(13)));
  const newest = facts.final ? -1 : facts.brackets.length - 1;
  for (const [row, places] of rowsOf(facts, g.size)) {
    if (!g.seesRow(row)) continue;
    const ink = inkOf(facts.levels, row, g.size, look.colours);
    const y = (g.rowTop(row) + g.rowBottom(row)) / 2;
    const price = look.rowPrice(row);
    places.forEach((place, nth) => {
      const bracket = facts.brackets[place];
      const x = letterLeft(g, day, look, nth, bracket) + pitch / 2;
      if (x < g.left - pitch || x > g.right + pitch) return;
      glyphs.draw(pen.context, bracket.letter, place === newest ? look.colours.live : ink, x, y);
      pen.notes.append("rows", price, bracket.letter);
      if (place === newest) pen.notes.set("live", bracket.letter);
    });
  }
}
