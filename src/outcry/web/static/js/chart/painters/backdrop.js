/* The background of the sessions: a line at the start of each session (of each week if sessions are narrow), and hatched,
   labelled gaps for days without data. */

import { beginsWeek, narrow } from "./captions.js";

export function paintBackdrop(frame) {
  const { context, g, model, look } = frame;
  context.fillStyle = look.colours["line-1"];
  const weeks = narrow(frame);
  for (const day of model.days) {
    const x = g.slot(day.first);
    if (weeks && !beginsWeek(model, day)) continue;
    if (x >= 0 && x <= frame.right) context.fillRect(x, 0, g.line(), frame.height);
  }
  for (const day of model.days) if (!day.facts && g.seesAcross(day.first, day.end)) paintGap(frame, day);
}

function paintGap(frame, day) {
  const { context, g, look } = frame;
  const left = g.slot(day.first);
  const right = Math.min(g.slot(day.end), frame.right);
  if (right <= left) return;
  context.save();
  context.beginPath();
  context.rect(left, 0, right - left, frame.height);
  context.clip();
  context.strokeStyle = look.colours["line-2"];
  context.globalAlpha = 0.5;
  context.lineWidth = g.line();
  context.beginPath();
  for (let x = left - frame.height; x < right; x += g.px(9)) {
    context.moveTo(x, frame.height);
    context.lineTo(x + frame.height, 0);
  }
  context.stroke();
  context.globalAlpha = 1;
  const text = gapText(day, look.wording);
  name(frame, text, (left + right) / 2, right - left);
  context.restore();
  frame.notes.add("gaps", { from: day.date, until: day.until, text });
}

function gapText(day, wording) {
  const days = day.until === day.date ? wording.day(day.date) : `${wording.day(day.date)} – ${wording.day(day.until)}`;
  return `${wording.words.missing} · ${days}`;
}

/* Vertical, to fit any gap width. */
function name(frame, text, middle, width) {
  const { context, g, look } = frame;
  if (width < g.px(14)) return;
  context.font = `${g.px(11)}px ${look.sans}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const long = context.measureText(text).width + g.px(14);
  context.translate(middle, frame.height / 2);
  context.rotate(-Math.PI / 2);
  context.fillStyle = look.colours["bg-1"];
  context.fillRect(-long / 2, -g.px(8), long, g.px(16));
  context.fillStyle = look.colours["fg-3"];
  context.fillText(text, 0, 0);
}
