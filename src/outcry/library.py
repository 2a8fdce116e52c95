"""The library: the same numbers without a server, from any dataframe, in a notebook.

Rule kept: exactly the service's kernel and rules; nothing is computed twice in two ways. Sources: decisions (The Python
library), rules §1, §2, §5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.core.calendar import SessionKind
from outcry.core.instruments import UnknownName
from outcry.core.kernels import BulkFold
from outcry.core.ladder import Ladder, bracket_windows
from outcry.core.methods import PRESETS, Method
from outcry.core.profile import SessionProfile, levels_of, profile_of
from outcry.core.units import NANOS_PER_SECOND, PRICE_SCALE, OffTickPrice, e9_from_text
from outcry.store.reference import Reference, load_reference

_INT64_MAX_PRICE = 9_000_000_000.0
_FLOAT_ERROR_E9 = 2  # units of 10⁻⁹ by which the nearest double of a price of up to nine decimals may miss it


@dataclass(frozen=True, slots=True)
class Row:
    """One price of a profile: brackets that printed it, and lots traded there."""

    price: float
    letters: str
    tpos: int
    volume: int


@dataclass(frozen=True)
class Profile:
    """A session's profile. Prices are floats that print as the price itself; ranges include both ends."""

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
        """Draw the letters at their prices, with value area, POC, initial balance and volume; return the axes.

        Needs matplotlib (`pip install outcry[plot]`). `ax`: matplotlib axes to draw into, new ones if None.
        """
        from outcry.plot import draw  # noqa: PLC0415 - matplotlib is an extra

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

    data: a dataframe (pandas, Polars, PyArrow) or a mapping of arrays, in any order of time, with `ts` (datetimes, or
    int64 ns UTC) and either `price`, `size` (trades) or `open, high, low, close, volume` (bars, stamped at their
    start). Rows outside the window are left out.

    Either tick_size and window (half-open: two aware datetimes, ISO strings with offset, or int ns), or symbol and
    date: the regular hours of that product on that trade date, and its tick. `method`: a name of
    `outcry.core.methods.PRESETS`.

    Raises ValueError, naming the row, for a price between two ticks (but for presets that round as their origin
    does), a naive datetime, a missing column, or a window in which nothing traded.
    """
    preset = PRESETS.get(method)
    if preset is None:
        raise ValueError(f"method {method!r} is none of {', '.join(PRESETS)}")
    tick_e9, segments = _terms(tick_size, window, symbol, date)
    columns = _columns(data)
    at_ns = _times(columns["ts"])
    inside = _inside(at_ns, segments)
    if not inside.any():
        raise ValueError("no row of the data lies inside the window")
    chosen = {name: column[inside] for name, column in columns.items() if name != "ts"}
    places = np.flatnonzero(inside)
    if preset.placement == "close_up":
        return _of_closes(chosen, places, tick_e9, preset)
    fold = BulkFold(bracket_windows(segments, bracket_minutes))
    if "price" in chosen:
        fold.trades(at_ns[inside], _ticks(chosen["price"], tick_e9, places), _sizes(chosen["size"], "size"))
    else:
        opened, high, low, close = (
            _ticks(chosen[n], tick_e9, places) for n in ("open", "high", "low", "close")
        )
        _check_bars(opened, high, low, close, places)
        fold.bars(at_ns[inside], opened, high, low, close, _sizes(chosen["volume"], "volume"))
    ladder = fold.ladder()
    if ladder is None:
        raise ValueError("no row of the data lies inside the window")
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
    """The tick (10⁻⁹) and the segments (ns) asked for, one way or the other."""
    by_hand, by_name = (tick_size, window), (symbol, day)
    if None not in by_hand and by_name == (None, None):
        tick_e9 = e9_from_text(format(Decimal(str(tick_size)), "f"))
        start, end = (_instant(edge) for edge in window or ())
        if tick_e9 <= 0 or start >= end:
            raise ValueError("tick_size is a positive number, and window begins before it ends")
        return tick_e9, ((start, end),)
    if None in by_name or by_hand != (None, None) or symbol is None or day is None:
        raise ValueError("give either tick_size and window, or symbol and date")
    when = date.fromisoformat(day) if isinstance(day, str) else day
    try:
        product = _reference().universe.resolve(symbol, when, history=True).product
    except UnknownName as problem:
        raise ValueError(str(problem)) from problem
    session = _reference().calendar.session(product.root, when, SessionKind.RTH)
    if session is None:
        raise ValueError(f"{product.root} had no regular session on {when}")
    return product.tick_e9, session.segments


def _instant(value: Any) -> int:
    """An edge of the window as ns UTC; a zone is demanded, for the window is what people write by hand."""
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, np.datetime64):
        raise TypeError("window: a numpy datetime64 has no zone; give aware datetimes, ISO strings or int ns")
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    if at.tzinfo is None:
        raise ValueError(
            f"window: {value!r} has no zone; write it with an offset, such as 2013-10-08T09:30-04:00"
        )
    return _since_epoch(at)


def _since_epoch(at: datetime) -> int:
    since = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    whole = (since.days * 86_400 + since.seconds) * NANOS_PER_SECOND + since.microseconds * 1_000
    return whole + getattr(at, "nanosecond", 0)  # a pandas Timestamp is finer than a datetime


def _columns(data: Any) -> dict[str, Any]:
    """The columns of any dataframe or mapping, as arrays."""
    names = (
        list(data.keys()) if isinstance(data, Mapping) else list(getattr(data, "column_names", data.columns))
    )
    trades, bars = ("ts", "price", "size"), ("ts", "open", "high", "low", "close", "volume")
    wanted = trades if "price" in names else bars
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(
            f"the data has no column {missing[0]!r}: {', '.join(trades)} for trades, {', '.join(bars)} for bars"
        )
    columns = {name: _array(data[name]) for name in wanted}
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("the columns of the data differ in length")
    return columns


def _array(column: Any) -> NDArray[Any]:
    zone = getattr(getattr(column, "dt", None), "tz", None)
    if zone is not None:  # a zoned pandas column: as UTC instants, not as objects
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _times(column: NDArray[Any]) -> NDArray[np.int64]:
    """Times as ns UTC. Datetimes and ISO text without a zone are UTC, as the library's contract says of a column."""
    if np.issubdtype(column.dtype, np.integer):
        return column.astype(np.int64)
    if np.issubdtype(column.dtype, np.datetime64):
        return column.astype("datetime64[ns]").astype(np.int64)
    if column.dtype.kind in "OU":
        return np.array([_stamp(value) for value in column], dtype=np.int64)
    raise TypeError(f"ts is of type {column.dtype}; give datetimes or int64 ns UTC")


