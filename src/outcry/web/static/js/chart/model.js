/* The layout of a chart answer: whole ticks instead of prices, and slots of one period each instead of times.

   No market data is computed here. A bracket has a letter in every row from its low to its high, by definition. Grouping
   rows joins their letters; levels stay at their exact prices.

   Every session has one slot per period from its open to its close, so that a profile never leaves its session. Before
   them are GUTTER slots for its overnight session. Days without data are a gap. The library receives the exchange's
   local time as if it were UTC. */

export const PERIOD_S = 1800;
const GUTTER = 4;
const NO_GUTTER = 1;
const GAP = 6;

const known = new WeakMap();

/* Convert prices to whole ticks and back to exactly the service's numbers. */
function unitsOf(answer) {
  const tick = Math.round(answer.tickSize * 1e9);
  return {
    ticks: (price) => Math.round((price * 1e9) / tick),
    price: (ticks) => (ticks * tick) / 1e9,
  };
}

/* Merge a newer answer into an older one of the same contract. Sessions missing in the newer answer stay, and equal
   objects are reused. Answers of different contracts are not merged. */
export function merge(old, newer) {
  if (!old || old.symbol !== newer.symbol || old.contract !== newer.contract || !newer.sessions.length) return newer;
  const before = new Map(old.sessions.map((session) => [session.date, session]));
  const sessions = newer.sessions.map((session) => {
    const same = before.get(session.date);
    return same && JSON.stringify(same) === JSON.stringify(session) ? same : session;
  });
  const dates = new Set(sessions.map((session) => session.date));
  const kept = old.sessions.filter((session) => !dates.has(session.date));
  const all = [...kept, ...sessions].sort((a, b) => (a.date < b.date ? -1 : 1));
  const first = newer.sessions[0].date;
  const missing = [...old.missing.filter((day) => day < first), ...newer.missing];
  const shown = new Set(all.map((session) => session.date));
  return { ...newer, sessions: all, missing: missing.filter((day) => !shown.has(day) && day > all[0].date) };
}

/* Lay out the answer as days in slots. `overnight`: whether gutters are wide enough to draw the overnight session. */
export function layOut(answer, overnight) {
  const units = unitsOf(answer);
  const days = [];
  const times = [];
  for (const part of inOrder(answer)) {
    const day = part.session
      ? { ...part, facts: factsOf(part.session, units), gutter: overnight ? GUTTER : NO_GUTTER }
      : { ...part, facts: null, gutter: 0, slots: GAP };
    day.first = times.length;
    day.open = day.first + day.gutter;
    if (day.facts) day.slots = day.facts.slots;
    day.end = day.open + day.slots;
    layTimes(times, day, answer.timeZone);
    days.push(day);
  }
  const sessions = days.filter((day) => day.facts);
  return { answer, units, days, sessions, times, last: sessions.at(-1) ?? null, at: new Map(times.map((t, i) => [t, i])) };
}

/* Return the day of a slot. */
export function dayAt(model, slot) {
  return model.days.find((day) => slot >= day.first && slot < day.end) ?? null;
}

/* Return the letters of each row as indexes into the day's brackets. A row is `size` ticks, counted from zero. */
export function rowsOf(facts, size) {
  const cached = facts.rows.get(size);
  if (cached) return cached;
  const rows = new Map();
  facts.brackets.forEach((bracket, place) => {
    for (let row = Math.floor(bracket.low / size); row <= Math.floor(bracket.high / size); row += 1) {
      const found = rows.get(row);
      if (found) found.push(place);
      else rows.set(row, [place]);
    }
  });
  facts.rows.set(size, rows);
  return rows;
}

/* Return the volume of each row. */
export function volumesOf(facts, size) {
  return sums(facts.volumes, facts.low, size);
}

/* Return the number of overnight brackets at each row. */
export function nightOf(night, size) {
  const rows = new Map();
  for (const bracket of night.brackets) {
    for (let row = Math.floor(bracket.low / size); row <= Math.floor(bracket.high / size); row += 1) {
      rows.set(row, (rows.get(row) ?? 0) + 1);
    }
  }
  return rows;
}

function sums(volumes, low, size) {
  const rows = new Map();
  volumes.forEach((lots, place) => {
    const row = Math.floor((low + place) / size);
    if (lots) rows.set(row, (rows.get(row) ?? 0) + lots);
  });
  return rows;
}

