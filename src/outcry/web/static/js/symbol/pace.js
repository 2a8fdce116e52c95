/** Rate-limited background work.
 *
 * Nothing runs while the page is hidden; requested work runs once it is visible.
 */

/** Runs a task on request: at least `pause` ms apart, never twice at once, and only while the page is visible. */
export function paced(pause, act) {
  let timer = 0;
  let done = -Infinity;
  let wanted = false;
  let busy = false;
  async function run() {
    timer = 0;
    if (document.hidden) return;
    [wanted, busy] = [false, true];
    try {
      await act();
    } finally {
      [done, busy] = [performance.now(), false];
    }
    if (wanted) want();
  }
  function want(least = pause) {
    wanted = true;
    if (!timer && !busy) timer = setTimeout(run, Math.max(0, done + Math.max(least, 1000) - performance.now()));
  }
  document.addEventListener("visibilitychange", () => !document.hidden && wanted && want());
  return want;
}
