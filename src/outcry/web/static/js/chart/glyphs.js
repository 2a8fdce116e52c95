/* Letters drawn once and copied, because drawing text would dominate the time of a frame. */

const SIDE = 1024;

class Glyphs {
  constructor(font, size) {
    this.size = size;
    this.font = `500 ${size}px ${font}`;
    this.height = Math.ceil(size * 1.3);
    this.places = new Map();
    this.canvas = document.createElement("canvas");
    this.canvas.width = this.canvas.height = SIDE;
    this.context = this.pencil();
    this.x = this.y = 0;
  }

  pencil() {
    const context = this.canvas.getContext("2d");
    context.font = this.font;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    return context;
  }

  /* Draw a letter centred at x, y. */
  draw(context, text, colour, x, y) {
    const place = this.places.get(colour + text) ?? this.add(text, colour);
    context.drawImage(
      this.canvas, place.x, place.y, place.width, this.height,
      Math.round(x - place.width / 2), Math.round(y - this.height / 2), place.width, this.height,
    );
  }

  add(text, colour) {
    const width = Math.ceil(this.context.measureText(text).width) + 2;
    if (this.x + width > SIDE) {
      this.x = 0;
      this.y += this.height;
    }
    if (this.y + this.height > SIDE) this.clear();
    const place = { x: this.x, y: this.y, width };
    this.context.fillStyle = colour;
    this.context.fillText(text, place.x + width / 2, place.y + Math.round(this.height / 2 + this.size * 0.355));
    this.places.set(colour + text, place);
    this.x += width;
    return place;
  }

  clear() {
    this.context.clearRect(0, 0, SIDE, SIDE);
    this.places.clear();
    this.x = this.y = 0;
  }
}

const cases = new Map();

/* The letters of a font at a size in device pixels. */
export function glyphsOf(font, size) {
  const whole = Math.max(2, Math.round(size));
  const name = `${whole} ${font}`;
  if (!cases.has(name)) {
    if (cases.size > 12) cases.clear();
    cases.set(name, new Glyphs(font, whole));
  }
  return cases.get(name);
}

/* Discard all glyphs after the fonts have loaded. */
export function forgetGlyphs() {
  cases.clear();
}
