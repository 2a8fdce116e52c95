/** What is done now and then, as often as is wanted and no more often than is good.
 *
 * Rule kept: nothing is done for a page that nobody sees; once it is seen, what was wanted meanwhile is.
 */

/** Does something now and then: when asked, but not sooner after the last time than `pause` ms, never twice at once, and
 * only while seen. */
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
