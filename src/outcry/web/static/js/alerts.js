/** Live updates of the Alerts page: new rows arrive as the server renders them, distances follow the quotes.
 *
 * The list never jumps: while it is paused or scrolled, new alerts are counted in a pill. Rows are fetched at most
 * once a second. Only this browser stores which alerts were read. Sound is off unless enabled; with sound on, a hidden
 * tab keeps fetching rows so that it can ring for alerts that pass the filters.
 */

import { counted, filled, follow, say, words } from "./common.js";
import { formatPoints } from "./prices.js";

const data = words("alerts-data");
const table = document.getElementById("alerts");
const region = document.getElementById("alerts-region");
const [pause, sound, read, pill, lost] = ["pause", "sound", "read", "pill", "lost"].map((id) => document.getElementById(id));
const READ = "outcry-alerts-read";
const SOUND = "outcry-alerts-sound";

const rows = () => [...table.querySelectorAll("tr[data-seq]")];
const seqOf = (row) => Number(row.dataset.seq);
/** Maximum number of rows on a page that stays open for days; older rows are on older pages. */
const MOST_ROWS = 500;

function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage is disabled
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // the page works without it
  }
}

// -- read alerts

let readUpTo = Number(kept(READ) ?? Math.max(0, ...rows().map(seqOf)));

function markUnread() {
  let unread = 0;
  for (const row of rows()) {
    const fresh = seqOf(row) > readUpTo;
    row.classList.toggle("is-unread", fresh);
    row.querySelector(".unread-mark").hidden = !fresh;
    unread += fresh;
  }
  read.hidden = unread === 0;
}

read.addEventListener("click", () => {
  readUpTo = Math.max(newest, ...rows().map(seqOf));
  keep(READ, readUpTo);
  markUnread();
  pause.focus();
});

// -- new rows

let newest = data.newest;
let held = [];
let paused = false;
let asking = false;
let again = false;
let asked = -Infinity;

const scrolled = () => table.getBoundingClientRect().top < 0;

async function fetchRows() {
  if (asking || (document.hidden && !soundOn())) {
    again = true;
    return;
  }
  asking = true;
  again = false;
  await new Promise((done) => setTimeout(done, Math.max(0, asked + 1000 - performance.now())));
  asked = performance.now();
  try {
    take(await rowsSince(newest));
  } catch {
    // the stream reports a lost and a restored connection
  }
  asking = false;
  if (again) fetchRows();
}

document.addEventListener("visibilitychange", () => !document.hidden && again && fetchRows());

/** Fetch all rows recorded since, newest first, in as many pages as needed up to the maximum. */
async function rowsSince(after) {
  const tables = [];
  let [before, count] = ["", 0];
  do {
    const query = new URLSearchParams({ after, ...(before && { before }) });
    const answer = await fetch(`${data.rows}${data.rows.includes("=") ? "&" : ""}${query}`);
    if (!answer.ok) throw new Error(String(answer.status));
    const table = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("table");
    tables.push(table);
    before = table.dataset.older;
    count += table.querySelectorAll("tr[data-seq]").length;
  } while (before && count < MOST_ROWS);
  return tables;
}

function take(tables) {
  newest = Math.max(newest, Number(tables[0].dataset.newest)); // of the first page, so that the next fetch returns alerts recorded after it
  const known = new Set([...rows(), ...held.flatMap((body) => [...body.querySelectorAll("tr[data-seq]")])].map(seqOf));
  const came = [];
  for (const row of tables.flatMap((table) => [...table.querySelectorAll("tr[data-seq]")])) {
    if (known.has(seqOf(row))) row.remove();
    else came.push(row);
  }
  if (!came.length) return;
  const bodies = tables.flatMap((table) => [...table.tBodies]).filter((body) => body.querySelector("tr[data-seq]"));
  held.unshift(...bodies.map((body) => document.importNode(body, true)));
  announce(came);
  if (paused || scrolled()) showPill();
  else showHeld();
}

function announce(came) {
  const critical = came.find((row) => row.dataset.severity === "critical");
  const row = critical ?? came[0];
  const event = row.querySelector(".alert-said strong").textContent;
  say(filled(data.words.arrived, { symbol: row.dataset.symbol, event }), { urgent: Boolean(critical) });
  if (soundOn()) ring(Boolean(critical));
}

const waiting = () => held.reduce((sum, body) => sum + body.querySelectorAll("tr[data-seq]").length, 0);

function showPill() {
  const count = waiting();
  pill.hidden = count === 0;
  pill.textContent = counted(data.words.new, count);
}

