"""The Python library: compute a session's profile from a file or any dataframe, without a server.

It uses the same kernel and rules as the service, so both compute the same numbers. See docs/guides/library.md.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, tzinfo
from decimal import Decimal
from itertools import chain, pairwise
from os import PathLike
from typing import Any

import numpy as np

from outcry.base.frames import build_frame
from outcry.base.sizes import Size
from outcry.base.sizes import size as size_of
from outcry.library.conversion import (
    bar_length_ns,
    check_bars,
    check_lengths,
    check_repeats,
    prices_e9,
    sizes_of,
    ticks_of,
)
from outcry.library.dataframes import Part, Table, parts_inside, table_of
from outcry.library.errors import InvalidInput
from outcry.library.files import TableOptions, read_file
from outcry.library.levels import ProfileLevels, Row
from outcry.library.markup import html_of
from outcry.library.parts import balances_of, check_cuts, cuts_of, letters_of
from outcry.library.price_ticks import FLOAT_ERROR_E9
from outcry.library.settings import settings_of
from outcry.library.sides import Deltas
from outcry.library.terms import Selection, Terms, reference_of, size_step_e9, terms_of
from outcry.library.times import Ints, inside, instant_of, span_text, time_text, zone_of
from outcry.market.bar_columns import BarColumns, Columns, TradeColumns, longer_bars, minute_bars
from outcry.market.day_type import day_type
from outcry.market.kernels import BulkFold
from outcry.market.ladder import MAX_ROWS, Ladder, RangeTooWide, bracket_windows
from outcry.market.profile import SessionProfile, levels_of, profile_of
from outcry.market.profile_settings import ProfileSettings, RowPrices, in_rows, ladder_levels
from outcry.market.units import PRICE_SCALE
from outcry.market.volume_statistics import VolumeSums, volume_nodes

__all__ = ["InvalidInput", "Profile", "Row", "profile"]

#: Rows of trades converted at a time, so that the arrays of one step are still in the cache of a core in the next.
_PART_ROWS = 1 << 17
#: Day types are defined by half-hours.
_DAY_TYPE_MINUTES = 30
_NOTHING_TRADED = "No trades in the window: all rows there have size or volume 0"


@dataclass(frozen=True)
class Profile(ProfileLevels):
    """A profile: its levels and rows, as a table, as HTML in a notebook, and as a plot.

    splits: the profiles between the instants of `split`, in order of time; None where nothing traded.
    """

    splits: list["Profile | None"] = field(default_factory=list, repr=False)

    def plot(self, ax: Any = None) -> Any:
        """Draw the TPO letters with value area, POC, initial balance and volume, and return the axes.

        Needs matplotlib (`pip install 'openoutcry[plot]'`). ax: matplotlib axes to draw into; None creates new ones.
        """
        from outcry.library.plot import draw  # noqa: PLC0415 - matplotlib is an extra

        return draw(self, ax)

    def to_frame(self, library: str | None = None) -> Any:
        """Return the rows, highest price first, as a table with the columns `price`, `letters`, `tpos` and `volume`.

        If the trades have sides, there is a column `delta` too.

        library: `pandas`, `polars` or `pyarrow`; None for the one that the program uses or has installed. Raises
        ImportError if there is none.
        """
        names = ("price", "letters", "tpos", "volume", *(("delta",) if self.delta is not None else ()))
        return build_frame({name: [getattr(row, name) for row in self.rows] for name in names}, library)

    def _repr_html_(self) -> str:
        return html_of(self)


def profile(
    data: Any,
    *,
    tick_size: float | str | Decimal | None = None,
    window: tuple[Any, Any] | list[tuple[Any, Any]] | None = None,
    bracket_minutes: int = 30,
    row_ticks: int = 1,
    method: str | Mapping[str, object] = "dalton",
    symbol: str | None = None,
    date: str | date | None = None,
    session: str = "rth",
    tz: str | tzinfo | None = None,
    stamp: str | None = None,
    contract: str | None = None,
    volume: str | None = None,
    decimal: str | None = None,
    dates: str | None = None,
    bad_rows: str | None = None,
    average_range: float | None = None,
    size_step: float | str | Decimal | None = None,
    instruments: str | PathLike[str] | None = None,
    first: Any = None,
    last: Any = None,
    period: str | None = None,
    sessions: Sequence[Any] | None = None,
    split: Sequence[Any] = (),
    anchor: Any = None,
) -> Profile:
    """Compute the profile of a session, of several sessions, or of parts of them.

    data: the path of a file that `outcry import` reads, or a dataframe (pandas, Polars, also lazy, PyArrow), a numpy
    structured array or a mapping of arrays, in any row order. It has times (`ts`, `timestamp` and the like, or a
    datetime index) and either `price` and `size` (trades) or `open`, `high`, `low`, `close` and `volume` (bars, with
    the time of their start). Names may have any case. Rows outside the window are ignored. A column `side` of trades
    (`B` or `buy`, `A`, `S` or `sell`) gives the volume delta.

    Give either tick_size and window, or symbol and date. The window is half-open: two aware datetimes, ISO strings with
    a UTC offset, or int ns; or a list of such pairs, which are merged. symbol and date select the hours and the tick of
    that product on that trade date. date: a date, a datetime or Timestamp at midnight, a numpy datetime64 of a day, or
    ISO text. session: with symbol and date, `rth` (regular hours), `overnight` (from the previous regular close to the
    regular open) or `full` (both).

    Instead of date alone, give date and period (`day`, `week`, `month`, `quarter`), first and last (trade dates, both
    included, or instants, the last not included), or sessions: a list of dates and pairs (first, last), in any order.
    split: instants that divide the profile; the result has a profile for each part in `splits`. anchor: an instant from
    which on trades count for `anchored_vwap`.

    row_ticks: ticks of a row; rows are counted from price 0. A POC is the middle tick of its row, `val` and `vah` are
    the outer ticks of theirs. method: a name in `outcry.market.methods.PRESETS`, or the values of a setting that you
    saved, by the names of `GET /api/presets`; its hours, bracket and row apply where these arguments have their
    defaults. tz: IANA zone of times that have none; those of columns named `ts`, `ts_event` or `…_utc` are UTC. stamp:
    `close` if the time of a bar is its end; a file must say which.
    contract: with a path, the contract to read, such as `ESZ3`. volume, decimal, dates, bad_rows: with the path of a
    table, the options of `outcry import`, such as `volume="total"` for running totals. average_range: mean range of up
    to 20 earlier sessions, as a price difference; without it no day is a `non_trend`. size_step: with tick_size, the
    smallest size of an instrument that is traded in fractions, such as 0.001; then volumes may be fractions.
    instruments: a data folder with your own instruments, or its folder `instruments`; symbol may then be one of them.

    Raises InvalidInput, a ValueError, with the problem, the value, a remedy and the row if there is one.
    """
    settings = settings_of(method, session, bracket_minutes, row_ticks)
    if stamp not in (None, "open", "close"):
        raise InvalidInput(f"Invalid stamp {stamp!r}", "Use open or close.")
    selection = Selection(date, first, last, period, sessions)
    zone, reference = zone_of(tz), reference_of(instruments)
    terms = terms_of(tick_size, window, symbol, selection, settings.hours if symbol else session, reference)
    step_e9 = size_step_e9(size_step, terms.product)
    cuts = cuts_of(terms, split)
    named: str | None = None
    if isinstance(data, (str, PathLike)):
        table, named = read_file(
            data, terms, contract=contract, zone=zone, stamp=stamp,
            table=TableOptions(volume, decimal, dates, bad_rows), size_step_e9=step_e9, reference=reference,
        )  # fmt: skip
    elif any((volume, decimal, dates, bad_rows)):
        raise InvalidInput(
            "volume, decimal, dates and bad_rows say how to read a file, but data is a table",
            "Prepare the columns yourself.",
        )
    elif contract is not None:
        raise InvalidInput(
            "contract selects rows of a file, but data is a table", "Select the rows yourself."
        )
    else:
        table = table_of(data, zone)._replace(size_step_e9=step_e9)
        if table.bars and stamp == "close":
            table = table._replace(at_ns=_starts(table.at_ns))
    fixed: dict[str, Any] = {
        "symbol": symbol, "contract": named, "session": terms.session,
        "bracket_minutes": settings.bracket_minutes, "row_ticks": settings.row_ticks,
    }  # fmt: skip
    if table.bars:
        check_cuts(table.at_ns, terms, cuts)
    try:
        found = _computed(table, terms, settings, fixed, average_range)
        pieces = [terms.cut(*piece) for piece in pairwise(cuts)] if split else []
        splits = [_piece(table, piece, settings, fixed) for piece in pieces]
        anchored = {} if anchor is None else _anchored(table, terms, instant_of(anchor, "anchor"))
    except RangeTooWide as problem:
        raise InvalidInput(
            f"Invalid prices: {problem.describe(terms.tick_e9)}", "Check the price column."
        ) from problem
    except InvalidInput as problem:
        if table.origin is None or problem.row is None:
            raise
        at = time_text(int(table.at_ns[problem.row]))
        raise InvalidInput(f"{table.origin}, {at}: {problem.problem}", problem.remedy) from problem
    return replace(found, splits=splits, **anchored)


def _computed(
    table: Table, terms: Terms, settings: ProfileSettings, fixed: dict[str, Any],
    average_range: float | None = None,
) -> Profile:  # fmt: skip
    """Return the profile of the rows inside the windows. fixed: fields of the result that do not depend on these."""
    minutes, preset = settings.bracket_minutes, settings.method
    asked: dict[str, Any] = fixed | {
        "date": terms.date, "window_ns": (terms.segments[0][0], terms.segments[-1][1]), "sessions": terms.days,
    }  # fmt: skip
    if settings.counts_closes:
        return _of_closes(table, terms, settings, asked)
    deltas, fold = Deltas(), BulkFold(bracket_windows(terms.bracket_segments, minutes))
    if settings.bar_minutes:
        _longer_bars(table, terms, settings.bar_minutes).add_to(fold)
    else:
        _fold(table, terms, fold, minutes, deltas)
    ladder = fold.ladder()
    if ladder is None:  # rows of size 0 and bars of volume 0 do not count as trades
        raise InvalidInput(_NOTHING_TRADED, "Check the size or volume column.")
    found = profile_of(ladder, 60 // minutes, preset)
    if terms.regular and minutes == _DAY_TYPE_MINUTES:
        average = None if average_range is None else round(average_range * PRICE_SCALE / terms.tick_e9)
        asked["day_type"] = day_type(found, average).value
    asked["balances"] = balances_of(ladder, terms, settings)
    return _shown(ladder, found, terms, table.size_step_e9, settings, deltas.of(ladder), asked)


def _piece(
    table: Table, terms: Terms | None, settings: ProfileSettings, fixed: dict[str, Any]
) -> Profile | None:
    """Return the profile of a part of the selection; None if nothing traded in it."""
    if terms is None or not inside(table.at_ns, terms.segments).any():
        return None
    try:
        return _computed(table, terms, settings, fixed)
    except InvalidInput as problem:
        if problem.problem == _NOTHING_TRADED:
            return None
        raise


def _anchored(table: Table, terms: Terms, anchor_ns: int) -> dict[str, float]:
    """Return the VWAP of the rows at or after a time as fields of a profile. Bars count if they start then or later."""
    rest = terms.cut(anchor_ns, terms.segments[-1][1])
    if rest is None or not inside(table.at_ns, rest.segments).any():
        return {}
    fold = BulkFold(bracket_windows(terms.bracket_segments, _DAY_TYPE_MINUTES))
    _fold(table, rest, fold, _DAY_TYPE_MINUTES, Deltas())
    ladder = fold.ladder()
    sums = VolumeSums.of(ladder.volume, ladder.low_ticks) if ladder else VolumeSums()
    return {f"anchored_{name}": value for name, value in _vwap(sums, terms.tick_e9).items()}


def _starts(at_ns: Ints) -> Ints:
    """Return the starts of bars that are stamped at their end."""
    length = bar_length_ns(at_ns)
    if not length:
        raise InvalidInput(
            "Cannot tell the length of a single bar, which is stamped at its end",
            "Give the time of its start.",
        )
    return at_ns - length


def _parts(table: Table, terms: Terms, rows: int) -> chain[Part]:
    """Return the parts of the table inside the window. Raises `InvalidInput` if there are none."""
    parts = parts_inside(table, terms.segments, rows)
    first = next(parts, None)
    if first is None:
        covered = span_text(int(table.at_ns.min()), int(table.at_ns.max()))
        raise InvalidInput(
            f"No rows in the window {terms.span}: the data covers {covered}",
            "Check the dates and the time zone of the times.",
        )
    return chain((first,), parts)


def _step_to_read(table: Table) -> int:
    """Return the step by which the table's sizes are divided; 1 for sizes that are whole steps already."""
    return PRICE_SCALE if table.in_steps else table.size_step_e9


