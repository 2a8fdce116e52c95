/** Prices, distances, shares and volumes in the exchange's format, in every language.
 *
 * Matches `web/figures.py`; one table of cases tests both. `notation` is {kind: "decimal", decimals} or {kind:
 * "32nds", parts}, as in answers.
 */

const SCALE = 1e9;
const POINT_32ND = 31_250_000;
const MINUS = "\u2212";

/** A price in 10⁻⁹. Exact, because answers hold the nearest double. */
const priceE9 = (price) => Math.round(price * SCALE);

const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** A price: 1,234.50. Bonds in 32nds show the first decimal digit of the fraction: 110'162 is 110 and 16¼. */
export function formatPrice(price, notation, { group = true } = {}) {
  if (price === null || price === undefined) return "–";
  const value = priceE9(price);
  const sign = value < 0 ? MINUS : "";
  const size = Math.abs(value);
  const whole = (digits) => (group ? grouped(digits) : digits);
  if (notation.kind === "decimal") {
    const [points, fraction] = (size / SCALE).toFixed(notation.decimals).split(".");
    return sign + whole(points) + (fraction ? `.${fraction}` : "");
  }
  const rest = size % SCALE;
  const tenths = notation.parts > 1 ? String(Math.floor(((rest % POINT_32ND) * 10) / POINT_32ND)) : "";
  return `${sign}${whole(String(Math.floor(size / SCALE)))}'${String(Math.floor(rest / POINT_32ND)).padStart(2, "0")}${tenths}`;
}

/** A number of lots: 43,399; of a product traded in fractions 1,234.567. A sum of such doubles is off in the 16th digit. */
export function formatLots(lots) {
  const size = String(Number.isInteger(lots) ? lots : Number(lots.toPrecision(15)));
  const [whole, fraction] = (size.includes("e-") ? lots.toFixed(9).replace(/0+$/, "") : size).split(".");
  return grouped(whole) + (fraction ? `.${fraction}` : "");
}

/** Distance of a level from a price in ticks, negative below. */
export const ticksBetween = (level, reference, tickSize) =>
  Math.round((priceE9(level) - priceE9(reference)) / priceE9(tickSize));

/** A number with its sign, without one for zero: +40, −6, 0. */
const signed = (text) => (/^[0.,']*$/.test(text) ? text : text.startsWith(MINUS) ? text : `+${text}`);

/** A number of ticks, with its sign. */
export const formatTicks = (ticks) => signed(ticks < 0 ? MINUS + -ticks : String(ticks));

/** A distance in points, in the notation of the price, with its sign. */
export const formatPoints = (level, reference, notation) =>
  signed(formatPrice((priceE9(level) - priceE9(reference)) / SCALE, notation, { group: false }));

/** A change in percent, two decimals, with its sign. */
export function formatPercent(percent) {
  const [whole, hundredths] = (Math.floor(Math.abs(percent) * 100 + 0.5) / 100).toFixed(2).split(".");
  const size = `${grouped(whole)}.${hundredths}`;
  return signed((percent < 0 && /[1-9]/.test(size) ? MINUS : "") + size);
}

/** A distance in whole percent of the average daily range, with its sign. */
export function formatShare(level, reference, averageRange) {
  const percent = ((level - reference) / averageRange) * 100;
  return signed((percent <= -0.5 ? MINUS : "") + Math.floor(Math.abs(percent) + 0.5));
}
