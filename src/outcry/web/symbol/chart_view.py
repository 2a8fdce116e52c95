"""The chart's view as URL parameters and as the toolbar's form.

The toolbar's fields are the URL's parameters, so the view is the same with and without scripts. Invalid parameters are
ignored.
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

    `row` is the row size in ticks, None for automatic. `show` lists the visible layers. `span` is the first and last
    visible slot, counted back from the newest; None for automatic.
    """

    layout: Layout = "collapsed"
    letters: Letters = "auto"
    row: int | None = None
    sessions: int = 5
    show: frozenset[Part] = USUAL_PARTS
    span: tuple[float, float] | None = None


def view_of(query: Mapping[str, str], shown: Sequence[str]) -> ChartView:
    """Read the view from `query`; `shown` holds all values of its `show`.

    Browsers do not send unchecked boxes, so `parts` marks that the checkboxes were in the form.
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
