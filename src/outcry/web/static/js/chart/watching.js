/* Pointer and wheel input on the chart, and changes of the page's theme.

   A view that the user has moved stays in place. */

import { readPlace } from "./reading.js";

/* Maximum effect of one turn of the wheel, in pixels. */
const WHEEL = 120;

/* Watch a chart. Returns a function that stops. */
export function watch(chart) {
  const ends = [watchTheme(() => chart.restyle()), watchMoves(chart), watchWheel(chart), watchPointer(chart), watchSpan(chart)];
  return () => ends.forEach((end) => end());
}

/* Report the visible slots, which the page stores in its URL. */
function watchSpan(chart) {
  const scale = chart.library.timeScale();
  const onMove = (range) => {
    const count = chart.model.times.length;
    if (range && count && !chart.span) chart.callbacks.span?.(chart.fitted ? null : { from: count - range.from, to: count - range.to });
  };
  scale.subscribeVisibleLogicalRangeChange(onMove);
  return () => scale.unsubscribeVisibleLogicalRangeChange(onMove);
}

/* A view moved by the user stays in place when the pane's width changes. */
function watchMoves(chart) {
  const moved = () => chart.free();
  const names = ["wheel", "pointerdown"];
  for (const name of names) chart.pane.addEventListener(name, moved, { passive: true });
  return () => names.forEach((name) => chart.pane.removeEventListener(name, moved));
}

/* The wheel zooms around the end of the newest session if it is in view, else around the pointer. */
function watchWheel(chart) {
  const onWheel = (event) => {
    if (Math.abs(event.deltaX) >= Math.abs(event.deltaY)) return; // a horizontal scroll, which the library handles
    event.preventDefault();
    const x = event.clientX - chart.pane.getBoundingClientRect().left;
    const pointed = () => chart.library.timeScale().coordinateToLogical(x);
    const by = Math.exp(-Math.max(-WHEEL, Math.min(WHEEL, event.deltaY)) / 800);
    chart.zoom(by, (range) => chart.endIn(range) ?? pointed() ?? range.to);
  };
  chart.pane.addEventListener("wheel", onWheel, { passive: false });
  return () => chart.pane.removeEventListener("wheel", onWheel);
}

/* Show the values under the pointer. */
function watchPointer(chart) {
  const onMove = ({ point, logical }) => {
    if (!point || logical === undefined || logical === null) {
      if (!chart.scene.cursor) chart.readout.textContent = "";
      return;
    }
    const ticks = chart.model.units.ticks(chart.series.coordinateToPrice(point.y) ?? 0);
    chart.readout.textContent = readPlace(chart.model, Math.round(logical), ticks, chart.scale().size, chart.look);
  };
  chart.library.subscribeCrosshairMove(onMove);
  return () => chart.library.unsubscribeCrosshairMove(onMove);
}

/* Call `changed` when the page's theme changes. */
function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    dark.removeEventListener("change", changed);
  };
}
