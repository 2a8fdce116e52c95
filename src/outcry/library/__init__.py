"""The Python library: compute a session's profile from any dataframe, without a server.

It uses the same kernel and rules as the service. Sources: decisions (The Python library), rules §1, §2, §5.
"""

from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from outcry.library.dataframes import (
    FLOAT_ERROR_E9,
    Part,
    Places,
    check_bars,
    check_lengths,
    check_repeats,
    columns_of,
    is_missing,
    parts_inside,
    prices_e9,
    since_epoch,
    sizes_of,
    ticks_of,
    times_of,
)
from outcry.market.calendar import SessionKind
from outcry.market.instruments import UnknownName
from outcry.market.kernels import BulkFold
from outcry.market.ladder import Ladder, bracket_windows
from outcry.market.methods import PRESETS, Method
from outcry.market.profile import SessionProfile, levels_of, profile_of
from outcry.market.units import NANOS_PER_SECOND, PRICE_SCALE, e9_from_text
from outcry.trades.reference_tables import Reference, load_reference

#: Rows of trades converted at a time, so that the arrays of one step are still in the cache of a core in the next.
_PART_ROWS = 1 << 16
_NOTHING_TRADED = (
    "No trades in the window: all rows there have size or volume 0. Check the size or volume column."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One price level of a profile: the brackets that traded there, and the volume in lots."""

    price: float
    letters: str
    tpos: int
    volume: int


@dataclass(frozen=True)
class Profile:
    """A session's profile. Prices are floats with the decimals of the tick. Ranges include both ends."""

    poc: float
    vah: float
    val: float
    vpoc: float
    ib_high: float
    ib_low: float
    high: float
    low: float
    poc_candidates: list[float]
    poor_high: bool
    poor_low: bool
    single_prints: list[tuple[float, float]]
    rows: list[Row] = field(repr=False)
    method: str = "dalton"
    tick_size: float = 0.0

    def plot(self, ax: Any = None) -> Any:
        """Draw the TPO letters with value area, POC, initial balance and volume, and return the axes.

        Needs matplotlib (`pip install 'outcry[plot]'`). ax: matplotlib axes to draw into; None creates new ones.
        """
        from outcry.library.plot import draw  # noqa: PLC0415 - matplotlib is an extra

        return draw(self, ax)


def profile(
    data: Any,
    *,
    tick_size: float | str | Decimal | None = None,
    window: tuple[Any, Any] | None = None,
    bracket_minutes: int = 30,
    method: str = "dalton",
    symbol: str | None = None,
    date: str | date | None = None,
) -> Profile:
    """Compute the profile of one session.

    data: a dataframe (pandas, Polars, PyArrow) or a mapping of arrays, in any row order. It has a column `ts`
    (datetimes, or int64 ns UTC) and either `price` and `size` (trades) or `open`, `high`, `low`, `close` and `volume`
    (bars, with `ts` at their start). Rows outside the window are ignored.

    Give either tick_size and window, or symbol and date. The window is half-open: two aware datetimes, ISO strings with
    a UTC offset, or int ns. symbol and date select the regular hours and the tick of that product on that trade date.
    date: a date, a datetime or Timestamp at midnight, a numpy datetime64 of a day, or ISO text. method: a name in
    `outcry.market.methods.PRESETS`.

    Raises ValueError, with the row if there is one: data without rows or with a missing column; a missing time; a price
    between two ticks (unless the preset rounds); two bars with the same time; bars longer than a bracket or across its
    edge; a naive datetime; a window without trades.
    """
    preset = PRESETS.get(method)
    if preset is None:
        raise ValueError(f"Unknown method {method!r}. Use one of {', '.join(PRESETS)}.")
    tick_e9, segments = _terms(tick_size, window, symbol, date)
    columns = columns_of(data)
    at_ns = times_of(columns["ts"])
    at_close = preset.placement == "close_up"
    in_parts = "price" in columns and not at_close
    parts = parts_inside(columns, at_ns, segments, _PART_ROWS if in_parts else len(at_ns))
    first = next(parts, None)
    if first is None:
        raise ValueError(
            f"No rows in the window {_span(segments[0][0], segments[-1][1])}: the data covers "
            f"{_span(int(at_ns.min()), int(at_ns.max()))}. Check the dates and the time zone of `ts`."
        )
    if "price" not in columns:
        check_repeats(first.at_ns, first.places)
    if at_close:
        return _of_closes(first.columns, first.places, tick_e9, preset)
    fold = BulkFold(bracket_windows(segments, bracket_minutes))
    if "price" in columns:
        for part in chain((first,), parts):
            ticks = ticks_of(part.columns["price"], tick_e9, part.places)
            fold.trades(part.at_ns, ticks, sizes_of(part.columns["size"], "size", part.places))
    else:
        check_lengths(at_ns, segments, bracket_minutes)
        _add_bars(fold, first, tick_e9)
    ladder = fold.ladder()
    if ladder is None:  # rows of size 0 and bars of volume 0 do not count as trades
        raise ValueError(_NOTHING_TRADED)
    found = profile_of(ladder, 60 // bracket_minutes, preset)
    return _shown(ladder, found, tick_e9, preset)


@cache
def _reference() -> Reference:
    return load_reference()


def _terms(
    tick_size: float | str | Decimal | None,
    window: tuple[Any, Any] | None,
    symbol: str | None,
    day: str | date | None,
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return the tick (10⁻⁹) and the trading segments (ns) for the caller's arguments.

    The arguments are either tick size and window, or symbol and date.
    """
    by_hand, by_name = (tick_size, window), (symbol, day)
    if None not in by_hand and by_name == (None, None):
        tick_e9 = e9_from_text(format(Decimal(str(tick_size)), "f"))
        start, end = (_instant(edge) for edge in window or ())
        if tick_e9 <= 0:
            raise ValueError(f"Invalid tick_size {tick_size!r}: give a positive number, such as 0.25.")
        if start >= end:
            raise ValueError(
                f"Invalid window: it starts at or after its end ({_span(start, end)}). Swap the two times."
            )
        return tick_e9, ((start, end),)
    if None in by_name or by_hand != (None, None) or symbol is None or day is None:
        raise ValueError("Invalid arguments: give either tick_size and window, or symbol and date.")
    when = _trade_date(day)
    try:
        product = _reference().universe.resolve(symbol, when, history=True).product
    except UnknownName as problem:
        raise ValueError(str(problem)) from problem
    session = _reference().calendar.session(product.root, when, SessionKind.RTH)
    if session is None:
        raise ValueError(f"{product.root} has no regular session on {when}. Choose another trade date.")
    return product.tick_e9, session.segments


def _trade_date(day: Any) -> date:
    """Convert date types of notebooks to a date. A time of day is an error: its trade date depends on the exchange."""
    if isinstance(day, np.datetime64):
        day = str(day)
    if isinstance(day, str):
        try:
            day = datetime.fromisoformat(day)
        except ValueError:
            raise ValueError(f"Invalid date {day!r}: use the form 2013-10-08.") from None
    if is_missing(day) or not isinstance(day, date):
        raise ValueError(f"Invalid date {day!r}: give a date, or text such as 2013-10-08.")
    if isinstance(day, datetime):
        if day.time() != time() or getattr(day, "nanosecond", 0):
            raise ValueError(
                f"Invalid date {day}: it has a time of day. Give only the trade date, such as 2013-10-08."
            )
        return day.date()
    return day


def _span(first_ns: int, last_ns: int) -> str:
    """Format two times (ns UTC) for an error message."""
    return " to ".join(f"{np.datetime64(at_ns // NANOS_PER_SECOND, 's')}Z" for at_ns in (first_ns, last_ns))


def _instant(value: Any) -> int:
    """Return an edge of the window in ns UTC. A naive time is an error, because users write windows by hand."""
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, np.datetime64):
        raise TypeError(
            f"window: {value!r} (numpy datetime64) has no time zone. Give aware datetimes, ISO strings or int ns."
        )
    if is_missing(value):
        raise ValueError(f"window: {value!r} is not a time. Give aware datetimes, ISO strings or int ns.")
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    if at.tzinfo is None:
        raise ValueError(f"window: {value!r} has no time zone. Add one, for example 2013-10-08T09:30-04:00.")
    return since_epoch(at)


def _add_bars(fold: BulkFold, bars: Part, tick_e9: int) -> None:
    columns, places = bars.columns, bars.places
    opened, high, low, close = (
        ticks_of(columns[n], tick_e9, places) for n in ("open", "high", "low", "close")
    )
    check_bars(opened, high, low, close, places)
    fold.bars(bars.at_ns, opened, high, low, close, sizes_of(columns["volume"], "volume", places))


def _of_closes(chosen: dict[str, Any], places: Places, tick_e9: int, preset: Method) -> Profile:
    """Return the profile for presets that count each bar or trade at its close only, rounded up to a tick."""
    prices = prices_e9(chosen["close"] if "close" in chosen else chosen["price"], tick_e9, places)
    # the original divides doubles before rounding up, so a price on the grid must stay there
    ticks = -((FLOAT_ERROR_E9 - prices) // tick_e9)
    name = "volume" if "volume" in chosen else "size"
    sizes = sizes_of(chosen[name], name, places)
    traded = sizes > 0
    if not traded.any():
        raise ValueError(_NOTHING_TRADED)
    ticks, sizes = ticks[traded], sizes[traded]
    low, rows = int(ticks.min()), int(ticks.max() - ticks.min()) + 1
    volume = np.bincount(ticks - low, sizes, rows).astype(np.int64).tolist()
    tpos = np.bincount(ticks - low, minlength=rows).tolist()
    counts = volume if preset.basis == "volume" else tpos
    poc, val, vah, tied = levels_of(counts, preset)
    vpoc, _, _, _ = levels_of(volume, preset)

    def price(row: int) -> float:
        return (low + row) * tick_e9 / PRICE_SCALE

    nan = float("nan")
    return Profile(
        poc=price(poc), vah=price(vah), val=price(val), vpoc=price(vpoc), ib_high=nan, ib_low=nan,
        high=price(rows - 1), low=price(0), poc_candidates=[price(row) for row in tied],
        poor_high=False, poor_low=False, single_prints=[], method=preset.name, tick_size=tick_e9 / PRICE_SCALE,
        rows=[Row(price(row), "", tpos[row], volume[row]) for row in reversed(range(rows)) if tpos[row]],
    )  # fmt: skip


def _shown(ladder: Ladder, found: SessionProfile, tick_e9: int, preset: Method) -> Profile:
    def price(ticks: int) -> float:
        return ticks * tick_e9 / PRICE_SCALE

    marks = ladder.letters()
    rows = [
        Row(price(ladder.low_ticks + row), marks[row], found.tpos[row], ladder.volume[row])
        for row in reversed(range(len(marks)))
    ]
    return Profile(
        poc=price(found.poc), vah=price(found.vah), val=price(found.val), vpoc=price(found.vpoc),
        ib_high=price(found.ib_high), ib_low=price(found.ib_low), high=price(found.high), low=price(found.low),
        poc_candidates=[price(ticks) for ticks in found.poc_candidates],
        poor_high=found.poor_high, poor_low=found.poor_low,
        single_prints=[(price(low), price(high)) for low, high in found.single_prints],
        rows=rows, method=preset.name, tick_size=tick_e9 / PRICE_SCALE,
    )  # fmt: skip
