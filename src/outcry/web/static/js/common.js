/** Modules that several pages share. Every page loads them; other scripts import them from here. */

export { onKey } from "./common/keys.js";
export { exchangeTime, findChips, loseChips } from "./common/lost.js";
export { counted, filled, language, marketNow, refreshAges, say, words } from "./common/page.js";
export { follow } from "./common/stream.js";
export { onSwap, swap } from "./common/swap.js";
