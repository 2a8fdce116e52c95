/** One event stream for all tabs of a browser.
 *
 *     const stop = follow(["ES"], (name, data) => …);     // null: all symbols the user may see
 *
 * Event names are those of the stream (snapshot, levels, quote, alert, state), plus `lost` and `back` with {at}: the time
 * of the last event (ms). A follower's first event is a snapshot of its symbols; a further snapshot replaces all data.
 *
 * The tabs of one sign-in (`<html data-line>`) elect a leader by a lock; tabs of different sign-ins never share data. The
 * leader opens the stream for all symbols that any tab needs and passes every event on (BroadcastChannel). Every tab
 * stores the data, so any tab can become leader and resume from the last event, and late followers start from memory.
 * Without locks (plain http under a host name) each tab has its own stream while it is visible, or while a follower
 * needs events in a hidden tab.
 */

import { Line } from "./line.js";

/** Maximum number of stored alerts: more than a snapshot contains, for a page that stays open for days. */
const MOST_ALERTS = 1000;
const ours = `outcry-stream-${document.documentElement.dataset.line}`;
const me = crypto.getRandomValues(new Uint32Array(2)).join("-");
const shared = "locks" in navigator && "BroadcastChannel" in window;
const followers = new Set();
/** Received data: newest levels and state by symbol; alerts, newest first; `lost`: time of the last event (ms). */
const known = { symbols: undefined, id: "", updatedAt: null, levels: new Map(), states: new Map(), alerts: [], lost: null };
/** The symbols each tab needs; maintained by the leader only. */
const wants = new Map();
let channel = null;
let line = null;
let giveUp = null;
let settling = 0;

/** Follow symbols (tickers as in answers), or all; returns a function that stops. `whileHidden`: also deliver events
 * while the tab is hidden.
 */
export function follow(symbols, listener, { whileHidden = () => false } = {}) {
  const follower = { symbols: symbols === null ? null : new Set(symbols), listener, whileHidden, served: false };
  followers.add(follower);
  if (followers.size === 1) begin();
  else want();
  queueMicrotask(serve);
  return () => {
    followers.delete(follower);
    if (followers.size) want();
    else end();
  };
}

const covers = (told, wanted) => told === null || (told !== undefined && wanted !== null && [...wanted].every((s) => told.has(s)));

function wanted() {
  const all = [...followers].map((each) => each.symbols);
  return all.includes(null) ? null : new Set(all.flatMap((each) => [...each]));
}

// -- notify followers

/** Send a snapshot from memory to followers that have none yet. */
function serve() {
  for (const follower of followers) {
    if (follower.served || !covers(known.symbols, follower.symbols)) continue;
    follower.served = true;
    const mine = (each) => follower.symbols === null || follower.symbols.has(each.symbol);
    follower.listener("snapshot", {
      updatedAt: known.updatedAt,
      levels: [...known.levels.values()].filter(mine),
      states: [...known.states.values()].filter(mine),
      alerts: known.alerts.filter(mine),
    });
    if (known.lost !== null) follower.listener("lost", { at: known.lost });
  }
}

function tell(name, data) {
  for (const follower of followers) {
    const { served, symbols, listener } = follower;
    if (data.symbol ? served && (symbols === null || symbols.has(data.symbol)) : true) listener(name, data);
  }
}

/** Apply one event, received directly or from another tab. `symbols`: the symbols of a snapshot. */
function hear({ name, data, id, symbols }) {
  if (id) known.id = id;
  if (name === "snapshot") return hearSnapshot(data, symbols);
  if (name === "lost" || name === "back") known.lost = name === "lost" ? data.at : null;
  if (name === "levels") known.levels.set(data.symbol, data);
  if (name === "quote") known.levels.set(data.symbol, { ...known.levels.get(data.symbol), ...data });
  if (name === "state") known.states.set(data.symbol, data);
  if (name === "alert" && !remember(data)) return undefined;
  return tell(name, data);
}

