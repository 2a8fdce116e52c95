/* Captions: date and day type above each session, its ranges below, shortened to the available room. */

import { dayNumber } from "../wording.js";

const EDGE = 8;
/* Below this width, a session is labelled with its day number only. */
const TIGHT = 60;
/* Minimum space between the captions of two sessions. */
const APART = 12;
/* Heights of the caption strips above and below the prices, in pixels of the page. */
export const HEAD = 28;
export const FOOT = 24;
/* Below this width in pixels of the page, only weeks have captions. */
const NARROW = 26;

export function paintCaptions(frame) {
  const { context, g, look, model } = frame;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const weeks = narrow(frame);
  model.sessions.forEach((day, place) => {
    if (!g.seesAcross(day.first, day.end) || (weeks && !beginsWeek(model, day))) return;
    const last = weeks ? weekOf(model.sessions, place) : day;
    const end = Math.min(g.slot(last.end), frame.right);
    const left = Math.max(g.slot(day.open), g.px(EDGE));
    const next = model.days[model.days.indexOf(last) + 1];
    // up to the next session's open, where its caption begins, or over the tags' area after the last session
    const room = (next ? Math.min(g.slot(next.open), frame.right) - g.px(APART) : frame.width - g.px(4)) - left;
    const dated = dateWithMonth(frame, place) ? look.wording.dayMonth(day.date) : look.wording.day(day.date);
    const head = weeks ? paintWeek(frame, day, left, room) : paintHead(frame, day, left, room, dated);
    const foot = weeks ? "" : paintFoot(frame, day, left, room);
    frame.notes.add("captions", { date: day.date, head, foot, left: left / g.ratio, right: end / g.ratio });
  });
}

/* Whether a caption needs the month: each month's first session, and the first one in view if the view spans several months
   or starts in another year. */
function dateWithMonth({ model: { sessions }, g, look }, place) {
  const month = (day) => day.date.slice(0, 7);
  const before = sessions[place - 1];
  if (before && g.slot(before.open) >= g.px(EDGE)) return month(before) !== month(sessions[place]);
  return month(sessions[place]) !== month(sessions.at(-1)) || !look.wording.isOfThisYear(sessions[place].date);
}

/* Whether sessions are too narrow for captions. */
export function narrow({ g, model }) {
  const { sessions, times } = model;
  return (times.length * g.step) / Math.max(1, sessions.length) < g.px(NARROW);
}

/* Whether a day is the first one shown of its week. */
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

function paintHead(frame, day, left, room, dated) {
  const { context, g, look, model } = frame;
  const { wording } = look;
  const today = day === model.last && !day.facts.final;
  const kind = kindOf(day, wording);
  const [bold, light] = [`600 ${g.px(12)}px ${look.sans}`, `${g.px(11)}px ${look.sans}`];
  const gap = g.px(8);
  const wide = (font, words) => {
    context.font = font;
    return context.measureText(words).width;
  };
  const names = [...(today ? [`${wording.words.today}, ${dated}`] : []), dated];
  const both = kind && names.find((words) => wide(bold, words) + gap + wide(light, kind) <= room);
  const tight = !today && (day.end - day.first) * g.step < g.px(TIGHT); // narrow captions all use the same short form
  const alone = [...(tight ? [] : names), ...shorter(day, dated, wording)];
  const text = both || alone.find((words) => wide(bold, words) <= room + g.px(APART - 4));
  if (text === undefined) return "";
  context.font = bold;
  put(frame, text, left);
  if (!both) return text;
  const used = context.measureText(text).width + gap;
  context.font = light;
  context.fillStyle = look.colours["fg-3"];
  context.fillText(kind, left + used, g.px(16));
  return `${text} ${kind}`;
}

/* The day number, with its month if there is room. */
function shorter({ date }, dated, wording) {
  return dated === wording.day(date) ? [dayNumber(date)] : [wording.monthDay(date), wording.shortDate(date), dayNumber(date)];
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
