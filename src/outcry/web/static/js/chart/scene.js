/* The whole picture, as a primitive of the chart library: paints back to front once per frame, and records what it drew.

   Painters receive only the frame. Only pictures of sessions are cached between frames. */

import { Geometry } from "./geometry.js";
import { rowsAt } from "./look.js";
import { paintBackdrop } from "./painters/backdrop.js";
import { FOOT, HEAD, paintCaptions } from "./painters/captions.js";
import { paintCursor } from "./painters/cursor.js";
import { paintLines } from "./painters/lines.js";
import { paintStale } from "./painters/stale.js";
import { gutterWidth, paintTags, tagsOf } from "./painters/tags.js";
import { linesOf } from "./levels.js";
import { sheet } from "./record.js";
import { Sprites } from "./sprites.js";

/* Space above and below the prices for captions, in pixels. */
const ABOVE = 36;
const BELOW = 30;
/* Levels outside the sessions' prices are shown if they are within this fraction of the range. */
const REACH = 0.18;

export class Scene {
  /* `resized` is called when the pane's width changes, also because of the price axis. */
  constructor(recording, resized) {
    this.recording = recording;
    this.resized = resized;
    this.paneWidth = 0;
    this.sprites = new Sprites();
    this.revision = 0;
    this.record = null;
    this.cursor = null;
    this.measure = document.createElement("canvas").getContext("2d");
    const view = (zOrder, draw) => ({ zOrder: () => zOrder, renderer: () => ({ draw }) });
    this.views = [
      view("normal", (target) => target.useBitmapCoordinateSpace((space) => this.draw(space))),
      view("top", (target) => target.useBitmapCoordinateSpace((space) => this.drawCursor(space))),
    ];
  }

  /* Set what to show. `look`: from readLook, with view and wording; `stale`: time of the last event. */
  show(model, look) {
    const { units, answer } = model;
    this.revision += 1;
    this.model = model;
    this.look = {
      ...look,
      price: units.price,
      write: (price) => look.wording.price(price, answer.notation),
    };
    this.lines = linesOf(model, look.view, look.wording);
    this.tags = tagsOf(this.lines, this.look);
    this.requestUpdate?.();
  }

  /* Like `show`, and discard all cached pictures. */
  reshow(model, look) {
    this.sprites.forget();
    this.lookRevision = (this.lookRevision ?? 0) + 1;
    this.show(model, look);
  }

  gutter(paneWidth) {
    return gutterWidth(this.measure, this.tags, this.look, paneWidth);
  }

  // -- called by the library

  attached({ chart, series, requestUpdate }) {
    Object.assign(this, { chart, series, requestUpdate });
  }

  /* Stop drawing, including frames already requested. */
  end() {
    this.model = null;
    this.requestUpdate = this.resized = () => {};
  }

  paneViews() {
    return this.views;
  }

  /* Return the price range for the visible slots. */
  prices() {
    const range = this.model && this.chart.timeScale().getVisibleLogicalRange();
    if (!range) return null;
    const { from, to } = range;
    const seen = this.model.sessions.filter((day) => day.facts.top !== null && day.end - 1 > from && day.first < to);
    if (!seen.length) return null;
    let low = Math.min(...seen.map((day) => day.facts.bottom)) - 1;
    let high = Math.max(...seen.map((day) => day.facts.top)) + 1;
    const reach = Math.max((high - low) * REACH, seen.length > 1 ? 0 : this.halfDay());
    if (to >= this.model.times.length - 2) {
      const near = this.lines.map((line) => line.ticks).filter((ticks) => ticks > low - reach && ticks < high + reach);
      low = Math.min(low, ...near);
      high = Math.max(high, ...near);
    }
    const { price } = this.model.units;
    return { priceRange: { minValue: price(low), maxValue: price(high) }, margins: { above: ABOVE, below: BELOW } };
  }

  /* Half of the average daily range in ticks. Levels within it count as near if only one session is visible. */
  halfDay() {
    const { answer, units } = this.model;
    return answer.averageDailyRange ? units.ticks(answer.averageDailyRange) / 2 : 0;
  }

