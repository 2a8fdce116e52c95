/* The form with the operator's tables: read a table from a file of the user's machine.
 *
 * The text goes into the form, where the user can check it before saving. Without this script, paste the text. */

for (const chooser of document.querySelectorAll("[data-file]")) {
  const input = chooser.querySelector("input");
  const text = document.getElementById(chooser.dataset.file);
  chooser.hidden = false;
  input.addEventListener("change", async () => {
    const file = input.files?.[0];
    if (!file) return;
    text.value = await file.text();
    text.dispatchEvent(new Event("input", { bubbles: true }));
    text.focus();
  });
}
