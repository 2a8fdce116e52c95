/* Above each session its day and kind of day, below it how wide it was: as much as there is room for. */

import { dayNumber } from "../wording.js";

const EDGE = 8;
/* Narrower than this, in pixels of the page, a session has no caption of its own: its week has. */
const NARROW = 26;

export function paintCaptions(frame) {
  const { context, g, model } = frame;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const weeks = narrow(frame);
  model.sessions.forEach((day, place) => {
    if (!g.seesAcross(day.first, day.end) || (weeks && !beginsWeek(model, day))) return;
    const last = weeks ? weekOf(model.sessions, place) : day;
    const end = Math.min(g.slot(last.end), frame.right);
    const left = Math.max(g.slot(day.open), g.px(EDGE));
    const room = end - left - g.px(4);
    const head = weeks ? paintWeek(frame, day, left, room) : paintHead(frame, day, left, room);
    const foot = weeks ? "" : paintFoot(frame, day, left, room);
    frame.notes.add("captions", { date: day.date, head, foot, left: left / g.ratio, right: end / g.ratio });
  });
}

/* Whether sessions are too narrow for captions. */
export function narrow({ g, model }) {
  const { sessions, times } = model;
  return (times.length * g.step) / Math.max(1, sessions.length) < g.px(NARROW);
}

/* Whether a day is the first shown of its week. */
export function beginsWeek(model, day) {
  const before = model.days[model.days.indexOf(day) - 1];
  return !before || monday(before.date) !== monday(day.date);
}

function weekOf(sessions, place) {
  let last = place;
  while (last + 1 < sessions.length && monday(sessions[last + 1].date) === monday(sessions[place].date)) last += 1;
  return sessions[last];
}

function monday(date) {
  const days = Math.floor(Date.parse(date) / 86_400_000);
  return days - ((days + 3) % 7);
}

function paintWeek(frame, day, left, room) {
  const { context, g, look } = frame;
  context.font = `600 ${g.px(11)}px ${look.sans}`;
  const texts = [look.wording.dayMonth(day.date), look.wording.shortDate(day.date), dayNumber(day.date)];
  return put(frame, texts.find((words) => context.measureText(words).width <= room), left);
}

function put({ context, g, look }, text, left) {
  if (text === undefined) return "";
  context.fillStyle = look.colours["fg-1"];
  context.fillText(text, left, g.px(16));
  return text;
}

function paintHead(frame, day, left, room) {
  const { context, g, look, model } = frame;
  const { wording } = look;
  const today = day === model.last && !day.facts.final;
  const whole = today ? `${wording.words.today}, ${wording.day(day.date)}` : wording.day(day.date);
  const y = g.px(16);
  context.font = `600 ${g.px(12)}px ${look.sans}`;
  const text = [whole, wording.day(day.date), dayNumber(day.date)].find((words) => context.measureText(words).width <= room);
  if (text === undefined) return "";
  put(frame, text, left);
  const used = context.measureText(text).width + g.px(8);
  const kind = kindOf(day, wording);
  context.font = `${g.px(11)}px ${look.sans}`;
  if (!kind || text !== whole || used + context.measureText(kind).width > room) return text;
  context.fillStyle = look.colours["fg-3"];
  context.fillText(kind, left + used, y);
  return `${text} ${kind}`;
}

function kindOf(day, wording) {
  const { levels } = day.facts;
  if (!levels) return wording.words.before;
  if (!levels.dayTypeFinal && !day.facts.final) return wording.words.developing;
  return wording.words.days[levels.dayType] ?? "";
}

function paintFoot(frame, day, left, room) {
  const { levels } = day.session;
  if (!levels) return "";
  const { context, g, look, model } = frame;
  const { foot } = look.wording.words;
  const { notation } = model.answer;
  const span = (high, low) => look.wording.span(high - low, notation);
  const parts = [
    `${foot.range} ${span(levels.high, levels.low)}`, `${foot.ib} ${span(levels.ibHigh, levels.ibLow)}`,
    `${foot.value} ${span(levels.vah, levels.val)}`,
  ];
  context.font = `${g.px(11)}px ${look.mono}`;
  while (parts.length && context.measureText(parts.join("  ")).width > room) parts.pop();
  const text = parts.join("  ");
  context.fillStyle = look.colours["fg-3"];
  context.fillText(text, left, frame.height - g.px(12));
  return text;
}
