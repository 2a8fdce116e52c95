/** Secrets: show a password while the user types it, and save recovery codes as a file.
 *
 * This script sends and stores nothing. The file contains only codes shown on the page.
 */

/** Make the checkbox visible that shows a form's password. The password is hidden again before the form is submitted. */
function offerShowing() {
  for (const label of document.querySelectorAll("[data-shows]")) {
    const form = label.closest("form");
    const input = form?.querySelector("input[data-show]");
    const box = label.querySelector("input");
    if (!input) continue;
    label.hidden = false;
    box.addEventListener("change", () => (input.type = box.checked ? "text" : "password"));
    form.addEventListener("submit", () => (input.type = "password"));
  }
}

function offerSaving() {
  for (const button of document.querySelectorAll("[data-save]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const lines = [...document.getElementById(button.dataset.save).children].map((item) => item.textContent.trim());
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/plain" }));
      link.download = button.dataset.name;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }
}

offerShowing();
offerSaving();
