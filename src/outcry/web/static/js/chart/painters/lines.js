/* Level lines: in the dash pattern of their kind, from their session to the tags, or to the session that traded through
   them. */

import { rowsOf } from "../model.js";
import { FOOT, HEAD } from "./captions.js";
import { endOfPrints } from "./letters.js";

export function paintLines(frame) {
  const { context, g, lines, look } = frame;
  paintExtensions(frame);
  for (const line of lines) {
    const y = Math.round(g.at(line.ticks)) + 0.5;
    if (y < g.px(HEAD) || y > frame.height - g.px(FOOT)) continue;
    const from = line.from === null ? 0 : Math.max(0, g.slot(line.from));
    const to = line.until === null ? frame.right : Math.min(g.slot(line.until), frame.right);
    if (from >= to) continue;
    context.strokeStyle = look.colours[line.colour];
    context.lineWidth = g.line(line.kind === "npoc" ? 1.5 : 1);
    context.setLineDash((line.dash ?? []).map((length) => g.px(length)));
    context.globalAlpha = line.kind.startsWith("poor") ? 0.6 : 0.9;
    context.beginPath();
    context.moveTo(from, y);
    context.lineTo(to, y);
    context.stroke();
    frame.notes.add("lines", { kind: line.kind, price: line.price, date: line.date, from: from / g.ratio, to: to / g.ratio, y: y / g.ratio });
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

/* Extensions of the newest session's initial balance, once it is complete: faint lines across that session, labelled at the
   right if there is room. */
function paintExtensions(frame) {
  const { context, g, model, look } = frame;
  if (!model.last?.facts.balanced || !look.view.show.has("ib")) return;
  const left = Math.max(0, g.slot(model.last.open));
  const right = Math.min(g.slot(model.last.end), frame.right);
  context.font = `${g.px(10)}px ${look.mono}`;
  context.textAlign = "right";
  context.textBaseline = "bottom";
  context.fillStyle = context.strokeStyle = look.colours.ib;
  context.lineWidth = g.line();
  context.setLineDash([g.px(2), g.px(4)]);
  const named = [];
  for (const extension of model.last.facts.extensions) {
    for (const side of ["up", "down"]) {
      const y = Math.round(g.at(extension[side])) + 0.5;
      if (y < g.px(HEAD) || y > frame.height - g.px(FOOT) || left >= right) continue;
      context.globalAlpha = 0.55;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(right, y);
      context.stroke();
      context.globalAlpha = 0.9;
      const text = `IB ×${extension.percent / 100}`;
      if (hasRoom(frame, y, right - g.px(8) - context.measureText(text).width, named)) {
        context.fillText(text, right - g.px(3), y - g.px(1));
        named.push(y);
      }
      frame.notes.add("extensions", { percent: extension.percent, side, price: look.price(extension[side]) });
    }
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

/* Whether the space above a line at y, from x on, is empty: no caption, other label, level or letter of the
   session. */
function hasRoom({ g, model, look, lines, height }, y, x, named) {
  const tall = g.px(13);
  const { last } = model;
  if (x < g.slot(last.open) || y - tall < g.px(HEAD) || y > height - g.px(FOOT)) return false;
  if (named.some((other) => Math.abs(other - y) < tall)) return false;
  const over = (at) => at > y - tall && at < y;
  if (lines.some((line) => over(g.at(line.ticks)))) return false;
  const top = g.rowOf(g.ticksAt(y - tall));
  for (let row = g.rowOf(g.ticksAt(y)); row <= top; row += 1) {
    const places = rowsOf(last.facts, g.size).get(row) ?? [];
    if (places.length && endOfPrints(g, last, look, places) > x) return false;
  }
  return true;
}
