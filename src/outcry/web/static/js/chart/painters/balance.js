/* The initial balance: a bracket at the left of its session. */

export function paintBalance(pen, g, day, look) {
  const { levels } = day.facts;
  if (!levels || !look.view.show.has("ib")) return;
  const { context, notes } = pen;
  const line = g.line(g.step > 4 * g.ratio ? 2 : 1);
  const x = g.slot(day.open) - line - g.line();
  const arm = Math.min(g.line(5), Math.max(line, Math.round(g.step / 2)));
  const top = Math.round(g.at(levels.ibHigh + 0.5));
  const bottom = Math.round(g.at(levels.ibLow - 0.5));
  context.fillStyle = look.colours.ib;
  context.fillRect(x, top, line, bottom - top);
  context.fillRect(x, top, arm, line);
  notes.put("ib", "high", look.price(levels.ibHigh));
  context.fillRect(x, bottom - line, arm, line);
  notes.put("ib", "low", look.price(levels.ibLow));
}
