/* The receiver's page shows what comes in as it comes: it is looked at anew while somebody looks at it.
 *
 * Rules kept: what somebody has opened or is using stays as it is; a page nobody sees asks nothing. Without scripts
 * there is a link for it. */

import { onSwap, swap } from "./swap.js";

const EVERY_MS = 2000;

/** Something in the list is being read or used. */
function inUse() {
  const list = document.getElementById("came-in");
  const held = document.activeElement !== document.body && list.contains(document.activeElement);
  return held || list.querySelector("details[open]") !== null || !getSelection().isCollapsed;
}

// What is new can be copied too; page.js offers it only for what stood there from the start.
onSwap(() => {
  for (const button of document.querySelectorAll("#came-in [data-copy][hidden]")) button.hidden = false;
});
setInterval(() => {
  if (document.visibilityState === "visible" && !inUse()) swap(location.href, { keep: true });
}, EVERY_MS);
