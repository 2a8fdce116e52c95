/* Levels that reach to the right: each in the dash of its kind, from where it was made to the tags. */

export function paintLines(frame) {
  const { context, g, lines, look } = frame;
  paintExtensions(frame);
  for (const line of lines) {
    const y = Math.round(g.at(line.ticks)) + 0.5;
    if (y < 0 || y > frame.height) continue;
    const from = line.from === null ? 0 : Math.max(0, g.slot(line.from));
    if (from >= frame.right) continue;
    context.strokeStyle = look.colours[line.colour];
    context.lineWidth = g.line(line.kind === "npoc" ? 1.5 : 1);
    context.setLineDash((line.dash ?? []).map((length) => g.px(length)));
    context.globalAlpha = line.kind.startsWith("poor") ? 0.6 : 0.9;
    context.beginPath();
    context.moveTo(from, y);
    context.lineTo(frame.right, y);
    context.stroke();
    frame.notes.add("lines", { kind: line.kind, price: line.price, date: line.date, from: from / g.ratio, to: frame.right / g.ratio, y: y / g.ratio });
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

/* Multiples of the newest session's balance: faint, across that session only, named at its right. */
function paintExtensions(frame) {
  const { context, g, model, look } = frame;
  if (!model.last?.facts.levels || !look.view.show.has("ib")) return;
  const left = Math.max(0, g.slot(model.last.open));
  const right = Math.min(g.slot(model.last.end), frame.right);
  context.font = `${g.px(10)}px ${look.mono}`;
  context.textAlign = "right";
  context.textBaseline = "bottom";
  context.fillStyle = context.strokeStyle = look.colours.ib;
  context.lineWidth = g.line();
  context.setLineDash([g.px(2), g.px(4)]);
  for (const extension of model.last.facts.extensions) {
    for (const side of ["up", "down"]) {
      const y = Math.round(g.at(extension[side])) + 0.5;
      if (y < g.px(26) || y > frame.height - g.px(20) || left >= right) continue;
      context.globalAlpha = 0.55;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(right, y);
      context.stroke();
      context.globalAlpha = 0.9;
      if (right - left > g.px(60)) context.fillText(`${extension.percent / 100}×`, right - g.px(3), y - g.px(1));
      frame.notes.add("extensions", { percent: extension.percent, side, price: look.price(extension[side]) });
    }
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}
