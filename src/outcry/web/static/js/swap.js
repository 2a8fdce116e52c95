/** Takes only the regions of a page that change: links and forms marked `data-swap` go where they lead without a reload.
 *
 * Rules kept: what is put in place is the server's own page at that address, so the address says what is shown; what had
 * the focus keeps it; of several wishes at once the newest counts. A region is `<… id="x" data-region>`.
 */

const listeners = new Set();
let asking = null;

/** Have something done whenever regions were exchanged. */
export function onSwap(listener) {
  listeners.add(listener);
}

/** Show another address, or this one anew. `keep`: leave the history alone. Whether it worked. */
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

/** How to find an element again in a region made anew: by its address, or by its text among its like. */
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
