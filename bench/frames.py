"""Cost of a chart frame while panning: sixty sessions of letters, compared with the library panning an empty chart.

A frame is timed from the library's first stroke until its pixels can be read, so that deferred drawing counts too. Both
charts are in one page and are panned in turn. Figures are of the best round.
"""

import statistics
from collections.abc import Iterator
from typing import Any

from bench.figures import Figure, at_most
from bench.measurement import Size, Unavailable

BUDGET_MS = 16
WIDTH, HEIGHT = 1600, 900

#: The library with as many slots as the chart has, without content.
_EMPTY = """
async ([library, slots]) => {
  const { createChart, LineSeries } = await import(library);
  const box = document.getElementById("chart").cloneNode(false);
  box.id = "empty";
  document.querySelector("main").append(box);
  const chart = createChart(box, { autoSize: true, layout: { attributionLogo: false } });
  const series = chart.addSeries(LineSeries, { lineVisible: false, lastValueVisible: false, priceLineVisible: false });
  series.setData(Array.from({ length: slots }, (_, place) => ({ time: place * 1800, value: 1 })));
  chart.timeScale().fitContent();
}
"""

#: The largest canvas is the pane's. Above it is the crosshair's, which receives the mouse.
_CANVASES = (
    "[...document.querySelectorAll(`#${id} canvas`)].sort((a, b) => b.width * b.height - a.width * a.height)"
)
_SIZE = f"() => {{ const id = 'chart', [canvas] = {_CANVASES}; return [canvas.width, canvas.height]; }}"

#: Drags a chart to and fro; returns the milliseconds of each frame.
_DRAG = """
async ([id, frames]) => {
  const [canvas, surface] = CANVASES;
  const pencil = canvas.getContext("2d");
  const { left, top } = canvas.getBoundingClientRect();
  const mouse = (kind, target, x) => target.dispatchEvent(new MouseEvent(kind, {
    bubbles: true, cancelable: true, view: window, button: 0, buttons: 1, clientX: left + x, clientY: top + 200,
  }));
  const costs = [];
  mouse("mousedown", surface, 600);
  for (let frame = 0; frame < frames; frame += 1) {
    costs.push(await new Promise((done) => {
      let from = 0;
      requestAnimationFrame(() => { from = performance.now(); });
      mouse("mousemove", document.documentElement, 600 + 240 * Math.sin(frame / 20));
      requestAnimationFrame(() => {
        pencil.getImageData(0, 0, 1, 1);
        done(performance.now() - from);
      });
    }));
  }
  mouse("mouseup", document.documentElement, 600);
  return costs;
}
""".replace("CANVASES", _CANVASES)


def more(size: Size) -> Iterator[Figure]:
    """Measure both charts and yield the figures."""
    try:
        from support.chart_page import browsing, serving  # noqa: PLC0415 - only with the tests' browser
    except ImportError as problem:
        raise Unavailable(f"the chart is measured in a browser ({problem}): make install") from problem
    frames, rounds = size.of((120, 4), (60, 1), (10, 1))
    with serving() as stage, browsing(width=WIDTH, height=HEIGHT + 700, bench=True) as page:
        for name, sessions, query in (
            ("5 sessions, letters", 5, "sessions=5"),
            ("60 sessions, as fits", 60, "sessions=60"),
            ("60 sessions, letters", 60, "sessions=60&letters=letters&row=4"),
            ("60 sessions, letters, split", 60, "sessions=60&letters=letters&row=4&layout=split"),
        ):
            yield from _compare(page, stage, name, sessions, query, frames, rounds)


def _compare(
    page: Any, stage: Any, name: str, sessions: int, query: str, frames: int, rounds: int
) -> Iterator[Figure]:
    from support.chart_answers import Made, answer_of  # noqa: PLC0415

    stage.answer = answer_of(Made(sessions=sessions))
    page.goto(f"{stage.base}/?{query}")
    library = stage.static.url("vendor/lightweight-charts-5.2.1/lightweight-charts.standalone.production.mjs")
    page.evaluate(_EMPTY, [library, sessions * 18])
    rounds_of: dict[str, list[list[float]]] = {"empty": [], "chart": []}
    for number in range(rounds + 1):
        for box, taken in rounds_of.items():
            costs = page.evaluate(_DRAG, [box, frames])
            if number:
                taken.append(costs)
    middle, bare = (min(map(statistics.median, rounds_of[box])) for box in ("chart", "empty"))
    late, bare_late = (min(map(_late, rounds_of[box])) for box in ("chart", "empty"))
    size = " × ".join(map(str, page.evaluate(_SIZE)))
    yield Figure(f"{name}: a frame, median", middle, "ms", size)
    yield Figure(
        f"{name}: a frame, 95th percentile", late, "ms", f"empty {bare_late:.2f}", goal=at_most(BUDGET_MS)
    )
    yield Figure(f"{name}: a frame", middle / bare, "×", f"empty {bare:.2f} ms", "the empty library")


def _late(costs: list[float]) -> float:
    return statistics.quantiles(costs, n=20)[-1]
