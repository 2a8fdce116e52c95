/* The pages of connections follow how each stands: they are looked at anew while somebody looks at them.
 *
 * Rules kept: what somebody is using or reading stays as it is; a page nobody sees asks nothing. Without scripts there is
 * a link for it. */

import { swap } from "./swap.js";

const EVERY_MS = 3000;

/** Something in what would be exchanged is being read or used. */
function inUse() {
  const held = document.activeElement?.closest("[data-region]");
  return held || !getSelection().isCollapsed;
}

setInterval(() => {
  if (document.visibilityState === "visible" && !inUse()) swap(location.href, { keep: true });
}, EVERY_MS);
