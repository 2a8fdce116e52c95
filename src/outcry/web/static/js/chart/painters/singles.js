/* Single prints: prices traded in one period only, between wider rows. Hatched, behind the letters. */

import { pitchOf } from "./letters.js";

export function paintSingles(pen, g, day, look) {
  const { facts } = day;
  if (!facts.levels || !look.view.show.has("singles")) return;
  const { context, notes } = pen;
  for (const zone of facts.levels.singles) {
    context.fillStyle = context.strokeStyle = look.colours.prior;
    if (look.view.layout === "collapsed") {
      box(context, g, g.slot(day.open), pitchOf(g, look), zone.low, zone.high);
    } else {
      for (const bracket of facts.brackets) {
        const [low, high] = [Math.max(zone.low, bracket.low), Math.min(zone.high, bracket.high)];
        if (low <= high) box(context, g, g.slot(day.open + bracket.slot), g.step, low, high);
      }
    }
    notes.add("singles", { low: look.price(zone.low), high: look.price(zone.high) });
  }
}

function box(context, g, x, width, low, high) {
  const top = Math.round(g.at(high + 0.5));
  const [wide, tall] = [Math.max(g.line(), Math.round(width)), Math.round(g.at(low - 0.5)) - top];
  context.save();
  context.globalAlpha = 0.16;
  context.fillRect(x, top, wide, tall);
  context.beginPath();
  context.rect(x, top, wide, tall);
  context.clip();
  context.globalAlpha = 0.5;
  context.lineWidth = g.line();
  context.beginPath();
  for (let y = top; y < top + tall + wide; y += g.px(5)) {
    context.moveTo(x, y);
    context.lineTo(x + wide, y - wide);
  }
  context.stroke();
  context.restore();
}
