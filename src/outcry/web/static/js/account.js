/* What the account's pages add where scripts run: a form that makes something is sent once.
 *
 * Everything works without it. Copying is page.js's. */

for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", () => {
    // after the browser has taken the form: a disabled button would not be sent
    setTimeout(() => form.querySelectorAll("button[type=submit]").forEach((button) => button.setAttribute("disabled", "")));
  });
}

// Back from the next page, out of the browser's memory: the form may be sent anew.
addEventListener("pageshow", (event) => {
  if (event.persisted) {
    document.querySelectorAll("form[data-once] button[disabled]").forEach((button) => button.removeAttribute("disabled"));
  }
});