/** Insert the waiting rows, newest on top, under their days. */
function showHeld() {
  for (const body of held.reverse()) {
    for (const row of body.querySelectorAll("tr[data-seq]")) row.classList.add("is-new");
    const first = table.tBodies[0];
    if (first?.dataset.day === body.dataset.day) first.rows[0].after(...[...body.rows].slice(1));
    else table.tHead.after(body);
  }
  held = [];
  dropOldest();
  showPill();
  region.hidden = false;
  for (const id of ["alerts-empty", "alerts-quiet"]) document.getElementById(id)?.remove();
  markUnread();
}

/** Remove rows beyond the maximum; the link to older rows then leads to them. */
function dropOldest() {
  const dropped = rows().slice(MOST_ROWS);
  if (!dropped.length) return;
  for (const row of dropped) row.remove();
  for (const body of [...table.tBodies]) if (!body.querySelector("tr[data-seq]")) body.remove();
  const link = document.getElementById("alerts-older");
  const query = new URLSearchParams(location.search);
  query.set("before", Math.max(...dropped.map(seqOf)) + 1);
  link.href = `${location.pathname}?${query}`;
  link.closest("p").hidden = false;
  document.querySelector(".pager")?.remove();
}

pill.addEventListener("click", () => {
  if (paused) setPaused(false);
  showHeld();
  document.getElementById("alerts-page").scrollIntoView({ block: "start" });
  region.focus({ preventScroll: true });
});
addEventListener("scroll", () => held.length && !paused && !scrolled() && showHeld(), { passive: true });

function setPaused(value) {
  paused = value;
  pause.setAttribute("aria-pressed", String(value));
  pause.textContent = value ? data.words.resume : data.words.pause;
  if (value) say(data.words.paused, { asked: true });
  else if (!scrolled()) showHeld();
}

pause.addEventListener("click", () => setPaused(!paused));

// -- sound

let audio = null;

function soundOn() {
  return sound.getAttribute("aria-pressed") === "true";
}

/** Start or resume audio. Browsers allow it only after a gesture on the page and may suspend it. */
async function startAudio() {
  audio ??= new AudioContext();
  if (audio.state === "running") return;
  await Promise.race([audio.resume(), new Promise((done) => setTimeout(done, 1000))]);
}

async function ring(urgent) {
  await startAudio();
  if (audio.state !== "running") return; // no gesture yet, so the browser blocks audio
  const [start, tone, volume] = [audio.currentTime, audio.createOscillator(), audio.createGain()];
  tone.frequency.value = urgent ? 880 : 587;
  volume.gain.setValueAtTime(0.12, start);
  volume.gain.exponentialRampToValueAtTime(0.001, start + 0.4);
  tone.connect(volume).connect(audio.destination);
  tone.start(start);
  tone.stop(start + 0.4);
}

sound.setAttribute("aria-pressed", String(kept(SOUND) === "on"));
sound.addEventListener("click", () => {
  const on = !soundOn();
  sound.setAttribute("aria-pressed", String(on));
  keep(SOUND, on ? "on" : "off");
  if (on) ring(false);
});
// After a reload, sound may be enabled without a gesture on this page: the first gesture starts audio.
for (const gesture of ["pointerdown", "keydown"]) {
  addEventListener(gesture, () => soundOn() && startAudio(), { capture: true, once: true });
}

// -- the stream

function showNow(symbol, price) {
  for (const row of table.querySelectorAll(`tr[data-symbol="${CSS.escape(symbol)}"][data-level]`)) {
    const { kind, decimals, parts, level } = row.dataset;
    const notation = { kind, decimals: Number(decimals), parts: Number(parts) };
    row.querySelector("[data-now]").textContent =
      price === null ? "–" : formatPoints(price, Number(level), notation);
  }
}

function showLost() {
  const time = rows()[0]?.querySelector("time").textContent;
  lost.textContent = time ? filled(data.words.lost, { time }) : data.words.lost_none;
  lost.hidden = false;
  table.classList.add("is-stale");
}

function hear(name, event) {
  if (name === "snapshot") {
    for (const levels of event.levels) showNow(levels.symbol, levels.lastPrice);
    if (data.live) fetchRows();
  } else if (name === "quote" || name === "levels") {
    showNow(event.symbol, event.lastPrice);
  } else if (name === "alert" && data.live) {
    fetchRows();
  } else if (name === "lost") {
    showLost();
  } else if (name === "back") {
    lost.hidden = true;
    table.classList.remove("is-stale");
    if (data.live) fetchRows();
  }
}

follow(null, hear, { whileHidden: () => data.live && soundOn() });

for (const button of data.live ? [pause, sound] : []) button.hidden = false;
markUnread();
