/** Live updates of the Levels page: numbers, map marks and highlights.
 *
 * Texts come from the server: when a state changes, its regions are fetched again. Here only numbers and positions
 * change, and rows never move while the page is visible.
 */

import { exchangeTime, filled, findChips, follow, loseChips, marketNow, onSwap, refreshAges, say, swap, words } from "./common.js";
import { formatPoints, formatPrice, formatShare, formatTicks, ticksBetween } from "./prices.js";

const NEAR = 0.05;
const FAR = 0.5;
const LOST_AFTER_MS = 4000;
const said = words("levels-words");
const banner = document.getElementById("stream-lost");
const rows = new Map();
const waiting = new Map();
let frame = 0;
let refreshing = 0;

// -- read the rows rendered by the server

function readRows() {
  rows.clear();
  for (const element of document.querySelectorAll("#rows tr[data-symbol]")) {
    const data = element.dataset;
    rows.set(data.symbol, {
      element,
      state: data.state,
      zone: data.zone,
      tick: Number(data.tick),
      notation: { kind: data.kind, decimals: Number(data.decimals), parts: Number(data.parts) },
      anchor: data.anchor === undefined ? null : Number(data.anchor),
      last: data.last === undefined ? null : Number(data.last),
      range: data.range === undefined ? null : Number(data.range),
      naked: JSON.parse(data.naked).map(([price, date]) => ({ price, date })),
      touched: new Set(JSON.parse(data.touched)),
      price: element.querySelector("[data-last-price]"),
      age: element.querySelector("time[data-since]"),
      cells: new Map([...element.querySelectorAll("td[data-column]")].map((cell) => [cell.dataset.column, cell])),
      marks: element.querySelector("[data-marks]"),
      bias: element.querySelector("[data-bias]"),
    });
  }
}

// -- write numbers

/** `marked`: underline the changed value. Used for prices, not for values derived from them. */
function write(element, text, { marked = false } = {}) {
  if (element.textContent === text) return;
  element.textContent = text;
  if (!marked) return;
  element.classList.add("changed");
  clearTimeout(element.fading);
  element.fading = setTimeout(() => element.classList.remove("changed"), 700);
}

function distance(row, price) {
  const units = document.getElementById("rows").dataset.units;
  if (units === "points") return formatPoints(price, row.last, row.notation);
  if (units === "adr") return row.range ? formatShare(price, row.last, row.range) : "–";
  return formatTicks(ticksBetween(price, row.last, row.tick));
}

/** The column values of a levels answer; undefined leaves a column unchanged. */
function columns({ developing, overnight, prior }) {
  return {
    vah: developing?.vah, poc: developing?.poc, val: developing?.val, ib_high: developing?.ibHigh, ib_low: developing?.ibLow,
    on_high: overnight?.high, on_low: overnight?.low, prior_vah: prior?.vah, prior_poc: prior?.poc, prior_val: prior?.val,
  };
}

function update(row, answer) {
  if (answer.lastPrice === null || answer.lastPrice === undefined || row.last === null || !row.price) return;
  row.last = answer.lastPrice;
  write(row.price, formatPrice(row.last, row.notation), { marked: true });
  row.age?.setAttribute("datetime", answer.updatedAt);
  if (answer.prior) {
    for (const [column, price] of Object.entries(columns(answer))) place(row, column, price);
    row.naked = answer.nakedPocs;
    if (answer.bias && answer.bias !== row.bias.dataset.bias) {
      row.bias.dataset.bias = answer.bias;
      write(row.bias, said.biases[answer.bias] ?? answer.bias, { marked: true });
    }
  }
  // the nearest naked POCs above and below, from the given list
  const naked = row.naked.filter((each) => !row.touched.has(each.date)).map((each) => each.price);
  place(row, "naked_above", Math.min(...naked.filter((price) => price >= row.last)));
  place(row, "naked_below", Math.max(...naked.filter((price) => price < row.last)));
  for (const cell of row.cells.values()) measure(row, cell);
  if (row.marks) {
    const shift = (row.anchor - row.last) / row.range;
    row.marks.setAttribute("transform", `translate(${shift.toFixed(4)} 0)`);
    const [low, high] = [row.cells.get("val").dataset.price, row.cells.get("vah").dataset.price];
    const band = row.marks.querySelector("[data-band=va]");
    if (band && low && high) {
      band.setAttribute("x", ((low - row.anchor) / row.range).toFixed(4));
      band.setAttribute("width", ((high - low) / row.range).toFixed(4));
    }
  }
}

