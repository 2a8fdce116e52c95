/* Where slots and ticks lie, in pixels of the device.

   Rule kept: everything is placed by these few numbers, so a picture of a session can be made anywhere and put in its
   place. x, y: where slot 0 begins and tick 0 is; step, perTick: pixels of a slot, of a tick; ratio: device pixels a
   pixel of the page; size: ticks a row. top, bottom: what can be seen, in pixels. */

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
