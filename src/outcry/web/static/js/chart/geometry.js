/* Positions of slots and ticks in device pixels.

   Every position is derived from these numbers, so a session can be painted on its own canvas and copied into place.
   x, y: position of the start of slot 0 and of tick 0. step, perTick: pixels per slot and per tick. ratio: device pixels
   per CSS pixel. size: ticks per row. top, bottom: the visible part, in pixels. */

export class Geometry {
  constructor({ x, y, step, perTick, ratio, size, left = -Infinity, right = Infinity, top = -Infinity, bottom = Infinity }) {
    Object.assign(this, { x, y, step, perTick, ratio, size, left, right, top, bottom });
    this.rowHeight = perTick * size;
  }

  /* The left edge of a slot. */
  slot(slot) {
    return Math.round(this.x + slot * this.step);
  }

  /* The middle of a price. */
  at(ticks) {
    return this.y - ticks * this.perTick;
  }

  /* A row's upper and lower edge. */
  rowTop(row) {
    return Math.round(this.at(row * this.size + this.size - 0.5));
  }

  rowBottom(row) {
    return Math.round(this.at(row * this.size - 0.5));
  }

  rowOf(ticks) {
    return Math.floor(ticks / this.size);
  }

  ticksAt(y) {
    return Math.round((this.y - y) / this.perTick);
  }

  /* Whether any part of a row is visible within a span. */
  seesRow(row) {
    return this.rowBottom(row) >= this.top && this.rowTop(row) <= this.bottom;
  }

  seesAcross(from, to) {
    return this.slot(to) >= this.left && this.slot(from) <= this.right;
  }

  px(length) {
    return length * this.ratio;
  }

  /* The width of a line: at least one device pixel. */
  line(width = 1) {
    return Math.max(1, Math.round(width * this.ratio));
  }
}
