/* Periods as candles: instead of the profile, or thin and over it. Hollow if up, filled if down. The current period is
   underlined. */

export function paintCandles(pen, g, day, look) {
  const alone = look.view.layout === "candles";
  if (!day.facts.levels || !(alone || look.view.show.has("candles"))) return;
  const { context, notes } = pen;
  const line = g.line();
  const width = Math.max(line, Math.round(g.step * (alone ? 0.68 : 0.86)));
  const running = day.facts.final ? null : day.facts.brackets.at(-1);
  context.globalAlpha = alone ? 1 : 0.75;
  for (const bracket of day.facts.brackets) {
    const middle = Math.round(g.x + (day.open + bracket.slot + 0.5) * g.step);
    const left = middle - Math.floor(width / 2);
    const up = bracket.close >= bracket.open;
    const top = Math.round(g.at(Math.max(bracket.open, bracket.close)));
    const bottom = Math.max(top + line, Math.round(g.at(Math.min(bracket.open, bracket.close))));
    const [high, low] = [Math.round(g.at(bracket.high)), Math.round(g.at(bracket.low))];
    context.fillStyle = up ? look.colours.up : look.colours.down;
    const wick = middle - Math.floor(line / 2);
    context.fillRect(wick, high, line, top - high);
    context.fillRect(wick, bottom, line, low - bottom);
    if (alone && (!up || width <= 3 * line)) context.fillRect(left, top, width, bottom - top);
    else frame(context, left, top, width, bottom - top, line);
    if (alone && bracket === running) {
      context.fillStyle = look.colours.live; // the colour of the current period, like its letters
      context.fillRect(left, low + g.line(3), width, g.line(2));
      notes.set("live", bracket.letter);
    }
    notes.add("candles", {
      letter: bracket.letter, open: look.price(bracket.open), high: look.price(bracket.high),
      low: look.price(bracket.low), close: look.price(bracket.close),
    });
  }
  context.globalAlpha = 1;
}

function frame(context, x, y, width, height, line) {
  context.fillRect(x, y, width, line);
  context.fillRect(x, y + height - line, width, line);
  context.fillRect(x, y, line, height);
  context.fillRect(x + width - line, y, line, height);
}