  // -- one frame

  /* Return the current geometry in device pixels, or null before the library knows it. */
  geometry({ bitmapSize, horizontalPixelRatio: ratio, verticalPixelRatio: tall }) {
    const { model, series, chart, look } = this;
    const scale = chart.timeScale();
    const [first, far] = [scale.logicalToCoordinate(0), scale.logicalToCoordinate(1000)];
    const ticks = model.last?.facts.top ?? 0;
    const span = 1000;
    const high = series.priceToCoordinate(model.units.price(ticks));
    const low = series.priceToCoordinate(model.units.price(ticks - span));
    if (first === null || far === null || high === null || low === null || low <= high) return null;
    const slot = (far - first) / 1000;
    const perTick = (low - high) / span;
    const { size, mode } = rowsAt(look.view, perTick, slot);
    const g = new Geometry({
      x: (first - slot / 2) * ratio, step: slot * ratio, perTick: perTick * tall, y: (high + ticks * perTick) * tall,
      ratio, size, left: 0, right: bitmapSize.width, top: 0, bottom: bitmapSize.height,
    });
    return { g, mode };
  }

  frame(space) {
    const found = this.model && this.geometry(space);
    if (!found) return null;
    const { g, mode } = found;
    const { width, height } = space.bitmapSize;
    const room = Math.round(g.px(this.gutter(width / g.ratio)));
    const end = this.model.last ? g.slot(this.model.last.end) + g.px(6) : width;
    const { price } = this.model.units;
    const look = {
      ...this.look, mode, rowPrice: (row) => price(row * g.size),
      key: `${this.lookRevision} ${mode} ${g.size}`,
    };
    const right = Math.max(0, Math.min(end, width - room));
    g.right = right;
    return {
      context: space.context, g, look, width, height, right, model: this.model, lines: this.lines, tags: this.tags,
      recording: this.recording, notes: sheet(this.recording),
    };
  }

  draw(space) {
    const frame = this.frame(space);
    if (!frame) return;
    const { context } = frame;
    this.watchWidth(frame.width / frame.g.ratio);
    context.save();
    this.paint(frame);
    context.restore();
    if (frame.notes.facts) this.keep(frame);
  }

  watchWidth(width) {
    if (Math.abs(width - this.paneWidth) < 1) return;
    this.paneWidth = width;
    requestAnimationFrame(() => this.resized());
  }

  paint(frame) {
    const { context } = frame;
    context.save();
    context.beginPath();
    context.rect(0, 0, frame.right, frame.height);
    context.clip();
    paintBackdrop(frame);
    context.beginPath();
    context.rect(0, frame.g.px(HEAD), frame.right, frame.height - frame.g.px(HEAD + FOOT));
    context.clip();
    paintLines(frame);
    frame.fresh = this.sprites.draw(frame);
    paintStale(frame);
    context.restore();
    paintCaptions(frame);
    paintTags(frame);
    if (!frame.fresh) requestAnimationFrame(() => this.requestUpdate());
  }

  keep(frame) {
    const { g, look } = frame;
    this.record = {
      symbol: this.model.answer.symbol, layout: look.view.layout, mode: look.mode, rowTicks: g.size, ratio: g.ratio,
      rowHeight: g.rowHeight / g.ratio, slot: g.step / g.ratio, width: frame.width / g.ratio, height: frame.height / g.ratio,
      right: frame.right / g.ratio, fresh: frame.fresh, revision: this.revision, background: look.colours["bg-1"],
      sessions: {}, lines: [], tags: [], gaps: [], captions: [], extensions: [], stale: null, cursor: null, ...frame.notes.facts,
    };
  }

  drawCursor(space) {
    if (!this.cursor) return;
    const frame = this.frame(space);
    if (!frame) return;
    frame.context.save();
    paintCursor(frame, this.cursor);
    frame.context.restore();
    if (this.record && frame.notes.facts) this.record.cursor = frame.notes.facts.cursor ?? null;
  }
}
