/** Replaces only the changed regions of a page: links and forms marked `data-swap` work without a reload.
 *
 * The new content is the server's page at that URL, so the URL matches the page. The focus stays. Of several requests
 * only the newest counts. A region is `<… id="x" data-region>`.
 */

const listeners = new Set();
let asking = null;

/** Register a callback for replaced regions. */
export function onSwap(listener) {
  listeners.add(listener);
}

/** Show another URL, or reload this one. `keep`: do not change the history. Returns whether it worked. */
export async function swap(address = location.href, { keep = false } = {}) {
  asking?.abort();
  const mine = (asking = new AbortController());
  let page;
  try {
    const answer = await fetch(address, { signal: mine.signal });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch (error) {
    return error.name === "AbortError";
  }
  if (mine.signal.aborted) return true;
  const focused = document.activeElement;
  const place = focused?.closest("[data-region]") && placeOf(focused);
  for (const region of document.querySelectorAll("[data-region]")) {
    const fresh = page.getElementById(region.id);
    if (fresh && fresh.outerHTML !== region.outerHTML) exchange(region, fresh);
  }
  if (place && !document.contains(focused)) place()?.focus({ preventScroll: true });
  if (!keep && new URL(address, location.href).href !== location.href) history.pushState(null, "", address);
  for (const listener of listeners) listener();
  return true;
}

function exchange(region, fresh) {
  const scrolled = region.querySelector(".scroll");
  const [left, top] = scrolled ? [scrolled.scrollLeft, scrolled.scrollTop] : [0, 0];
  region.replaceWith(document.adoptNode(fresh));
  const now = fresh.querySelector(".scroll");
  if (now && (left || top)) now.scrollTo(left, top);
}

/** Find an element again in a replaced region: by its URL, or by its text. */
function placeOf(element) {
  const region = element.closest("[data-region]").id;
  const [tag, href, text, row] = [element.tagName, element.getAttribute("href"), element.textContent, element.closest("tr[id]")?.id];
  return () => {
    const within = (row && document.getElementById(row)) || document.getElementById(region);
    const alike = [...(within?.querySelectorAll(tag) ?? [])];
    return alike.find((each) => each.getAttribute("href") === href) ?? alike.find((each) => each.textContent === text) ?? alike[0];
  };
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-swap]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  swap(link.href).then((worked) => worked || location.assign(link.href));
});
addEventListener("popstate", () => swap(location.href, { keep: true }));
