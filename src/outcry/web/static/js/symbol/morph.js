/** Replaces a part of the page with a fragment from the server. Only differences change, so that focus, selection,
 * scroll position and open details stay.
 *
 * Texts come from the server; none are written here.
 */

/** Replace the page's parts (`data-part`) with the fragment's parts of the same names. */
export function swapParts(html, page = document) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (old) morphChildren(old, part);
  }
}

/** Make a node equal to another. */
function morph(old, fresh) {
  if (old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(document.importNode(fresh, true));
  } else if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else if (old.nodeType === Node.ELEMENT_NODE) {
    morphAttributes(old, fresh);
    morphChildren(old, fresh);
  }
}

function morphAttributes(old, fresh) {
  const mine = (name) => name === "open" && old.nodeName === "DETAILS"; // details stay open or closed as the user left them
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !mine(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !mine(name)) old.setAttribute(name, value);
  }
}

function morphChildren(old, fresh) {
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, at) => {
    if (before[at]) morph(before[at], child);
    else old.append(document.importNode(child, true));
  });
  for (const child of before.slice(after.length)) child.remove();
}
