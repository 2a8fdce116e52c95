/* The levels that extend beyond their session: their lines to the right, and the texts of their tags.

   Every level comes from the answer, at its exact price. An open session has `dPOC`, a completed one `POC`. The levels of
   a completed session are not repeated as prior levels. */

import { wallClock } from "./model.js";
import { fill } from "./wording.js";

const DOT = [1, 3];
const LONG = [7, 4];
const DASH_DOT = [7, 3, 1, 3];
const SHORT = [3, 3];

/* The style of each kind. rank: priority if there is no room for all tags (lowest first). */
const KINDS = {
  last: { colour: "fg-1", dash: DOT, rank: 0 },
  dpoc: { colour: "poc", dash: null, bold: true, rank: 1 }, poc: { colour: "poc", dash: null, bold: true, rank: 1 },
  dvah: { colour: "va", dash: null, bold: true, rank: 2 }, dval: { colour: "va", dash: null, bold: true, rank: 2 },
  vah: { colour: "va", dash: null, bold: true, rank: 2 }, val: { colour: "va", dash: null, bold: true, rank: 2 },
  ibh: { colour: "ib", dash: SHORT, rank: 4 }, ibl: { colour: "ib", dash: SHORT, rank: 4 },
  onh: { colour: "on", dash: DASH_DOT, rank: 5 }, onl: { colour: "on", dash: DASH_DOT, rank: 5 },
  ppoc: { colour: "prior", dash: DOT, rank: 6 }, pvah: { colour: "prior", dash: DOT, rank: 6 }, pval: { colour: "prior", dash: DOT, rank: 6 },
  npoc: { colour: "poc", dash: LONG, rank: 3 },
  "poor-high": { colour: "poor", dash: DOT, rank: 7 }, "poor-low": { colour: "poor", dash: DOT, rank: 7 },
};

/* Return the lines of a chart: kind, price in ticks and as a number, first slot (null: the left edge), last slot (null: the
   tags), and texts. */
export function linesOf(model, view, wording) {
  const { answer, last } = model;
  const lines = [];
  const add = (kind, price, from, note = "", date = null, until = null, used = "") => {
    const short = wording.words.tags[kind];
    const name = short + (used && ` ${used}`);
    lines.push({
      kind, price, date, from, until, ticks: model.units.ticks(price), short, name,
      text: note ? `${name} ${note}` : name, ...KINDS[kind],
    });
  };
  const levels = last?.session.levels;
  if (levels) {
    for (const level of ["poc", "vah", "val"]) add(last.facts.final ? level : `d${level}`, levels[level], last.end);
    if (view.show.has("ib")) {
      add("ibh", levels.ibHigh, last.open);
      add("ibl", levels.ibLow, last.open);
    }
    if (view.show.has("poor") && !last.facts.final) addPoor(add, last);
  }
  addCarried(add, model, view, wording);
  if (answer.lastPrice !== null) add("last", answer.lastPrice, last?.end ?? null);
  return lines;
}

function addPoor(add, day) {
  if (day.facts.poorHigh === "open") add("poor-high", day.session.levels.high, day.end);
  if (day.facts.poorLow === "open") add("poor-low", day.session.levels.low, day.end);
}

function addCarried(add, model, view, wording) {
  const { answer, last } = model;
  const endOf = (date) => model.sessions.find((day) => day.date === date)?.end ?? null;
  if (view.show.has("overnight") && answer.overnight) {
    add("onh", answer.overnight.high, last?.first ?? null);
    add("onl", answer.overnight.low, last?.first ?? null);
  }
  if (view.show.has("prior") && answer.prior && last && !last.facts.final) {
    const before = model.sessions.at(-2);
    for (const level of ["poc", "vah", "val"]) add(`p${level}`, answer.prior[level], before?.end ?? last.first);
  }
  const carried = (kind, dated, used) => {
    const note = dated.date === last?.date ? "" : wording.dated(dated.date);
    if (used === undefined) add(kind, dated.price, endOf(dated.date), note, dated.date);
    else add(kind, dated.price, endOf(dated.date), note && `· ${note}`, dated.date, last.open, used);
  };
  const among = (levels, { date, price }) => levels.find((level) => level.date === date && level.price === price);
  const { touched, touched_today: touchedToday, repaired } = wording.words;
  if (view.show.has("naked")) {
    for (const dated of answer.nakedPocs) {
      const poc = among(answer.touchedPocs, dated);
      const time = poc?.at && wording.time(wallClock(Date.parse(poc.at), answer.timeZone));
      carried("npoc", dated, poc && (time ? fill(touched, { time }) : touchedToday));
    }
  }
  if (view.show.has("poor")) {
    for (const dated of answer.poorHighs) carried("poor-high", dated, among(answer.repairedHighs, dated) && repaired);
    for (const dated of answer.poorLows) carried("poor-low", dated, among(answer.repairedLows, dated) && repaired);
  }
}
