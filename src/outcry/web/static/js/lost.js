/** What a page says while nothing is heard from the service: no chip claims that it is live, and since when that is.
 *
 * Rules kept: the words are the server's, in the page's `<template id="lost-chip">`; what stood there comes back with the
 * connection, and what has changed meanwhile the page takes anew.
 */

const kept = new Map();

/** Chips, and counts of them, that say live, say the contrary: in shape and word, at once. */
export function loseChips() {
  const sign = document.getElementById("lost-chip").content;
  for (const live of document.querySelectorAll(".chip.live, .count.live")) {
    const shown = sign.querySelector(live.classList.contains("chip") ? ".chip" : ".count").cloneNode(true);
    const number = shown.querySelector(".number");
    if (number) number.textContent = live.querySelector(".number").textContent;
    kept.set(live, { title: live.title, nodes: [...live.childNodes] });
    live.classList.replace("live", "lost");
    live.title = shown.title;
    live.replaceChildren(...shown.childNodes);
  }
}

/** What stood there before stands there again. */
export function findChips() {
  for (const [chip, { title, nodes }] of kept) {
    chip.classList.replace("lost", "live");
    chip.title = title;
    chip.replaceChildren(...nodes);
  }
  kept.clear();
}

/** An instant (ms) as the exchange's clock shows it: `14:03:07 EST`, in every language. */
export function exchangeTime(at, zone) {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone, hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  }).formatToParts(at);
  const part = (type) => parts.find((each) => each.type === type).value;
  return `${part("hour")}:${part("minute")}:${part("second")} ${part("timeZoneName")}`;
}
