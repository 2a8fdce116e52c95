/* Cached pictures of sessions: painted once per scale and then copied, so that panning paints nothing.

   A picture is valid for one session, scale and look. Each frame has a limited time for painting outdated pictures; the
   remaining ones are stretched until the next frame. A picture includes its painters' record. Sessions larger than the
   pane are painted directly, because most of such a picture would be invisible. */

import { Geometry } from "./geometry.js";
import { paintDay } from "./painters/day.js";
import { sheet } from "./record.js";

const MOMENT_MS = 4;
const LARGE = 1.6;
const MARGIN = 16;
/* Canvases grow in steps, so that small changes of scale do not create new ones. */
const STEP = 128;
/* Maximum size of cached pictures out of view, in panes. */
const KEPT = 3;

export class Sprites {
  constructor() {
    this.pictures = new Map();
  }

  forget() {
    this.pictures.clear();
  }

  /* Draw all visible days. Returns false if some are stretched and need another frame. */
  draw(frame) {
    const until = performance.now() + MOMENT_MS;
    const seen = frame.model.sessions.filter((day) => day.facts.top !== null && frame.g.seesAcross(day.first - 1, day.end + 1));
    let fresh = true;
    for (const day of seen) fresh = this.drawDay(frame, day, until) && fresh;
    this.tidy(new Set(seen.map((day) => day.facts)), KEPT * frame.width * frame.height);
    return fresh;
  }

  /* Delete pictures out of view, oldest first, beyond `most` pixels. */
  tidy(seen, most) {
    let pixels = 0;
    for (const [facts, { canvas }] of this.pictures) if (!seen.has(facts)) pixels += canvas.width * canvas.height;
    for (const [facts, { canvas }] of this.pictures) {
      if (pixels <= most) return;
      if (seen.has(facts)) continue;
      this.pictures.delete(facts);
      pixels -= canvas.width * canvas.height;
    }
  }

  drawDay(frame, day, until) {
    const { g, look, context } = frame;
    const box = boxOf(g, day);
    if (box.width * box.height > LARGE * frame.width * frame.height || box.width < 1) {
      const notes = sheet(frame.recording);
      paintDay({ context, notes }, g, day, look);
      if (notes.facts) frame.notes.put("sessions", day.date, notes.facts);
      return true;
    }
    let picture = this.pictures.get(day.facts);
    const key = `${look.key}|${g.step.toFixed(4)}|${g.perTick.toPrecision(7)}|${g.ratio}`;
    if (picture?.key !== key && (!picture || performance.now() < until)) {
      picture = paint(picture, key, box, frame, day);
      this.pictures.set(day.facts, picture);
    }
    const fresh = picture.key === key;
    const { width, height } = fresh ? picture : box;
    context.imageSmoothingEnabled = fresh; // a stretched picture is temporary, so speed matters more
    context.drawImage(picture.canvas, 0, 0, picture.width, picture.height, box.left, box.top, width, height);
    if (picture.facts) frame.notes.put("sessions", day.date, picture.facts);
    return fresh;
  }
}

/* The position of a day's picture, with a margin for parts outside its rows. */
function boxOf(g, day) {
  const margin = Math.round(g.px(MARGIN));
  const left = g.slot(day.first) - margin;
  const top = g.rowTop(g.rowOf(day.facts.top)) - margin;
  return {
    margin, left, top,
    width: Math.ceil((day.end - day.first) * g.step) + 2 * margin,
    height: Math.ceil((day.facts.top - day.facts.bottom + 2 * g.size) * g.perTick) + 2 * margin,
  };
}

function paint(old, key, box, frame, day) {
  const { g, look } = frame;
  const canvas = old?.canvas ?? document.createElement("canvas");
  fit(canvas, "width", box.width);
  fit(canvas, "height", box.height);
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  const topRow = g.rowOf(day.facts.top);
  const local = new Geometry({
    x: box.margin - day.first * g.step, step: g.step, perTick: g.perTick, ratio: g.ratio, size: g.size,
    y: box.margin + (topRow * g.size + g.size - 0.5) * g.perTick,
  });
  const notes = sheet(frame.recording);
  paintDay({ context, notes }, local, day, look);
  return { canvas, key, width: box.width, height: box.height, facts: notes.facts };
}

function fit(canvas, side, length) {
  if (canvas[side] < length || canvas[side] > 2 * length + STEP) canvas[side] = Math.ceil(length / STEP) * STEP;
}