/** Whether an alert is new. The same alert of a personal and of a shared feed counts as two. */
function remember(alert) {
  const old = known.alerts.some((each) => each.key === alert.key && each.dataSource === alert.dataSource);
  if (!old) known.alerts.unshift(alert);
  known.alerts.splice(MOST_ALERTS);
  return !old;
}

function hearSnapshot(data, symbols) {
  known.symbols = symbols;
  known.updatedAt = data.updatedAt;
  known.levels = new Map(data.levels.map((each) => [each.symbol, each]));
  known.states = new Map(data.states.map((each) => [each.symbol, each]));
  if (!data.resumed) known.alerts = [];
  for (const alert of [...data.alerts].reverse()) remember(alert);
  for (const follower of followers) follower.served = false;
  serve();
}

// -- between tabs

function begin() {
  if (!shared) return beginAlone();
  channel = new BroadcastChannel(ours);
  channel.onmessage = ({ data }) => receive(data);
  const ended = new Promise((resolve) => (giveUp = resolve));
  const still = new AbortController();
  ended.then(() => still.abort());
  navigator.locks.request(`outcry-tab-${me}`, () => ended);
  navigator.locks.request(ours, { signal: still.signal }, () => lead(ended)).catch(() => {});
  want();
}

function end() {
  line?.close();
  line = null;
  if (!shared) return;
  post({ about: "bye" });
  channel?.close();
  channel = null;
  giveUp?.();
  Object.assign(known, { symbols: undefined, levels: new Map(), states: new Map(), alerts: [], lost: null });
  wants.clear();
}

const post = (message) => channel?.postMessage({ from: me, ...message });

/** Report this tab's symbols to the leader. */
function want() {
  const symbols = wanted();
  wants.set(me, symbols);
  if (!shared) return line?.want(symbols);
  post({ about: "want", symbols });
  if (line) settle();
}

function receive(message) {
  if (message.about === "event") hear(message);
  else if (message.about === "who") want();
  else if (line && message.about === "want") {
    wants.set(message.from, message.symbols);
    post({ about: "memory", to: message.from, known });
    settle();
  } else if (line && message.about === "bye") {
    wants.delete(message.from);
    settle(10_000);
  } else if (message.about === "memory" && message.to === me && known.symbols === undefined) {
    Object.assign(known, message.known);
    serve();
  }
}

// -- leading

async function lead(ended) {
  line = new Line(known, (event) => {
    post({ about: "event", ...event });
    hear(event);
  });
  post({ about: "who" });
  settle(60);
  const check = setInterval(prune, 15_000);
  await ended;
  clearInterval(check);
  line?.close();
  line = null;
}

/** Remove tabs that closed without a message. */
async function prune() {
  const { held } = await navigator.locks.query();
  const alive = new Set(held.map((lock) => lock.name));
  for (const tab of wants.keys()) if (tab !== me && !alive.has(`outcry-tab-${tab}`)) wants.delete(tab);
  settle(10_000);
}

/** Keep the stream of all needed symbols: grow at once, shrink after a delay. */
function settle(delay = 30) {
  clearTimeout(settling);
  settling = setTimeout(() => {
    const all = [...wants.values()];
    const symbols = all.includes(null) ? null : new Set(all.flatMap((each) => [...each]));
    if (line && !covers(line.symbols, symbols)) line.want(symbols);
    else if (line && delay >= 10_000) line.want(symbols);
  }, delay);
}

// -- without locks

function beginAlone() {
  line = new Line(known, hear);
  want();
  if (idle()) line.close();
}

/** Whether no events are needed: the tab is hidden, and no follower needs events in a hidden tab. */
function idle() {
  return document.hidden && ![...followers].some((each) => each.whileHidden());
}

document.addEventListener("visibilitychange", () => {
  if (shared || !line) return;
  if (idle()) line.close();
  else line.want(wanted());
});
addEventListener("pagehide", () => followers.size && end());
addEventListener("pageshow", (event) => {
  if (!event.persisted || !followers.size) return;
  for (const follower of followers) follower.served = false;
  begin();
});
