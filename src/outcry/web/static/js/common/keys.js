/** Keyboard shortcuts and their two dialogs: `/` search symbols, `?` list shortcuts, `g l` and `g a` open pages.
 *
 * Shortcuts are inactive while the user types or a dialog is open, and if they are turned off (`<html
 * data-shortcuts>`). Every shortcut has a link or button with the same effect.
 */

const pages = { l: "/", a: "/alerts" };
const registered = new Map();
let afterG = 0;

/** Bind a key on this page; returns a function that removes it. */
export function onKey(key, action) {
  registered.set(key, action);
  return () => registered.delete(key);
}

function typing(target) {
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.documentElement.dataset.shortcuts === "off") return;
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  const key = event.key;
  if (event.timeStamp - afterG < 1000 && afterG && pages[key]) {
    afterG = 0;
    location.assign(pages[key]);
    return;
  }
  afterG = key === "g" ? event.timeStamp : 0;
  const action = registered.get(key);
  if (action) {
    event.preventDefault();
    action(event);
  }
});

function open(dialog) {
  if (!dialog.open) dialog.showModal();
}

// -- list of shortcuts

const keysDialog = document.getElementById("keys-dialog");
const showKeys = document.getElementById("show-keys");
showKeys.hidden = false;
showKeys.addEventListener("click", () => open(keysDialog));
onKey("?", () => open(keysDialog));

// -- symbol search: the list narrows as the user types

const dialog = document.getElementById("symbol-dialog");
const input = document.getElementById("symbol-dialog-input");
const list = document.getElementById("symbol-dialog-list");
const nothing = document.getElementById("symbol-dialog-nothing");
let symbols = null;
let chosen = -1;

async function ask() {
  if (symbols) return;
  try {
    const answer = await fetch("/page/symbols");
    symbols = answer.ok ? (await answer.json()).symbols : null;
  } catch {
    symbols = null; // without the list, the form still opens the symbol that the user typed
  }
  show();
}

function matches(text) {
  const wanted = text.trim().toLowerCase();
  const rank = (each) => {
    const names = [each.symbol, each.contract ?? "", ...each.micro].map((name) => name.toLowerCase());
    if (names.includes(wanted)) return 0;
    if (names.some((name) => name.startsWith(wanted))) return 1;
    return each.name.toLowerCase().includes(wanted) || each.sector.includes(wanted) ? 2 : 3;
  };
  return (symbols ?? [])
    .map((each) => [rank(each), each])
    .filter(([found]) => found < 3)
    .sort((a, b) => a[0] - b[0])
    .map(([, each]) => each);
}

function show() {
  const found = matches(input.value).slice(0, 40);
  list.replaceChildren(...found.map(option));
  nothing.hidden = !symbols || found.length > 0;
  input.setAttribute("aria-expanded", String(found.length > 0));
  choose(found.length && input.value ? 0 : -1);
}

function option(each, index) {
  const row = document.createElement("div");
  row.id = `symbol-option-${index}`;
  row.setAttribute("role", "option");
  row.dataset.symbol = each.symbol;
  const ticker = document.createElement("b");
  ticker.textContent = each.symbol;
  const name = document.createElement("span");
  name.textContent = each.name;
  row.append(ticker, name);
  return row;
}

function choose(index) {
  chosen = index;
  [...list.children].forEach((row, at) => row.setAttribute("aria-selected", String(at === index)));
  const row = list.children[index];
  if (row) {
    row.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", row.id);
  } else {
    input.removeAttribute("aria-activedescendant");
  }
}

function goToSymbol() {
  input.value = "";
  list.replaceChildren();
  open(dialog);
  input.focus();
  if (symbols) show();
  else ask();
}

input.addEventListener("input", show);
input.addEventListener("keydown", (event) => {
  const count = list.children.length;
  if (event.key === "ArrowDown" && count) choose((chosen + 1) % count);
  else if (event.key === "ArrowUp" && count) choose((chosen - 1 + count) % count);
  else if (event.key === "Enter" && chosen >= 0) {
    location.assign(`/s/${encodeURIComponent(list.children[chosen].dataset.symbol)}`);
  } else return;
  event.preventDefault();
});
list.addEventListener("click", (event) => {
  const row = event.target.closest("[role=option]");
  if (row) location.assign(`/s/${encodeURIComponent(row.dataset.symbol)}`);
});
document.getElementById("go-to-symbol").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  goToSymbol();
});
onKey("/", goToSymbol);
