"""Turn the arguments of `outcry.profile` into a tick, a window and a trade date."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from outcry.library.errors import InvalidInput
from outcry.library.times import edge_of, instant_of, span_text, trade_date_of
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Product, UnknownName
from outcry.market.periods import Period, period_of
from outcry.market.profile_settings import SESSION_KINDS
from outcry.market.session_parts import SessionPart, Span, SpansOverlap, date_at, session_parts
from outcry.market.units import NANOS_PER_HOUR, PRICE_SCALE, e9_from_text
from outcry.market.windows import Segment, clipped
from outcry.trades.own_tables import INSTRUMENTS_FOLDER, read_own_tables
from outcry.trades.reference_tables import BadReference, Reference, load_reference

_EITHER = "Give either tick_size and window, or symbol and date."

#: Periods of the calendar, as arguments.
PERIODS: tuple[Period, ...] = ("day", "week", "month", "quarter")


class Selection(NamedTuple):
    """The arguments that select sessions of a symbol; None for those that are not given."""

    date: str | dt.date | None = None
    first: Any = None
    last: Any = None
    period: str | None = None
    sessions: Sequence[Any] | None = None


class Terms(NamedTuple):
    """What to compute: the tick (10⁻⁹) and the windows to count (half-open, ns UTC, ascending, none adjacent).

    bracket_segments: all trading segments of the sessions; brackets begin with each. brackets_of: for each trade date
    the number of its segments. The other fields are None or empty if the user gave tick_size and window. contract: the
    contract that the symbol names, if it names one. date: of a profile of one trade date. parts: the parts of sessions.
    calendar: that of the product.
    """

    tick_e9: int
    segments: tuple[Segment, ...]
    bracket_segments: tuple[Segment, ...]
    brackets_of: tuple[int, ...]
    product: Product | None = None
    contract: Contract | None = None
    date: dt.date | None = None
    session: str | None = None
    parts: tuple[SessionPart, ...] = ()
    calendar: Calendar | None = None

    @property
    def regular(self) -> bool:
        """Return whether the window may be a whole regular session, which has a day type."""
        if not self.parts:
            return len(self.segments) == 1
        return self.session == "rth" and len(self.parts) == 1 and self.parts[0].whole

    @property
    def days(self) -> list[dt.date]:
        """Return the trade dates, ascending."""
        return list(dict.fromkeys(part.session.trade_date for part in self.parts))

    @property
    def has_first_hour(self) -> bool:
        """Return whether the profile is of one trade date or window and contains its whole first hour."""
        if len(self.brackets_of) > 1:
            return False
        opened = self.bracket_segments[0][0]
        hour = opened, opened + NANOS_PER_HOUR
        return clipped(self.segments, *hour) == clipped(self.bracket_segments, *hour)

    def cut(self, start_ns: int, end_ns: int) -> "Terms | None":
        """Return the same for the part inside `[start_ns, end_ns)`; None if that is nothing."""
        segments = clipped(self.segments, start_ns, end_ns)
        parts = tuple(cut for part in self.parts if (cut := part.cut(start_ns, end_ns)) is not None)
        return self._replace(segments=segments, parts=parts) if segments else None

    @property
    def span(self) -> str:
        """Return the window as text."""
        return span_text(self.segments[0][0], self.segments[-1][1])


def reference_of(instruments: str | PathLike[str] | None) -> Reference:
    """Return the packaged products and calendar, with the user's own tables over them.

    instruments: a data folder with the folder `instruments/`, or that folder itself. Tables that changed are read
    again. Raises `InvalidInput` if the folder has no tables or an invalid row.
    """
    if instruments is None:
        return _reference(None, "")
    folder = Path(fspath(instruments)).expanduser().absolute()
    if folder.name == INSTRUMENTS_FOLDER and not (folder / INSTRUMENTS_FOLDER).is_dir():
        folder = folder.parent
    try:
        own = read_own_tables(folder)
        if not own.texts:
            raise InvalidInput(
                f"No tables of instruments in {folder / INSTRUMENTS_FOLDER}",
                "Give the data folder of your service, or a folder `instruments` with products.csv.",
            )
        return _reference(folder, own.version)
    except BadReference as problem:
        raise InvalidInput(str(problem), "Correct the row.") from problem


@lru_cache(8)
def _reference(folder: Path | None, _version: str) -> Reference:
    """Return the reference data of a folder. `_version`: of its own tables, so that changed tables are read again."""
    return load_reference(folder)


def terms_of(
    tick_size: float | str | Decimal | None,
    window: Any,
    symbol: str | None,
    selection: Selection,
    session: str,
    reference: Reference,
) -> Terms:
    """Return what to compute. The arguments are either tick size and window, or symbol and a selection of sessions."""
    if session not in SESSION_KINDS:
        raise InvalidInput(f"Unknown session {session!r}", f"Use one of {', '.join(SESSION_KINDS)}.")
    if tick_size is not None and window is not None and symbol is None and selection == Selection():
        if session != "rth":
            raise InvalidInput(f"session={session!r} needs symbol and date, which select the hours", _EITHER)
        return _by_hand(tick_size, window)
    if symbol is None or selection == Selection() or tick_size is not None or window is not None:
        raise InvalidInput("Invalid arguments: give either tick_size and window, or symbol and date")
    spans = _spans(selection)
    when = max(span.dates[1] if isinstance(span.last, dt.date) else date_at(span.last) for span in spans)
    try:
        found = reference.universe.resolve(symbol, when, history=True)
    except UnknownName as problem:
        raise InvalidInput(str(problem), "Or give tick_size and window.") from problem
    try:
        parts = session_parts(reference.calendar, found.product.root, SESSION_KINDS[session], spans)
    except SpansOverlap as problem:
        raise InvalidInput(
            f"Two entries of sessions share the time {span_text(*problem.between)}, which would count twice",
            "Remove one of them.",
        ) from problem
    if not parts:
        kind = "regular" if session == "rth" else session
        if selection == Selection(date=selection.date):
            raise InvalidInput(
                f"{found.product.root} has no {kind} session on {when}", "Choose another trade date."
            )
        raise InvalidInput(
            f"{found.product.root} has no {kind} session in this time", "Choose other dates or session."
        )
    days = {part.session.trade_date: 0 for part in parts}
    for part in parts:
        days[part.session.trade_date] += len(part.session.segments)
    return Terms(
        found.product.tick_e9, tuple(window for part in parts for window in part.windows),
        tuple(segment for part in parts for segment in part.session.segments), tuple(days.values()),
        found.product, found.contract, next(iter(days)) if len(days) == 1 else None, session, tuple(parts),
        reference.calendar,
    )  # fmt: skip


def _spans(selection: Selection) -> list[Span]:
    """Return the spans that arguments select. Raises `InvalidInput` if they contradict each other."""
    day, first, last, period, sessions = selection
    given = [
        name for name, value in (("date", day), ("first", first), ("sessions", sessions)) if value is not None
    ]
    if len(given) != 1:
        raise InvalidInput(
            f"Invalid arguments: {' and '.join(given) or 'no date'}",
            "Give one of date, first with last, or sessions.",
        )
    if (last is not None) != (first is not None):
        raise InvalidInput("first and last belong together", "Give both, or only date.")
    if period is not None and (period not in PERIODS or day is None):
        raise InvalidInput(f"Invalid period {period!r}", f"Use one of {', '.join(PERIODS)}, with date.")
    if day is not None:
        return [Span(*period_of(trade_date_of(day), period or "day"))]
    if sessions is None:
        return [_span(first, last, "first, last")]
    if isinstance(sessions, str) or not len(sessions):
        raise InvalidInput(
            f"Invalid sessions {sessions!r}", "Give a list of trade dates and pairs (first, last)."
        )
    return [_span(*(one if isinstance(one, tuple) else (one, one)), name="sessions") for one in sessions]


def _span(first: Any, last: Any, name: str) -> Span:
    found = Span(edge_of(first, name), edge_of(last, name))
    if found.is_reversed:
        raise InvalidInput(f"{name}: {first!r} is not before {last!r}", "Swap the two.")
    return found


def size_step_e9(size_step: float | str | Decimal | None, product: Product | None) -> int:
    """Return the smallest size in 10⁻⁹: the user's, that of the symbol's product, or one contract."""
    if size_step is None:
        return product.size_step_e9 if product else PRICE_SCALE
    if product is not None:
        raise InvalidInput("size_step is given, but symbol decides the size step", _EITHER)
    return _positive_e9(size_step, "size_step", "0.001")


def _positive_e9(value: float | str | Decimal, name: str, example: str) -> int:
    try:
        found = e9_from_text(format(Decimal(str(value)), "f"))
    except (ValueError, ArithmeticError):
        found = 0
    if found <= 0:
        raise InvalidInput(f"Invalid {name} {value!r}", f"Give a positive number, such as {example}.")
    return found


def _by_hand(tick_size: float | str | Decimal, window: tuple[Any, Any]) -> Terms:
    tick_e9 = _positive_e9(tick_size, "tick_size", "0.25")
    pairs = list(window) if _is_list_of_pairs(window) else [window]
    windows = sorted(map(_window, pairs))
    for before, after in pairwise(windows):
        if after[0] < before[1]:
            raise InvalidInput(
                f"Invalid window: two share the time {span_text(after[0], min(before[1], after[1]))}",
                "Remove one of them.",
            )
    return Terms(tick_e9, tuple(windows), tuple(windows), (len(windows),))


def _is_list_of_pairs(window: Any) -> bool:
    return (
        isinstance(window, list) and bool(window) and all(isinstance(pair, (tuple, list)) for pair in window)
    )


def _window(window: Any) -> Segment:
    try:
        first, last = window
    except (TypeError, ValueError):
        raise InvalidInput(f"Invalid window {window!r}", "Give its start and its end.") from None
    start, end = instant_of(first), instant_of(last)
    if start >= end:
        raise InvalidInput(
            f"Invalid window: it starts at or after its end ({span_text(start, end)})", "Swap the two times."
        )
    return start, end
