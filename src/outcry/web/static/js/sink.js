/* Live updates of the test receiver's page: new messages appear without a reload.
 *
 * Open details and fields in use stay unchanged; a hidden page sends no requests. Without scripts there is a Refresh
 * link.
 */

import { onSwap, swap } from "./common.js";

const EVERY_MS = 2000;

/** Whether the user is reading or using something in the list. */
function inUse() {
  const list = document.getElementById("came-in");
  const held = document.activeElement !== document.body && list.contains(document.activeElement);
  return held || list.querySelector("details[open]") !== null || !getSelection().isCollapsed;
}

// Copy buttons of new messages; page.js adds them only for the initial content.
onSwap(() => {
  for (const button of document.querySelectorAll("#came-in [data-copy][hidden]")) button.hidden = false;
});
setInterval(() => {
  if (document.visibilityState === "visible" && !inUse()) swap(location.href, { keep: true });
}, EVERY_MS);
