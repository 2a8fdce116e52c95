/* A record of what the painters draw, because tests cannot read a canvas.

   Each painter records only what it has just drawn. Without a test, nothing is recorded. */

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
