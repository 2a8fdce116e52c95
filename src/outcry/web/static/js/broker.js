/* Connection pages: reload the state of each connection regularly.
 *
 * Open details and fields in use stay unchanged; a hidden page sends no requests. Without scripts there is a Refresh
 * link. */

import { swap } from "./common.js";

const EVERY_MS = 3000;

/** Whether the user is reading or using something in the regions that would be replaced. */
function inUse() {
  const held = document.activeElement?.closest("[data-region]");
  return held || !getSelection().isCollapsed;
}

setInterval(() => {
  if (document.visibilityState === "visible" && !inUse()) swap(location.href, { keep: true });
}, EVERY_MS);
