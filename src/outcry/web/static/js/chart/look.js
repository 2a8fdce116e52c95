/* The chart's look: colours and fonts from the page's style, and the row size and mode at a scale.

   Colours are defined in the style sheet only. After a change of theme they are read again. */

const NAMES = [
  "bg-0", "bg-1", "bg-2", "bg-3", "line-1", "line-2", "line-3", "fg-1", "fg-2", "fg-3", "focus", "tpo-in", "tpo-out",
  "poc", "va", "ib", "on", "poor", "prior", "up", "down", "live", "stale",
];
/* Row heights in pixels of the page: readable letters, comfortable letters, and blocks. */
const LETTER_ROW = 8.5;
const GOOD_LETTER_ROW = 10.5;
const GOOD_BLOCK_ROW = 3;
const LETTER_SLOT = 5.5;
/* Rows lower than this cannot be distinguished, so several are drawn as one. */
const LEAST_ROW = 0.4;
const SIZES = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 100, 200, 500, 1000, 2000, 5000, 10000];

/* The page's current colours and fonts at `box`. */
export function readLook(box) {
  const style = getComputedStyle(box);
  const colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  return { colours, mono: style.getPropertyValue("--mono").trim(), sans: style.getPropertyValue("--sans").trim() };
}

/* Ticks per row, and whether to draw letters, blocks or candles, at a scale in pixels of the page. */
export function rowsAt(view, perTick, slot) {
  const legible = slot >= LETTER_SLOT;
  const wantsLetters = view.letters === "letters" || (view.letters === "auto" && legible);
  const good = wantsLetters && view.layout !== "candles" ? GOOD_LETTER_ROW : GOOD_BLOCK_ROW;
  const chosen = view.row ?? SIZES.find((ticks) => ticks * perTick >= good) ?? SIZES.at(-1);
  const size = chosen * Math.max(1, Math.ceil(LEAST_ROW / (chosen * perTick)));
  if (view.layout === "candles") return { size, mode: "candles" };
  const letters = view.letters === "letters" || (view.letters === "auto" && legible && size * perTick >= LETTER_ROW);
  return { size, mode: letters ? "letters" : "blocks" };
}