def _fold(table: Table, terms: Terms, fold: BulkFold, bracket_minutes: int, deltas: Deltas) -> None:
    """Add the rows inside the window to a fold and to the deltas."""
    for columns in _columns(table, terms, bracket_minutes, deltas):
        columns.add_to(fold)


def _longer_bars(table: Table, terms: Terms, minutes: int) -> BarColumns:
    """Return the rows inside the window as bars of a length, in order of time."""
    parts = [*_columns(table, terms, minutes, Deltas())]
    rows = parts[0]
    if isinstance(rows, TradeColumns) and len(parts) > 1:
        rows = TradeColumns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return longer_bars(minute_bars(rows, terms.segments), terms.bracket_segments, minutes)


def _columns(table: Table, terms: Terms, bracket_minutes: int, deltas: Deltas) -> Iterator[Columns]:
    """Yield the rows inside the window, and add them to the deltas. Bars must not be longer than a bracket."""
    names, fixed, tick_e9, step_e9 = table.names, table.fixed, terms.tick_e9, _step_to_read(table)
    if not table.bars:
        for part in _parts(table, terms, _PART_ROWS):
            ticks, sizes = _checked(
                lambda part=part: ticks_of(part.columns["price"], tick_e9, part.places, fixed=fixed),
                lambda part=part: sizes_of(part.columns["size"], names["size"], part.places, step_e9),
            )
            yield TradeColumns(part.at_ns, ticks, sizes)
            if "side" in part.columns:
                deltas.add(ticks, sizes, part.columns["side"])
        return
    bars = next(_parts(table, terms, len(table.at_ns)))
    columns, places = bars.columns, bars.places
    check_repeats(bars.at_ns, places)
    check_lengths(table.at_ns, terms.bracket_segments, bracket_minutes)
    opened, high, low, close, volume = _checked(
        *(
            lambda name=name: ticks_of(columns[name], tick_e9, places, fixed=fixed)
            for name in ("open", "high", "low", "close")
        ),
        lambda: sizes_of(columns["volume"], names["volume"], places, step_e9),
    )
    check_bars(opened, high, low, close, places)
    yield BarColumns(bars.at_ns, opened, high, low, close, volume)