function place(row, column, price) {
  if (price === undefined || price === null) return;
  const cell = row.cells.get(column);
  if (!Number.isFinite(price)) {
    delete cell.dataset.price;
    cell.removeAttribute("title");
  } else if (cell.dataset.price !== String(price)) {
    cell.dataset.price = price;
    cell.dataset.moved = "";
    cell.title = formatPrice(price, row.notation);
    const mark = row.marks?.querySelector(`[data-mark=${column}]`);
    mark?.setAttribute("transform", `translate(${((price - row.anchor) / row.range).toFixed(4)} 0)`);
  }
}

function measure(row, cell) {
  const price = cell.dataset.price === undefined ? null : Number(cell.dataset.price);
  write(cell, price === null ? "–" : distance(row, price), { marked: "moved" in cell.dataset });
  delete cell.dataset.moved;
  const share = price === null || !row.range ? null : Math.abs(price - row.last) / row.range;
  cell.classList.toggle("missing", price === null);
  cell.classList.toggle("near", share !== null && share <= NEAR && row.state === "live");
  cell.classList.toggle("far", share !== null && share > FAR);
}

// -- stream events: at most one update per frame, none while the page is hidden

function put(answer) {
  note(answer);
  waiting.set(answer.symbol, { ...waiting.get(answer.symbol), ...answer });
  frame ||= requestAnimationFrame(flush);
}

function flush() {
  frame = 0;
  for (const [symbol, answer] of waiting) {
    const row = rows.get(symbol);
    if (row) update(row, answer);
  }
  waiting.clear();
  refreshAges();
}

/** Fetch the regions again: at most once a second, and only while the page is visible. */
function refresh() {
  if (refreshing) return;
  refreshing = setTimeout(async () => {
    if (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
    refreshing = 0;
    await swap(location.href, { keep: true });
  }, 1000);
}

let losing = 0;
/** Time of the newest event of any market, with its exchange's time zone. */
let heard = { at: marketNow(), zone: said.zone };

function note({ symbol, updatedAt }) {
  const at = Date.parse(updatedAt ?? "");
  if (at >= heard.at) heard = { at, zone: rows.get(symbol)?.zone ?? said.zone };
}

/** The stream is lost: show the states as unknown at once, and the notice if it stays lost. */
function lost() {
  clearTimeout(losing);
  loseChips();
  losing = setTimeout(() => {
    const time = exchangeTime(heard.at, heard.zone);
    banner.textContent = filled(said.lost, { time });
    banner.hidden = false;
    document.documentElement.dataset.stream = "lost";
    say(banner.textContent);
  }, LOST_AFTER_MS);
}

function back() {
  clearTimeout(losing);
  findChips();
  if (banner.hidden) return;
  banner.hidden = true;
  delete document.documentElement.dataset.stream;
  say(words("base-words").back);
  refresh();
}

/** A POC that traded is no longer naked, although it stays listed until the session completes. */
function touch({ symbol, type, ref }) {
  const row = rows.get(symbol);
  if (!row || type !== "naked-poc" || row.touched.has(ref)) return;
  row.touched.add(ref);
  if (row.naked.some((each) => each.date === ref)) refresh();
}

const current = ({ symbol, live }) => {
  const row = rows.get(symbol);
  return !row || live === (row.state === "live");
};

function hear(name, data) {
  if (name === "quote" || name === "levels") put(data);
  else if (name === "snapshot") {
    back();
    data.levels.forEach(put);
    data.alerts.forEach(touch);
    if (!data.states.every(current)) refresh();
  } else if (name === "alert") touch(data);
  else if (name === "state") refresh();
  else if (name === "lost") lost();
  else if (name === "back") back();
}

// -- search as the user types

const find = document.getElementById("find");
let typed = 0;

function findNow() {
  const asked = new URL(location.href);
  for (const [name, value] of new FormData(find)) {
    if (name === "q" || name === "sort") asked.searchParams.set(name, value);
  }
  swap(asked.pathname + asked.search);
}

for (const button of find.querySelectorAll("[data-without-script]")) button.hidden = true;
find.addEventListener("submit", (event) => {
  event.preventDefault();
  findNow();
});
find.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(findNow, 200);
});
onSwap(() => {
  readRows();
  refreshAges();
});
readRows();
follow(null, hear);
