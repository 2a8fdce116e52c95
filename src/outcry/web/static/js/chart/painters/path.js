/* The path of the value area: POC and value area at the end of each period, as steps. */

export function paintPath(pen, g, day, look) {
  const { facts } = day;
  if (!facts.path.length || !look.view.show.has("path")) return;
  const slots = new Map(facts.brackets.map((bracket) => [bracket.letter, bracket.slot]));
  line(pen.context, g, day, facts.path, slots, "vah", look.colours.va, 1.25);
  line(pen.context, g, day, facts.path, slots, "val", look.colours.va, 1.25);
  line(pen.context, g, day, facts.path, slots, "poc", look.colours.poc, 2);
  for (const point of facts.path) {
    pen.notes.add("path", {
      letter: point.letter, poc: look.price(point.poc), vah: look.price(point.vah), val: look.price(point.val),
    });
  }
}

function line(context, g, day, path, slots, name, colour, width) {
  context.strokeStyle = colour;
  context.lineWidth = g.line(width);
  context.beginPath();
  path.forEach((point, nth) => {
    const slot = day.open + slots.get(point.letter);
    const y = Math.round(g.at(point[name])) + 0.5;
    const next = nth + 1 < path.length ? day.open + slots.get(path[nth + 1].letter) : slot + 1;
    if (nth) context.lineTo(g.slot(slot), y);
    else context.moveTo(g.slot(slot), y);
    context.lineTo(g.slot(next), y);
  });
  context.stroke();
}
