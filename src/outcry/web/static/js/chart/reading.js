/* A position on the chart in words, for the pointer's line and for screen readers. */

import { rowsOf, volumesOf } from "./model.js";
import { fill } from "./wording.js";

/* A row of a session: price, letters, TPOs, volume and role. */
export function readRow(day, row, size, look) {
  const { facts } = day;
  const { words } = look.wording;
  const price = look.write(look.price(row * size));
  const volume = look.wording.lots(volumesOf(facts, size).get(row) ?? 0);
  const places = rowsOf(facts, size).get(row) ?? [];
  if (!places.length) return fill(words.read.none, { price, volume });
  const letters = places.map((place) => facts.brackets[place].letter).join(" ");
  const parts = [fill(words.read.row, { price, letters, tpos: places.length, volume })];
  const { levels } = facts;
  if (Math.floor(levels.poc / size) === row) parts.push(words.read.poc);
  else if (row * size <= levels.vah && row * size + size > levels.val) parts.push(words.read["in-value"]);
  if (levels.singles.some((zone) => row * size <= zone.high && row * size + size > zone.low)) parts.push(words.read.single);
  return parts.join(" ");
}

/* A period of a session: time and prices. */
export function readPeriod(day, slot, time, look) {
  const { wording, write, price } = look;
  const bracket = day.facts.brackets.find((one) => one.slot === slot);
  const said = { day: wording.dayMonth(day.date), time: wording.time(time) };
  if (!bracket) return fill(wording.words.read.idle, said);
  const prices = Object.fromEntries(["open", "high", "low", "close"].map((name) => [name, write(price(bracket[name]))]));
  return fill(wording.words.read.bracket, { ...said, letter: bracket.letter, ...prices });
}

/* The text of the pointer's line. */
export function readPlace(model, slot, ticks, size, look) {
  const day = model.days.find((one) => slot >= one.first && slot < one.end);
  if (!day) return "";
  const { wording } = look;
  if (!day.facts) return `${wording.words.missing} · ${wording.dayMonth(day.date)}`;
  if (slot < day.open || !day.facts.levels) return `${wording.dayMonth(day.date)} · ${look.write(look.price(ticks))}`;
  return `${wording.dayMonth(day.date)} ${wording.time(model.times[slot])} · ${readRow(day, Math.floor(ticks / size), size, look)}`;
}
