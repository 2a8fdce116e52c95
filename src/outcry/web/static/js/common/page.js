/** Behaviour of every page: theme, copy buttons, form error summary, ages and announcements.
 *
 * Pages work without this script. Texts come from the server; only numbers change here.
 */

import "./keys.js";

/** The texts in a JSON block of the page. */
export function words(id) {
  const block = document.getElementById(id);
  return block ? JSON.parse(block.textContent) : {};
}

/** Fill the values into a server text such as "as of {time}". */
export function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** The page's language, for numbers and times. */
export const language = document.documentElement.lang || "en";

/** Return a text with a number: picks the plural form by category and fills in `{count}`. */
export function counted(forms, count) {
  const form = forms[new Intl.PluralRules(language).select(count)] ?? forms.other;
  return filled(form, { count: new Intl.NumberFormat(language).format(count) });
}

const EVERY_MS = 5000;
let waiting = "";
let timer = 0;

/** Announce a text to screen readers. Announcements are at least five seconds apart; the newest replaces a waiting one.
 * `asked`: announced at once, because the user pressed a key or button. `urgent`: at once, interrupting speech.
 */
export function say(text, { urgent = false, asked = false } = {}) {
  if (urgent) document.getElementById("said-now").textContent = text;
  else if (asked || !timer) speak(text);
  else waiting = text;
}

function speak(text) {
  document.getElementById("said").textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => {
    timer = 0;
    const next = waiting;
    waiting = "";
    if (next) speak(next);
  }, EVERY_MS);
}

// -- current market time, from the server's clock

const block = document.documentElement.dataset.now;
const ahead = block ? Date.parse(block) - Date.now() : 0;

/** Current time of the market shown, in ms; used to detect stale data. */
export function marketNow() {
  return Date.now() + ahead;
}

/** Format an age in language-independent units: 0.3 s, 4 min, 2 h, 3 d. Matches `web/figures.py`; one table of cases
 * tests both.
 */
function age(ms) {
  const tenths = Math.max(0, Math.round(ms / 100));
  const [s, tens] = [tenths / 10, Math.round(tenths / 10)];
  if (tenths < 100) return `${s.toFixed(1)} s`;
  if (tens < 100) return `${tens} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 129_600 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86_400)} d`;
}

/** Update all ages within an element. */
export function refreshAges(part = document) {
  const now = marketNow();
  for (const time of part.querySelectorAll("time[data-since]")) {
    const at = Date.parse(time.dateTime);
    const text = Number.isNaN(at) ? "" : age(now - at);
    if (time.textContent !== text) time.textContent = text;
  }
}

// -- theme: applied at once, stored by the server

function switchTheme() {
  const form = document.getElementById("theme-form");
  form?.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button) return;
    event.preventDefault();
    document.documentElement.dataset.theme = button.value;
    for (const each of form.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button));
    document.dispatchEvent(new Event("themechange"));
    const data = new URLSearchParams(new FormData(form, button));
    fetch(form.action, { method: "POST", body: data, redirect: "manual" }).catch(() => {});
  });
}

// -- copying

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const said = words("base-words");
  try {
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    say(said.copied, { asked: true });
    const label = button.textContent;
    button.textContent = "✓";
    setTimeout(() => (button.textContent = label), 1200);
  } catch {
    getSelection().selectAllChildren(source);
    say(said.not_copied, { urgent: true });
  }
}

function prepare(part = document) {
  for (const button of part.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (button) copy(button);
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// -- scroll the selected choice into view

function showChosen() {
  for (const line of document.querySelectorAll(".nav, .tabs, .segments")) {
    const chosen = line.querySelector(":scope > [aria-current], :scope > [aria-pressed=true]");
    if (!chosen || line.scrollWidth <= line.clientWidth) continue;
    const [outer, inner] = [line.getBoundingClientRect(), chosen.getBoundingClientRect()];
    line.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }
}

switchTheme();
prepare();
showChosen();
document.getElementById("errors")?.focus();
refreshAges();
setInterval(() => document.hidden || refreshAges(), 1000);
