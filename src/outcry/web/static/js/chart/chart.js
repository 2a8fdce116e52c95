/* The market profile of a symbol, in a box of a page.

     mount(box, answer, view, words, callbacks) ->
       {update(answer), quote(price), set(view), press(key), pause(since), note(dated), describe(), destroy()}

   answer: from /page/chart. view: from controls.js; its `span` is used only at the start. words: the page's `chart-words`,
   and `dated`: the texts of earlier levels by date. callbacks, all optional: view(view) after a key has changed the view,
   span(span) after the visible slots have changed, say(text) for the page's live region.

   The library provides axes, zoom and crosshair; we draw everything else, from the answer only. The library must not add
   styles or its logo to the page. */

import { createChart, LineSeries } from "../../vendor/lightweight-charts-5.2.1/lightweight-charts.standalone.production.mjs";
import { Cursor } from "./cursor.js";
import { forgetGlyphs } from "./glyphs.js";
import { listen, press } from "./keyboard.js";
import { formatOf, optionsOf } from "./library.js";
import { readLook, rowsAt } from "./look.js";
import { layOut, merge } from "./model.js";
import { Scene } from "./scene.js";
import { watch } from "./watching.js";
import { Wording } from "./wording.js";

/* Minimum number of slots left in view when zooming in. */
const CLOSEST = 6;

export function mount(box, answer, view, words, callbacks = {}) {
  const chart = new Chart(box, answer, view, words, callbacks);
  const handle = {
    update: (newer) => chart.update(newer),
    set: (changed) => chart.set(changed),
    press: (key) => press(chart, key),
    quote: (price) => chart.quote(price),
    pause: (since) => chart.pause(since),
    note: (dated) => chart.writeDated(dated),
    describe: () => chart.scene.record,
    destroy: () => chart.destroy(),
  };
  if (window.__describe) window.__profile = handle;
  return handle;
}

class Chart {
  constructor(box, answer, view, words, callbacks) {
    Object.assign(this, { box, answer, view, callbacks, since: null, fitted: !view.span, span: view.span ?? null });
    this.wording = new Wording(words, document.documentElement.lang);
    this.model = layOut(answer, view.show.has("overnight"));
    this.fed = null;
    this.cursor = new Cursor(this);
    this.scene = new Scene(Boolean(window.__describe), () => this.settle());
    this.build();
    this.ends = [listen(box, this), watch(this)];
    Promise.allSettled([document.fonts.load('500 12px "Geist Mono"'), document.fonts.ready]).then(() => this.restyle());
    this.lay(true);
    this.settle();
  }

  build() {
    this.note = this.box.querySelector(".chart-note");
    this.pane = document.createElement("div");
    this.pane.className = "chart-pane";
    this.readout = document.createElement("p");
    this.readout.className = "chart-readout";
    this.readout.setAttribute("aria-hidden", "true");
    this.box.append(this.pane, this.readout);
    this.look = readLook(this.box);
    this.library = createChart(this.pane, optionsOf(this));
    this.series = this.library.addSeries(LineSeries, {
      lineVisible: false, crosshairMarkerVisible: false, lastValueVisible: false, priceLineVisible: false,
      priceFormat: formatOf(this), autoscaleInfoProvider: () => this.scene.prices(),
    });
    this.series.attachPrimitive(this.scene);
  }

  // -- public methods

  update(answer) {
    const known = this.model.times.length;
    this.answer = merge(this.answer, answer);
    this.lay();
    if (this.fitted && this.model.times.length !== known) this.fit();
  }

  set(view) {
    const before = this.view;
    this.view = view;
    this.lay(true);
    this.library.applyOptions(optionsOf(this));
    const relaid = before.sessions !== view.sessions || before.show.has("overnight") !== view.show.has("overnight");
    if (relaid || this.fitted) this.fit();
  }

  /* Only the last price changed. */
  quote(price) {
    if (!this.answer.live) return;
    this.answer = { ...this.answer, lastPrice: price };
    this.model = { ...this.model, answer: this.answer };
    this.scene.show(this.model, this.look);
  }

  pause(since) {
    this.since = since;
    this.lay();
  }

  writeDated(dated) {
    this.wording.words = { ...this.wording.words, dated };
    this.lay();
  }

  destroy() {
    this.ends.forEach((end) => end());
    this.scene.end();
    this.library.remove();
    this.library = null;
    this.pane.remove();
    this.readout.remove();
    if (this.note) this.note.hidden = false;
  }

  // -- keyboard actions

  change(part) {
    this.set({ ...this.view, ...part });
    this.callbacks.view?.(this.view);
  }

  say(text) {
    this.readout.textContent = text;
    this.callbacks.say?.(text);
  }

