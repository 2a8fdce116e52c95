/* The keyboard cursor: a period and a price of a session, moved by whole rows and always in view. */

import { readPeriod, readRow } from "./reading.js";

export class Cursor {
  constructor(chart) {
    this.chart = chart;
    this.place = null;
  }

  get day() {
    return this.chart.model.sessions.find((day) => day.date === this.place?.date) ?? null;
  }

  /* Move one period forwards or backwards, across session ends. */
  step(by) {
    if (!this.day) return this.newest();
    const slot = this.place.slot + by;
    if (slot >= 0 && slot < this.day.slots) return this.moveTo(this.day, slot, this.place.ticks, true);
    const next = this.neighbour(by);
    if (next) this.moveTo(next, by > 0 ? 0 : next.slots - 1, this.place.ticks, true);
    return true;
  }

  climb(rows) {
    if (!this.day) return this.newest();
    const { size } = this.chart.scale();
    return this.moveTo(this.day, this.place.slot, (Math.floor(this.place.ticks / size) + rows) * size, false);
  }

  session(by) {
    if (!this.day) return this.newest();
    const next = this.neighbour(by);
    if (next) this.enter(next);
    return true;
  }

  first() {
    const day = this.chart.model.sessions[0];
    if (day) this.enter(day);
    return true;
  }

  newest() {
    const day = this.chart.model.last;
    if (day) this.enter(day);
    return true;
  }

  hide() {
    if (!this.place) return false;
    this.place = null;
    this.chart.showCursor(null);
    return true;
  }

  /* Move to the newest period of a session, at its POC. */
  enter(day) {
    const { brackets, levels, night } = day.facts;
    this.moveTo(day, brackets.at(-1)?.slot ?? 0, levels ? levels.poc : night?.high ?? 0, true, true);
  }

  neighbour(by) {
    const { sessions } = this.chart.model;
    return sessions[sessions.indexOf(this.day) + by] ?? null;
  }

  moveTo(day, slot, ticks, across, both = false) {
    this.place = { date: day.date, slot, ticks };
    this.chart.showCursor(this.place, day.open + slot);
    const { look, model } = this.chart;
    const { size } = this.chart.scale();
    const period = () => readPeriod(day, slot, model.times[day.open + slot], look);
    const row = () => (day.facts.levels ? readRow(day, Math.floor(ticks / size), size, look) : look.wording.words.before);
    this.chart.say(both ? `${period()} ${row()}` : across ? period() : row());
    return true;
  }
}
