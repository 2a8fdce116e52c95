/* Tags: names and prices of levels in a column at the right. They are spread so that none overlap, and a line connects each
   to its price. If there is not enough room, the least important are omitted. */

import { FOOT, HEAD } from "./captions.js";

const HEIGHT = 16;
/* Style of the last price, which has a background. */
const TALL = 20;
const LEAD = 16;
const NARROW = 620;
/* Maximum width of tags with prices: their first level's text up to ROOM CSS pixels, or the fraction WIDEST of the pane,
   whichever is larger. */
const ROOM = 212;
const WIDEST = 0.17;

/* Return the tags to draw. Lines at one price share a tag, with the full text of the most important and the names of the
   others. `short`: the text for narrow panes. */
export function tagsOf(lines, look) {
  const tags = new Map();
  for (const line of [...lines].sort((a, b) => a.rank - b.rank)) {
    const tag = tags.get(line.ticks);
    if (tag && line.kind !== "last" && tag.kinds[0] !== "last") {
      tag.kinds.push(line.kind);
      tag.text += ` · ${line.name}`;
      tag.short += ` · ${line.short}`;
    } else {
      const own = line.kind === "last" ? "last" : line.ticks;
      tags.set(own, { ...line, kinds: [line.kind], figure: look.write(line.price) });
    }
  }
  return [...tags.values()];
}

/* The width of the tags in pixels of the page, for a pane width. */
export function gutterWidth(context, tags, look, paneWidth) {
  if (!tags.length) return 8;
  const wide = (font, text) => {
    context.font = font;
    return context.measureText(text).width;
  };
  const figure = (tag) => wide(`600 12px ${look.mono}`, tag.figure);
  const words = (text) => wide(`500 12px ${look.sans}`, text);
  const widest = (room) => Math.ceil(Math.max(...tags.map(room))) + LEAD + 8;
  if (paneWidth < NARROW) {
    const room = (tag) => Math.max(words(tag.short), tag.kinds[0] === "last" ? figure(tag) : 0);
    return Math.min(widest(room), paneWidth * 0.4);
  }
  const whole = widest((tag) => figure(tag) + 8 + words(tag.text));
  const short = widest((tag) => figure(tag) + 8 + words(tag.text.split(" · ")[0]));
  return Math.min(whole, Math.max(Math.min(short, ROOM), paneWidth * WIDEST));
}

export function paintTags(frame) {
  const { context, g, look } = frame;
  const narrow = frame.width / g.ratio < NARROW;
  const left = frame.right + g.px(LEAD);
  const limits = { from: g.px(HEAD), to: frame.height - g.px(FOOT) };
  const seen = frame.tags.map((tag) => ({ ...tag, at: g.at(tag.ticks) })).filter(({ at }) => inSight(at, limits));
  const placed = spread(chosen(seen, Math.floor((limits.to - limits.from) / g.px(HEIGHT))), g, limits);
  for (const tag of placed) {
    lead(frame, tag, left);
    const text = write(frame, tag, left, narrow);
    frame.notes.add("tags", {
      kinds: tag.kinds, price: tag.price, text, y: tag.y / g.ratio, at: tag.at / g.ratio, height: HEIGHT,
      left: left / g.ratio, right: frame.width / g.ratio,
    });
  }
  context.globalAlpha = 1;
}

/* Whether a tag is visible, rounded like its line. */
function inSight(at, { from, to }) {
  const y = Math.round(at) + 0.5;
  return y >= from && y <= to;
}

function chosen(tags, most) {
  return [...tags].sort((a, b) => a.rank - b.rank).slice(0, Math.max(1, most));
}

/* Positions of the tags: sorted by price, without overlap, as near to their lines as possible. */
function spread(tags, g, { from, to }) {
  const blocks = [];
  for (const tag of [...tags].sort((a, b) => a.at - b.at || a.rank - b.rank)) {
    const height = g.px(tag.kinds[0] === "last" ? TALL : HEIGHT);
    blocks.push({ tags: [{ ...tag, down: height / 2 }], top: tag.at - height / 2, height });
    let last = blocks.at(-1);
    keep(last, from, to);
    while (blocks.length > 1 && last.top < blocks.at(-2).top + blocks.at(-2).height) {
      blocks.pop();
      const upper = blocks.at(-1);
      upper.tags.push(...last.tags.map((one) => ({ ...one, down: one.down + upper.height })));
      upper.height += last.height;
      upper.top = mean(upper.tags.map((one) => one.at - one.down));
      keep(upper, from, to);
      last = upper;
    }
  }
  return blocks.flatMap((block) => block.tags.map((tag) => ({ ...tag, y: block.top + tag.down })));
}

function keep(block, from, to) {
  block.top = Math.max(from, Math.min(block.top, to - block.height));
}

function mean(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

function lead(frame, tag, left) {
  const { context, g, look } = frame;
  context.strokeStyle = look.colours[tag.colour];
  context.lineWidth = g.line();
  context.globalAlpha = 0.75;
  context.beginPath();
  context.moveTo(frame.right, Math.round(tag.at) + 0.5);
  context.lineTo(frame.right + g.px(6), Math.round(tag.at) + 0.5);
  context.lineTo(left - g.px(8), Math.round(tag.y) + 0.5);
  context.lineTo(left - g.px(3), Math.round(tag.y) + 0.5);
  context.stroke();
  context.globalAlpha = 1;
}

function write(frame, tag, left, narrow) {
  const { context, g, look } = frame;
  const y = Math.round(tag.y) + 0.5;
  context.textAlign = "left";
  context.textBaseline = "middle";
  if (tag.kinds[0] === "last") return writeLast(frame, tag, left, y);
  context.fillStyle = look.colours[tag.colour];
  let x = left;
  const weight = tag.bold ? 600 : 500;
  if (!narrow) {
    context.font = `${weight} ${g.px(12)}px ${look.mono}`;
    context.fillText(tag.figure, x, y);
    x += context.measureText(tag.figure).width + g.px(8);
  }
  context.font = `${tag.bold ? 600 : 400} ${g.px(12)}px ${look.sans}`;
  const words = fitted(context, narrow ? tag.short : tag.text, frame.width - x - g.px(4));
  context.fillText(words, x, y);
  return narrow ? words : `${tag.figure} ${words}`;
}

function writeLast(frame, tag, left, y) {
  const { context, g, look } = frame;
  context.font = `600 ${g.px(12)}px ${look.mono}`;
  const width = context.measureText(tag.figure).width + g.px(10);
  context.fillStyle = look.stale ? look.colours["fg-3"] : look.colours["fg-1"];
  context.beginPath();
  context.roundRect(left - g.px(5), y - g.px(9), width, g.px(18), g.px(3));
  context.fill();
  context.fillStyle = look.colours["bg-1"];
  context.fillText(tag.figure, left, y);
  return tag.figure;
}

/* Shorten a text to the available room, dropping its last parts first. */
function fitted(context, text, room) {
  const parts = text.split(" · ");
  while (parts.length > 1 && context.measureText(parts.join(" · ")).width > room) parts.pop();
  let short = parts.join(" · ");
  if (context.measureText(short).width <= room) return short;
  while (short.length > 1 && context.measureText(`${short}…`).width > room) short = short.slice(0, -1);
  return `${short}…`;
}
