/** Marks a page as offline while the service is unreachable: no chip claims to be live.
 *
 * The texts are the server's, in the page's `<template id="lost-chip">`. The previous content returns with the
 * connection, and the page fetches what changed meanwhile.
 */

const kept = new Map();

/** Replace live chips and counts with the offline ones, by shape and text. */
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

/** Restore the previous chips and counts. */
export function findChips() {
  for (const [chip, { title, nodes }] of kept) {
    chip.classList.replace("lost", "live");
    chip.title = title;
    chip.replaceChildren(...nodes);
  }
  kept.clear();
}

/** Format a time (ms) in the exchange's zone: `14:03:07 EST`, in every language. */
export function exchangeTime(at, zone) {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone, hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  }).formatToParts(at);
  const part = (type) => parts.find((each) => each.type === type).value;
  return `${part("hour")}:${part("minute")}:${part("second")} ${part("timeZoneName")}`;
}
