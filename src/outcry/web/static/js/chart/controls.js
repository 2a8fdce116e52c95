/* The chart's toolbar: a form whose fields are the view, and the page's URL.

   A URL written here equals the one that submitting the form would produce. */

const PARTS = "parts";

/* Read the view from the form's fields: {layout, letters, row, sessions, show, span}. row: ticks, null for automatic. show:
   a set of parts. span: the visible slots {from, to}, counted back from the newest, null for automatic. */
export function viewIn(form) {
  const fields = new FormData(form);
  return {
    layout: fields.get("layout"),
    letters: fields.get("letters"),
    row: Number(fields.get("row")) || null,
    sessions: Number(fields.get("sessions")),
    show: new Set(fields.getAll("show")),
    span: fields.has("from") ? { from: Number(fields.get("from")), to: Number(fields.get("to")) } : null,
  };
}

/* Write a view to the fields and the URL. */
export function write(form, view) {
  for (const name of ["layout", "letters"]) {
    for (const radio of form.elements.namedItem(name)) radio.checked = radio.value === view[name];
  }
  form.elements.namedItem("row").value = view.row ?? "";
  form.elements.namedItem("sessions").value = String(view.sessions);
  for (const box of form.querySelectorAll('input[name="show"]')) box.checked = view.show.has(box.value);
  address(form);
}

/* Write the visible slots (null: automatic) to the fields and, if they changed, to the URL. */
export function writeSpan(form, span) {
  const ends = ["from", "to"].map((name) => [form.elements.namedItem(name), span?.[name].toFixed(1) ?? ""]);
  if (ends.every(([field, text]) => field.value === text)) return;
  for (const [field, text] of ends) [field.value, field.disabled] = [text, text === ""];
  address(form);
}

/* Call `changed` with the view after each change by the user and update the URL. Returns a function that stops. */
export function bind(form, changed) {
  const onChange = () => {
    address(form);
    changed(viewIn(form));
  };
  const onSubmit = (event) => {
    event.preventDefault();
    onChange();
  };
  form.addEventListener("change", onChange);
  form.addEventListener("submit", onSubmit);
  return () => {
    form.removeEventListener("change", onChange);
    form.removeEventListener("submit", onSubmit);
  };
}

function address(form) {
  const query = new URLSearchParams(new FormData(form));
  if (!form.elements.namedItem(PARTS)) return;
  history.replaceState(history.state, "", `${location.pathname}?${query}${location.hash}`);
}
