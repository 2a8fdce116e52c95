"""The view of the chart, which the URL's parameters and the toolbar's form both contain.

The toolbar's fields have the names of the URL's parameters, so the view works the same with and without scripts.
Invalid parameters are ignored.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Layout = Literal["collapsed", "split", "candles"]
Letters = Literal["auto", "letters", "blocks"]
Part = Literal["volume", "naked", "prior", "ib", "overnight", "singles", "poor", "path", "candles"]

PARTS: tuple[Part, ...] = get_args(Part)
USUAL_PARTS: frozenset[Part] = frozenset(PARTS) - {"path", "candles"}
SESSIONS = (1, 2, 5, 10, 20, 60)
#: Row sizes in ticks. Rows hold whole ticks, counted from price zero.
ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 100, 200, 500, 1000)

#: Minimum number of visible slots.
LEAST_SLOTS = 1.0
_SLOTS = re.compile(r"-?[0-9]{1,5}(\.[0-9])?")


@dataclass(frozen=True, slots=True)
class ChartView:
    """The chosen view of the chart.

    `row`: row size in ticks, None for automatic. `show`: the visible layers. `span`: the first and last visible slot
    (column of the chart), counted back from the newest; None for automatic.
    """

    layout: Layout = "collapsed"
    letters: Letters = "auto"
    row: int | None = None
    sessions: int = 5
    show: frozenset[Part] = USUAL_PARTS
    span: tuple[float, float] | None = None


def view_of(query: Mapping[str, str], shown: Sequence[str]) -> ChartView:
    """Read the view from a URL's query. `shown`: all values of its parameter `show`.

    Browsers do not send unchecked boxes. Therefore the form also sends `parts`. If the URL has `parts`, the boxes
    that were not sent are unchecked.
    """
    usual = ChartView()
    layout, letters = query.get("layout"), query.get("letters")
    row, sessions = query.get("row", ""), query.get("sessions", "")
    return ChartView(
        layout=layout if layout in get_args(Layout) else usual.layout,  # pyright: ignore[reportArgumentType]
        letters=letters if letters in get_args(Letters) else usual.letters,  # pyright: ignore[reportArgumentType]
        row=next((ticks for ticks in ROWS if str(ticks) == row), usual.row),
        sessions=next((count for count in SESSIONS if str(count) == sessions), usual.sessions),
        show=frozenset(part for part in PARTS if part in shown) if "parts" in query else usual.show,
        span=_span(query.get("from", ""), query.get("to", "")),
    )


def _span(first: str, last: str) -> tuple[float, float] | None:
    if not (_SLOTS.fullmatch(first) and _SLOTS.fullmatch(last)):
        return None
    found = float(first), float(last)
    return found if found[0] - found[1] >= LEAST_SLOTS else None