  zoom(by, held = (range) => this.heldSlot(range)) {
    const range = this.range();
    if (!range) return;
    const middle = held(range);
    const slots = range.to - range.from + 1; // a slot extends by one half to both sides of its index
    const width = Math.max(CLOSEST, slots / by);
    const left = middle - (width * (middle - range.from + 0.5)) / slots;
    this.free();
    this.bring({ from: left + 0.5, to: left + width - 0.5 });
  }

  /* The fixed point of a zoom: the cursor, else the end of the newest session, else the middle. */
  heldSlot(range) {
    if (this.scene.cursor && this.cursor.day) return this.cursor.day.open + this.cursor.place.slot;
    return this.endIn(range) ?? (range.from + range.to) / 2;
  }

  /* The end of the newest session if it is in view; tags are drawn behind it and must not cover it. */
  endIn({ from, to }) {
    const end = (this.model.last?.end ?? 0) - 0.5;
    return end > from && end < to ? end : null;
  }

  /* The visible slots. The library applies a change with the next frame, so the last requested range counts. */
  range() {
    return this.told ?? this.library.timeScale().getVisibleLogicalRange();
  }

  bring(range) {
    this.told = range;
    this.library.timeScale().setVisibleLogicalRange(range);
    requestAnimationFrame(() => requestAnimationFrame(() => { this.told = this.told === range ? null : this.told; }));
  }

  /* Show as many of the newest sessions as the view requests, with the tags beside them. */
  fit() {
    const { last, sessions, times } = this.model;
    if (!last) return;
    const first = sessions[Math.max(0, sessions.length - this.view.sessions)].first;
    const width = this.scene.paneWidth || this.library.timeScale().width() || this.box.clientWidth;
    const slots = times.length - first;
    const room = Math.max(40, width - this.scene.gutter(width) - 6);
    const right = (slots * (width - room)) / room;
    this.series.priceScale().applyOptions({ autoScale: true });
    this.bring({ from: first, to: times.length - 1 + right });
    [this.fitted, this.span] = [true, null];
  }

  /* Set the visible slots until the user moves the view: the slots from the URL, or as many as fit. The URL counts slots
     back from the newest, so sessions added or removed before them change nothing. */
  settle() {
    const count = this.model.times.length;
    if (this.span) this.bring({ from: count - this.span.from, to: count - this.span.to });
    else if (this.fitted) this.fit();
  }

  /* The user changes the view. */
  free() {
    [this.fitted, this.span] = [false, null];
  }

  showCursor(place, slot = null) {
    this.scene.cursor = place;
    if (!place) this.readout.textContent = "";
    const range = this.range();
    if (slot !== null && range && (slot < range.from + 1 || slot > range.to - 1)) {
      const half = (range.to - range.from) / 2;
      this.free();
      this.bring({ from: slot - half, to: slot + half });
    }
    this.scene.requestUpdate();
  }

  /* Ticks per row at the current scale. */
  scale() {
    const ratio = window.devicePixelRatio;
    const size = { width: this.pane.clientWidth * ratio, height: this.pane.clientHeight * ratio };
    const found = this.scene.geometry({ bitmapSize: size, horizontalPixelRatio: ratio, verticalPixelRatio: ratio });
    return found ? { size: found.g.size } : rowsAt(this.view, 1, 1);
  }

  // -- display

  /* Lay out the answer again. `anew`: discard all cached pictures. */
  lay(anew = false) {
    const model = layOut(this.answer, this.view.show.has("overnight"));
    this.model = model;
    const style = readLook(this.box);
    const { price } = model.units;
    this.look = {
      ...style, view: this.view, wording: this.wording, stale: this.staleSince(), price,
      write: (points) => this.wording.price(points, this.answer.notation),
    };
    if (anew) this.scene.reshow(model, this.look);
    else this.scene.show(model, this.look);
    if (String(this.fed) !== String(model.times)) this.feed();
    this.noteEmpty();
  }

  noteEmpty() {
    if (!this.note) return;
    this.note.hidden = this.model.sessions.length > 0;
    this.note.querySelector("span").textContent = this.note.hidden ? "" : this.wording.words.empty;
    this.pane.hidden = !this.note.hidden;
  }

  /* Give the library the slots with a placeholder price; we draw everything ourselves. */
  feed() {
    const { last, times, units } = this.model;
    const value = units.price(last?.facts.top ?? 0);
    this.fed = times;
    this.series.setData(last ? times.map((time) => ({ time, value })) : []);
  }

  /* An open session that is no longer live is stale from its last event on. */
  staleSince() {
    const last = this.model.last;
    if (this.since) return this.since;
    if (!last || last.facts.final || this.answer.live) return null;
    return last.session.levels?.data.last ?? null;
  }

  restyle() {
    if (!this.library) return; // the fonts loaded after the chart was removed
    forgetGlyphs();
    this.look = { ...this.look, ...readLook(this.box) };
    this.library.applyOptions(optionsOf(this));
    this.lay(true);
    if (this.fitted) this.fit();
  }
}