function inOrder(answer) {
  const parts = [
    ...answer.sessions.map((session) => ({ date: session.date, session })),
    ...answer.missing.map((date) => ({ date, session: null, until: date })),
  ].sort((a, b) => (a.date < b.date ? -1 : 1));
  return parts.filter((part, place) => {
    const before = place ? parts[place - 1] : null;
    if (part.session || !before || before.session) return true;
    parts[place] = before; // consecutive missing days are one gap
    before.until = part.until;
    return false;
  });
}

function factsOf(session, units) {
  const found = known.get(session);
  if (found) return found;
  const open = Date.parse(session.open);
  let slot = -1;
  const brackets = session.brackets.map((bracket) => {
    const due = Math.floor((Date.parse(bracket.start) - open) / (PERIOD_S * 1000));
    slot = Math.max(slot + 1, due);
    return { letter: bracket.letter, slot, ...pricesOf(bracket, units) };
  });
  const periods = Math.ceil((Date.parse(session.close) - open) / (PERIOD_S * 1000));
  const facts = {
    session, brackets, slots: Math.max(periods, slot + 1, 1), low: session.low === null ? 0 : units.ticks(session.low),
    volumes: session.volumes, levels: session.levels && levelsOf(session.levels, units), rows: new Map(),
    path: session.path.map((point) => ({
      letter: point.letter, poc: units.ticks(point.poc), vah: units.ticks(point.vah), val: units.ticks(point.val),
    })),
    night: session.overnight && nightFacts(session.overnight, units),
    poorHigh: session.poorHigh, poorLow: session.poorLow, final: session.final,
    balanced: Boolean(session.levels && (session.final || session.levels.ibComplete)),
    extensions: session.ibExtensions.map((extension) => ({
      ...extension, up: units.ticks(extension.up), down: units.ticks(extension.down),
    })),
  };
  const tops = [facts.levels?.high, facts.night?.high].filter((ticks) => ticks !== undefined);
  const lows = [facts.levels?.low, facts.night?.low].filter((ticks) => ticks !== undefined);
  facts.top = tops.length ? Math.max(...tops) : null;
  facts.bottom = lows.length ? Math.min(...lows) : null;
  known.set(session, facts);
  return facts;
}

function pricesOf(bar, units) {
  return { open: units.ticks(bar.open), high: units.ticks(bar.high), low: units.ticks(bar.low), close: units.ticks(bar.close) };
}

function levelsOf(levels, units) {
  const { ticks } = units;
  return {
    poc: ticks(levels.poc), vah: ticks(levels.vah), val: ticks(levels.val), vpoc: ticks(levels.vpoc),
    ibHigh: ticks(levels.ibHigh), ibLow: ticks(levels.ibLow), high: ticks(levels.high), low: ticks(levels.low),
    open: ticks(levels.openPrice), close: ticks(levels.closePrice),
    dayType: levels.dayType, dayTypeFinal: levels.dayTypeFinal,
    singles: levels.singlePrints.map((zone) => ({ low: ticks(zone.low), high: ticks(zone.high) })),
  };
}

function nightFacts(night, units) {
  return {
    high: units.ticks(night.high), low: units.ticks(night.low),
    brackets: night.brackets.map((bracket) => ({ letter: bracket.letter, ...pricesOf(bracket, units) })),
  };
}

/* Times of a day's slots, each later than the one before. A gutter belongs to the evening before, so that the axis
   writes the day at its open. */
function layTimes(times, day, zone) {
  const opens = day.session ? wallClock(Date.parse(day.session.open), zone) : Date.parse(day.date) / 1000;
  const latest = times.length ? times.at(-1) : opens - 86400;
  for (let slot = day.first; slot < day.open; slot += 1) times.push(latest + 1 + slot - day.first);
  for (let slot = day.open; slot < day.end; slot += 1) {
    times.push(Math.max(opens + (slot - day.open) * PERIOD_S, (times.at(-1) ?? opens - 1) + 1));
  }
}

/* Convert a time (ms) to local clock time, expressed as if it were UTC (s). */
export function wallClock(at, zone) {
  const parts = clockOf(zone).formatToParts(at);
  const read = Object.fromEntries(parts.map((part) => [part.type, Number(part.value)]));
  return Date.UTC(read.year, read.month - 1, read.day, read.hour, read.minute, read.second) / 1000;
}

const clocks = new Map();

function clockOf(zone) {
  if (!clocks.has(zone)) {
    clocks.set(zone, new Intl.DateTimeFormat("en-US", {
      timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
      hour: "numeric", minute: "numeric", second: "numeric",
    }));
  }
  return clocks.get(zone);
}
