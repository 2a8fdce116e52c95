/** Live updates of the symbol page: quotes change numbers; changed texts are fetched from the server.
 *
 * The rail is fetched at most once a second and the chart at most every two seconds, both only while the page is
 * visible. The page works without this script, and its URL always matches what it shows.
 */

import { exchangeTime, filled, findChips, follow, loseChips, marketNow, onKey, refreshAges, say, words } from "./common.js";
import { formatPercent, formatPoints, formatPrice } from "./prices.js";
import { bindChoice } from "./symbol/choice.js";
import { swapParts } from "./symbol/morph.js";
import { paced } from "./symbol/pace.js";
import { showProfile } from "./symbol/profile.js";

const data = words("symbol-data");
const page = document.getElementById("symbol");
const address = `/s/${encodeURIComponent(data.symbol)}`;
const chartBox = document.getElementById("chart");
const each = (selector, act) => page.querySelectorAll(selector).forEach(act);

/** How often to fetch data that the stream does not carry. */
const EVERY_MS = 5000;

let last = data.lastPrice;

/** The link to the table keeps the chart's view. */
function keepLinks() {
  const query = new URLSearchParams(location.search);
  query.set("view", "table");
  document.getElementById("to-table").href = `${address}?${query}`;
}

const chart = chartBox && showProfile(chartBox, data.symbol, data.words, keepLinks);

// -- feed time: the time of its newest event, plus the time since then

let heard = data.live && data.updatedAt ? { at: Date.parse(data.updatedAt), since: performance.now() } : null;

function hear(updatedAt) {
  const at = Date.parse(updatedAt);
  if (!Number.isNaN(at)) heard = { at, since: performance.now() };
}

const feedNow = () => (heard ? heard.at + performance.now() - heard.since : marketNow());

// -- numbers

function write(element, text) {
  if (element.textContent === text) return;
  element.textContent = text;
  element.classList.add("changed");
  setTimeout(() => element.classList.remove("changed"), 700);
}

/** The price changed: update it, its change and all distances. */
function showPrice(price) {
  last = price;
  each("[data-last]", (cell) => write(cell, formatPrice(price, data.notation)));
  showChange(price);
  const body = page.querySelector("[data-rungs]");
  const mine = body?.querySelector("[data-last-rung]");
  if (!mine) return;
  let below = null;
  for (const row of body.rows) {
    if (row === mine) continue;
    const level = Number(row.dataset.price);
    row.querySelector("[data-distance]").textContent = formatPoints(level, price, data.notation);
    row.classList.toggle("near", Math.abs(level - price) <= Number(body.dataset.near));
    if (below === null && level <= price) below = row;
  }
  if (mine.nextElementSibling !== below) body.insertBefore(mine, below);
}

function showChange(price) {
  const box = page.querySelector("[data-change]");
  if (!box) return;
  const close = Number(box.dataset.priorClose); // read each time, because the next trade date has another close
  const change = price - close;
  box.classList.toggle("up", change > 0);
  box.classList.toggle("down", change < 0);
  box.querySelector("[data-arrow]").textContent = change > 0 ? "▲" : change < 0 ? "▼" : "■";
  box.querySelector("[data-change-points]").textContent = formatPoints(price, close, data.notation);
  const percent = box.querySelector("[data-change-percent]");
  if (!percent) return;
  percent.textContent = `${formatPercent((100 * change) / close)}%`;
}

