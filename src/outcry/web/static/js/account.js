/* Account pages: prevent that a form that creates something is submitted twice.
 *
 * The pages work without this script. page.js has the copy buttons. */

for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", () => {
    // after the browser has read the form, because it does not submit a disabled button
    setTimeout(() => form.querySelectorAll("button[type=submit]").forEach((button) => button.setAttribute("disabled", "")));
  });
}

// The user came back from the next page, and the browser restored this one: allow to submit the form again.
addEventListener("pageshow", (event) => {
  if (event.persisted) {
    document.querySelectorAll("form[data-once] button[disabled]").forEach((button) => button.removeAttribute("disabled"));
  }
});
