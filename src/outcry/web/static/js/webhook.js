/* A webhook's page follows what becomes of it: while something waits there, it is looked at anew.
 *
 * Rules kept: what somebody has opened or is using stays as it is; a page nobody sees asks nothing. */

import { swap } from "./swap.js";

const EVERY_MS = 3000;

/** Something in what would be exchanged is being read or used. */
function inUse() {
  const held = document.activeElement?.closest("[data-region]");
  return held || document.querySelector("[data-region] details[open]") !== null || !getSelection().isCollapsed;
}

setInterval(() => {
  const waits = document.querySelector("#stand[data-waits]") !== null;
  if (waits && document.visibilityState === "visible" && !inUse()) swap(location.href, { keep: true });
}, EVERY_MS);
