/* What was drawn, noted by the painters as they draw it: how a test sees a canvas.

   Rule kept: nothing is noted but by whoever has just drawn it; where nobody looks, nothing is noted. */

const NOTHING = { set() {}, put() {}, add() {}, append() {} };

/* Return a record to write to; with `on` false, one that stores nothing. */
export function sheet(on) {
  if (!on) return { facts: null, ...NOTHING };
  const facts = {};
  return {
    facts,
    set: (name, value) => { facts[name] = value; },
    put: (name, key, value) => { (facts[name] ??= {})[key] = value; },
    add: (name, value) => { (facts[name] ??= []).push(value); },
    append: (name, key, value) => { ((facts[name] ??= {})[key] ??= []).push(value); },
  };
}
