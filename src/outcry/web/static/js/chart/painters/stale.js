/* A session without updates: grey from its last event on, with a label. */

import { fill } from "../wording.js";
import { PERIOD_S, wallClock } from "../model.js";

export function paintStale(frame) {
  const { context, g, model, look } = frame;
  if (!look.stale || !model.last) return;
  const { last, answer } = model;
  const at = Date.parse(look.stale);
  const slot = last.open + Math.max(0, (at - Date.parse(last.session.open)) / (PERIOD_S * 1000));
  const left = Math.max(0, g.slot(Math.min(slot, last.end)));
  const right = Math.min(frame.right, g.slot(last.end));
  context.fillStyle = look.colours["bg-1"];
  context.globalAlpha = 0.5;
  context.fillRect(Math.max(0, g.slot(last.first)), 0, right - Math.max(0, g.slot(last.first)), frame.height);
  context.fillStyle = look.colours["bg-3"];
  context.globalAlpha = 0.55;
  context.fillRect(left, 0, Math.max(0, right - left), frame.height);
  context.globalAlpha = 1;
  context.fillStyle = look.colours.stale;
  context.fillRect(left, 0, g.line(), frame.height);
  const time = look.wording.time(wallClock(at, answer.timeZone));
  const text = fill(look.wording.words.stale, { time });
  context.font = `500 ${g.px(11)}px ${look.sans}`;
  context.textBaseline = "middle";
  const width = context.measureText(text).width;
  const x = Math.min(left + g.px(6), right - width - g.px(4));
  context.fillStyle = look.colours["bg-1"];
  context.fillRect(x - g.px(3), g.px(28), width + g.px(6), g.px(16));
  context.fillStyle = look.colours.stale;
  context.textAlign = "left";
  context.fillText(text, x, g.px(36));
  frame.notes.set("stale", { since: look.stale, text, x: left / g.ratio });
}