def _stamp(value: Any) -> int:
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(at, datetime):
        raise TypeError(f"ts holds {value!r}; give datetimes or int64 ns UTC")
    return _since_epoch(at if at.tzinfo else at.replace(tzinfo=UTC))


def _inside(at_ns: NDArray[np.int64], segments: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    inside = np.zeros(len(at_ns), bool)
    for start, end in segments:
        inside |= (at_ns >= start) & (at_ns < end)
    return inside


def _prices_e9(column: NDArray[Any], places: NDArray[np.intp]) -> NDArray[np.int64]:
    if column.dtype == object:  # Decimals or text: exactly
        return np.array([e9_from_text(format(Decimal(str(value)), "f")) for value in column], dtype=np.int64)
    values = column.astype(np.float64)
    bad = ~(np.abs(values) < _INT64_MAX_PRICE)
    if bad.any():
        raise ValueError(f"row {int(places[bad.argmax()])}: {values[bad.argmax()]} is no price")
    return np.rint(values * PRICE_SCALE).astype(np.int64)


def _ticks(column: NDArray[Any], tick_e9: int, places: NDArray[np.intp]) -> NDArray[np.int64]:
    prices = _prices_e9(column, places)
    ticks = np.rint(prices / tick_e9).astype(np.int64)
    off = np.abs(ticks * tick_e9 - prices) > _FLOAT_ERROR_E9
    if off.any():
        worst = int(off.argmax())
        problem = OffTickPrice(int(prices[worst]), tick_e9)
        raise ValueError(f"row {int(places[worst])}: {problem}") from problem
    return ticks


def _sizes(column: NDArray[Any], name: str) -> NDArray[np.int64]:
    sizes = np.asarray(column, dtype=np.float64)
    if not (np.isfinite(sizes).all() and (sizes >= 0).all() and (sizes == np.rint(sizes)).all()):
        raise ValueError(f"{name} is a whole number of contracts, 0 or more")
    return sizes.astype(np.int64)


def _check_bars(opened: Any, high: Any, low: Any, close: Any, places: NDArray[np.intp]) -> None:
    bad = (high < low) | (opened > high) | (opened < low) | (close > high) | (close < low)
    if bad.any():
        raise ValueError(
            f"row {int(places[bad.argmax()])}: the bar's open or close lies outside its low to high"
        )


def _of_closes(chosen: dict[str, Any], places: NDArray[np.intp], tick_e9: int, preset: Method) -> Profile:
    """A profile as the preset's origin draws it: each bar or trade at the row of its close, rounded up."""
    prices = _prices_e9(chosen["close"] if "close" in chosen else chosen["price"], places)
    # the origin divides doubles before rounding up: a price on the grid stays on it
    ticks = -((_FLOAT_ERROR_E9 - prices) // tick_e9)
    sizes = _sizes(chosen["volume"] if "volume" in chosen else chosen["size"], "volume")
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
