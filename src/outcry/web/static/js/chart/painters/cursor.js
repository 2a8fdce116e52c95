/* The keyboard cursor: the row across its session, with the period and row framed. */

export function paintCursor(frame, cursor) {
  const { context, g, look, model } = frame;
  const day = model.sessions.find((one) => one.date === cursor.date);
  if (!day) return;
  const row = g.rowOf(cursor.ticks);
  const top = g.rowTop(row);
  const height = Math.max(g.line(2), g.rowBottom(row) - top);
  context.fillStyle = look.colours.focus;
  context.globalAlpha = 0.16;
  context.fillRect(g.slot(day.open), top, g.slot(day.end) - g.slot(day.open), height);
  const left = g.slot(day.open + cursor.slot);
  const width = Math.max(g.line(3), g.slot(day.open + cursor.slot + 1) - left);
  context.globalAlpha = 0.1;
  context.fillRect(left, 0, width, frame.height);
  context.globalAlpha = 1;
  context.strokeStyle = look.colours.focus;
  context.lineWidth = g.line(1.5);
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  frame.notes.set("cursor", { date: cursor.date, slot: cursor.slot, row: look.rowPrice(row) });
}
