/* Single prints: prices that one period alone traded, between wider rows. Behind the letters. */

import { pitchOf } from "./letters.js";

export function paintSingles(pen, g, day, look) {
  const { facts } = day;
  if (!facts.levels || !look.view.show.has("singles")) return;
  const { context, notes } = pen;
  for (const zone of facts.levels.singles) {
    context.fillStyle = look.colours.poor;
    context.globalAlpha = 0.3;
    if (look.view.layout === "collapsed") {
      box(context, g, g.slot(day.open), pitchOf(g, look), zone.low, zone.high);
    } else {
      for (const bracket of facts.brackets) {
        const [low, high] = [Math.max(zone.low, bracket.low), Math.min(zone.high, bracket.high)];
        if (low <= high) box(context, g, g.slot(day.open + bracket.slot), g.step, low, high);
      }
    }
    context.globalAlpha = 1;
    notes.add("singles", { low: look.price(zone.low), high: look.price(zone.high) });
  }
}

function box(context, g, x, width, low, high) {
  const top = Math.round(g.at(high + 0.5));
  context.fillRect(x, top, Math.max(g.line(), Math.round(width)), Math.round(g.at(low - 0.5)) - top);
}
