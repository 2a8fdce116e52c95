/* Webhook page: reload the deliveries regularly while one is pending.
 *
 * Open details and fields in use stay unchanged; a hidden page sends no requests. */

import { swap } from "./common.js";

const EVERY_MS = 3000;

/** Whether the user is reading or using something in the regions that would be replaced. */
function inUse() {
  const held = document.activeElement?.closest("[data-region]");
  return held || document.querySelector("[data-region] details[open]") !== null || !getSelection().isCollapsed;
}

setInterval(() => {
  const waits = document.querySelector("#stand[data-waits]") !== null;
  if (waits && document.visibilityState === "visible" && !inUse()) swap(location.href, { keep: true });
}, EVERY_MS);