def _checked(*steps: Callable[[], Ints]) -> list[Ints]:
    """Convert columns. If several have an invalid value, raise the error of the first row."""
    done: list[Ints] = []
    faults: list[InvalidInput] = []
    for step in steps:
        try:
            done.append(step())
        except InvalidInput as fault:
            faults.append(fault)
    if faults:
        raise min(faults, key=lambda fault: -1 if fault.row is None else fault.row)
    return done


def _closes(table: Table, terms: Terms) -> tuple[Ints, Ints]:
    """Return the closes of bars, or the trades, in order of time: prices rounded up to a tick, and sizes in lots."""
    part, tick_e9 = next(_parts(table, terms, len(table.at_ns))), terms.tick_e9
    if table.bars:
        check_repeats(part.at_ns, part.places)
    price_name, size_name = ("close", "volume") if table.bars else ("price", "size")
    prices, sizes = _checked(
        lambda: prices_e9(part.columns[price_name], tick_e9, part.places, fixed=table.fixed),
        lambda: sizes_of(part.columns[size_name], table.names[size_name], part.places, _step_to_read(table)),
    )
    # the original divides doubles before rounding up, so a price on the grid must stay there
    ticks = -((FLOAT_ERROR_E9 - prices) // tick_e9)
    traded = sizes > 0
    if not traded.any():
        raise InvalidInput(_NOTHING_TRADED, "Check the size or volume column.")
    order = np.argsort(part.at_ns[traded], kind="stable")
    return ticks[traded][order], sizes[traded][order]


def _of_closes(table: Table, terms: Terms, settings: ProfileSettings, asked: dict[str, Any]) -> Profile:
    """Return the profile for presets that count each bar or trade only at its close, rounded up to a row."""
    preset, tick_e9 = settings.method, terms.tick_e9
    if settings.bar_minutes:
        bars = _longer_bars(table, terms, settings.bar_minutes)
        ticks, sizes = bars.close, bars.volume_lots
        if not len(ticks):
            raise InvalidInput(_NOTHING_TRADED, "Check the size or volume column.")
    else:
        ticks, sizes = _closes(table, terms)
    sums = VolumeSums.of_trades(ticks.tolist(), sizes.tolist())
    size = settings.row_ticks
    first, last = int(ticks[0]), int(ticks[-1])
    lowest, highest = int(ticks.min()), int(ticks.max())
    ticks = -(-ticks // size)
    low, rows = int(ticks.min()), int(ticks.max() - ticks.min()) + 1
    if rows > MAX_ROWS:
        raise RangeTooWide(low, low + rows - 1)
    volume = np.bincount(ticks - low, sizes, rows).astype(np.int64).tolist()
    tpos = np.bincount(ticks - low, minlength=rows).tolist()
    poc, val, vah, tied = levels_of(volume if preset.basis == "volume" else tpos, preset)
    vpoc, volume_val, volume_vah, _ = levels_of(volume, preset)

    def price(row: int) -> float:
        return tick_price((low + row) * size)

    def tick_price(tick: int) -> float:
        return tick * tick_e9 / PRICE_SCALE

    nodes = volume_nodes(volume)
    return Profile(
        poc=price(poc), vah=price(vah), val=price(val), vpoc=price(vpoc), ib_high=math.nan, ib_low=math.nan,
        high=tick_price(highest), low=tick_price(lowest), poc_candidates=[price(row) for row in tied],
        poor_high=False, poor_low=False, single_prints=[], method=preset.name, tick_size=tick_e9 / PRICE_SCALE,
        volume_vah=price(volume_vah), volume_val=price(volume_val), open=tick_price(first), close=tick_price(last),
        rows=[
            Row(price(row), "", tpos[row], size_of(volume[row], table.size_step_e9))
            for row in reversed(range(rows)) if tpos[row]
        ],
        high_volume_nodes=[price(row) for row in nodes.high], low_volume_nodes=[price(row) for row in nodes.low],
        **_vwap(sums, tick_e9), **asked,
    )  # fmt: skip


def _shown(
    ladder: Ladder, found: SessionProfile, terms: Terms, step_e9: int, settings: ProfileSettings,
    deltas: list[int] | None, asked: dict[str, Any],
) -> Profile:  # fmt: skip
    tick_e9 = terms.tick_e9

    def price(ticks: int) -> float:
        return ticks * tick_e9 / PRICE_SCALE

    def shown(half_ticks: int) -> float:
        return half_ticks * tick_e9 / (2 * PRICE_SCALE)

    size, scale = settings.row_ticks, settings.scale
    levels, rows = ladder_levels(ladder, settings), in_rows(ladder, size)
    prices, nodes = RowPrices(rows.low_ticks, size), volume_nodes(rows.volume)
    marks, tpos = letters_of(rows, terms, settings.bracket_minutes), rows.tpo_counts()
    of_rows: list[Size | None] = [None] * len(marks)
    if deltas is not None:
        sums = [0] * len(marks)
        for tick, delta in enumerate(deltas, ladder.low_ticks):
            sums[tick // size - rows.low_ticks] += delta
        of_rows = [size_of(lots, step_e9) for lots in sums]
    return Profile(
        poc=shown(scale.poc(levels.poc // size)), vah=shown(scale.vah(levels.vah // size)),
        val=shown(scale.val(levels.val // size)), vpoc=shown(scale.poc(levels.vpoc // size)),
        ib_high=price(found.ib_high) if terms.has_first_hour else math.nan,
        ib_low=price(found.ib_low) if terms.has_first_hour else math.nan, high=price(found.high), low=price(found.low),
        poc_candidates=[shown(scale.poc(ticks // size)) for ticks in levels.poc_candidates],
        poor_high=found.poor_high, poor_low=found.poor_low,
        single_prints=[(price(low), price(high)) for low, high in found.single_prints],
        volume_vah=shown(scale.vah(levels.volume_vah // size)), volume_val=shown(scale.val(levels.volume_val // size)),
        open=price(found.open), close=price(found.close),
        rows=[
            Row(price(prices.low(row)), marks[row], tpos[row], size_of(rows.volume[row], step_e9), of_rows[row])
            for row in reversed(range(len(marks)))
        ],
        high_volume_nodes=[price(prices.middle(row)) for row in nodes.high],
        low_volume_nodes=[price(prices.middle(row)) for row in nodes.low],
        delta=None if deltas is None else size_of(sum(deltas), step_e9), method=settings.method.name,
        tick_size=tick_e9 / PRICE_SCALE, **_vwap(VolumeSums.of(ladder.volume, ladder.low_ticks), tick_e9), **asked,
    )  # fmt: skip


def _vwap(sums: VolumeSums, tick_e9: int) -> dict[str, float]:
    middle, deviation = sums.vwap_e9(tick_e9), sums.deviation_e9(tick_e9)
    if middle is None or deviation is None:
        return {}
    return {"vwap": middle / PRICE_SCALE, "vwap_deviation": deviation / PRICE_SCALE}
