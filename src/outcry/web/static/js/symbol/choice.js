/** The form of the profile view: a change of a setting shows the new profile without loading the page again.
 *
 * The URL becomes the one that submitting the form would produce. Without this script the form's button does the same.
 */

/** How long a field must be unchanged, so that a date is not requested while it is typed. */
const SETTLED_MS = 350;
/** Fields that apply only to some choices of `period`. */
const APPLIES = { date: (period) => period !== "range", from: (period) => period === "range", to: (period) => period === "range" };

/** Watch the form. show: fetches and shows the page's parts for the current URL, returns whether it did; say: announces
 * the profile that is shown, or a failure (empty text).
 */
export function bindChoice(form, show, say) {
  let settling = 0;

  async function choose() {
    clearTimeout(settling);
    const address = `${location.pathname}?${queryOf(form)}`;
    history.replaceState(history.state, "", address + location.hash);
    const part = document.querySelector('[data-part="profile"]');
    part.setAttribute("aria-busy", "true");
    const shown = await show();
    if (address !== location.pathname + location.search) return; // another choice since
    part.removeAttribute("aria-busy");
    say(shown ? titleIn(part) : "");
    if (shown) offerShownDays(form);
  }

  form.addEventListener("change", () => {
    clearTimeout(settling);
    settling = setTimeout(choose, SETTLED_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    choose();
  });
}

/** The form's entries as a query, without empty ones and those that do not apply. */
function queryOf(form) {
  const entries = [...new FormData(form)];
  const period = form.elements.namedItem("period").value;
  return new URLSearchParams(entries.filter(([name, value]) => value !== "" && (APPLIES[name]?.(period) ?? true)));
}

function titleIn(part) {
  const shown = part.querySelector("#profile-title, #profile-problem p");
  return shown ? shown.textContent.replace(/\s+/g, " ").trim() : "";
}

/** A choice of dates begins with the days of the profile that is shown. */
function offerShownDays(form) {
  const head = document.getElementById("profile-head");
  if (!head || form.elements.namedItem("period").value === "range") return;
  form.elements.namedItem("from").value = head.dataset.from;
  form.elements.namedItem("to").value = head.dataset.to;
}
