/** Around secrets: a password can be read while it is typed, and recovery codes can be kept as a file.
 *
 * Rule kept: nothing here sends or stores anything; what a file holds stood on the page.
 */

/** Give each password of a form a box that shows it; it is hidden again before it is sent. */
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
