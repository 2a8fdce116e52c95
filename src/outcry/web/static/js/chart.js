/** The chart of a symbol and its toolbar, loaded by the pages that show one. */

export { mount } from "./chart/chart.js";
export { bind, viewIn, write, writeSpan } from "./chart/controls.js";