function left(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

let over = "";

function countDown() {
  each("[data-until]", (clock) => {
    const ms = Date.parse(clock.dataset.until) - feedNow();
    clock.textContent = left(ms);
    if (ms < -1000 && over !== clock.dataset.until) {
      over = clock.dataset.until; // a new period or session has begun, so the texts change
      wantRail(0);
    }
  });
}

// -- changed texts

const newestAlert = () => Math.max(0, ...[...page.querySelectorAll("[data-seq]")].map((row) => Number(row.dataset.seq)));

/** Fetch the page's parts and show them. Returns whether they are shown: not after a failure or a change of the URL. */
async function fetchParts() {
  const newest = newestAlert();
  const asked = location.search;
  try {
    const answer = await fetch(`${address}/rail${asked}`, { headers: { accept: "text/html" } });
    const text = await answer.text();
    if (!answer.ok || asked !== location.search) return false;
    swapParts(text, page);
  } catch {
    return false; // they are fetched again once the stream is back
  }
  prepare();
  if (chart) {
    chart.note(words("dated-words"));
    keepLinks();
  }
  if (last !== null && page.querySelector("[data-change]")) showPrice(last);
  const fresh = [...page.querySelectorAll("[data-seq]")].filter((row) => Number(row.dataset.seq) > newest);
  for (const row of fresh) row.classList.add("is-new");
  if (fresh.length) say(fresh[0].innerText, { urgent: fresh[0].querySelector(".severity.critical") !== null });
  return true;
}

const wantRail = paced(2000, fetchParts);

const choices = document.getElementById("profile-tools");
if (choices) bindChoice(choices, fetchParts, (text) => say(text || data.words.profile_failed, { asked: true }));

// -- the stream

function onEvent(name, event) {
  if (name === "snapshot") {
    const isMine = (each) => each.symbol === data.root;
    const [levels, state] = [event.levels.find(isMine), event.states.find(isMine)];
    if (levels && levels.updatedAt !== data.updatedAt) onLevels(levels);
    if (state && state.live !== data.live) onState(state); // the state changed while the stream was interrupted
  } else if (name === "quote") {
    hear(event.updatedAt);
    if (data.live) {
      showPrice(event.lastPrice);
      chart?.quote(event.lastPrice);
    }
    showAge(event.updatedAt);
  } else if (name === "levels") {
    onLevels(event);
  } else if (name === "state") {
    onState(event);
  } else if (name === "alert") {
    wantRail(1000);
  } else if (name === "lost") {
    showLost();
  } else if (name === "back") {
    showBack();
  }
}

function onState({ dataSource, live }) {
  if (dataSource === null) return location.reload(); // access to the data has ended: the reloaded page shows the reason
  stand(live);
  wantRail(1000);
  chart?.refresh(0);
}

function stand(live) {
  data.live = live;
  if (!live) [heard, last] = [null, null];
}

function onLevels(levels) {
  stand(levels.live);
  if (levels.live) {
    hear(levels.updatedAt);
    showPrice(levels.lastPrice);
    showAge(levels.updatedAt);
  }
  wantRail();
  chart?.refresh();
}

function showAge(updatedAt) {
  each(":is(.symbol-head, .symbol-foot) time[data-since]", (time) => (time.dateTime = updatedAt));
  each("[data-last-event]", (told) => (told.textContent = exchangeTime(Date.parse(updatedAt), data.zone)));
  refreshAges(page);
}

function showLost() {
  const at = heard ? heard.at : Date.parse(data.updatedAt ?? "");
  const time = Number.isNaN(at) ? "–" : exchangeTime(at, data.zone);
  loseChips();
  const notice = document.getElementById("lost");
  notice.textContent = filled(data.words.lost, { time });
  notice.hidden = false;
  page.classList.add("is-stale");
  if (!Number.isNaN(at)) chart?.pause(new Date(at).toISOString());
}

function showBack() {
  document.getElementById("lost").hidden = true;
  findChips();
  page.classList.remove("is-stale");
  chart?.pause(null);
  wantRail(0);
  chart?.refresh(0);
}

// -- keyboard and copying

onKey("t", () => document.getElementById(chartBox ? "to-table" : "to-chart").click());
if (chartBox) for (const key of ["[", "]", "s", "b", "v", "p", "+", "-", "0"]) onKey(key, () => chart?.press(key));
else {
  onKey("[", () => document.getElementById("earlier")?.click());
  onKey("]", () => document.getElementById("later")?.click());
}

async function copyFrom(button) {
  try {
    const answer = await fetch(button.dataset.copyFrom);
    await navigator.clipboard.writeText(await answer.text());
    say(data.words.copied, { asked: true });
    const label = button.textContent;
    button.textContent = "✓";
    setTimeout(() => (button.textContent = label), 1200);
  } catch {
    say(data.words.not_copied, { urgent: true });
  }
}

function prepare() {
  each("[data-copy-from]", (button) => (button.hidden = false));
  countDown();
  refreshAges(page);
}

page.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy-from]");
  if (button) copyFrom(button);
});

prepare();
setInterval(() => document.hidden || countDown(), 1000);
if (data.follow) follow([data.root], onEvent);
else setInterval(() => [wantRail(), chart?.refresh()], EVERY_MS); // the stream does not cover this page's contract month
