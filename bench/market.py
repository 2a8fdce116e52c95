"""Simulated trades like those of an index future, the same in each run, and a DBN recording of them.

It imitates the traits that determine speed. Price stays on a row and moves by a tick. Sweeps share a timestamp, and
most trades are small. Four fifths of a day trade in regular hours, and a session spans some hundreds of rows.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import databento_dbn as dbn
import numpy as np
import zstandard
from numpy.typing import NDArray

from outcry.market.calendar import SessionKind
from outcry.market.units import NANOS_PER_MINUTE
from outcry.trades.reference_tables import load_reference

ROWS = 400  # the range of the walk, in ticks
MIDDLE_TICKS = 19_200  # 4,800 points of an ES
TICK_E9 = 250_000_000
REGULAR_SHARE = 0.8
SYMBOL, INSTRUMENT = "ESH4", 118
DAYS = (date(2024, 1, 8), date(2024, 1, 9), date(2024, 1, 10), date(2024, 1, 11), date(2024, 1, 12))
RECORD = np.dtype(dbn.TradeMsg._dtypes)
_STEP = 1 << 20


class Trades(NamedTuple):
    """Columns of one length: ns UTC, ticks, lots."""

    at_ns: NDArray[np.int64]
    price_ticks: NDArray[np.int64]
    size_lots: NDArray[np.uint32]


def regular_session(day: date = DAYS[0]) -> tuple[tuple[int, int], ...]:
    """The segments of an ES session in regular hours (ns UTC, half-open)."""
    session = load_reference().calendar.session("ES", day, SessionKind.RTH)
    if session is None:
        raise RuntimeError(f"{day} is no trading day")
    return session.segments


def trades(count: int, window: tuple[int, int], seed: int = 1) -> Trades:
    """Generate trades in order of time within a half-open window (ns UTC)."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0, count)
    gaps[rng.random(count) < 0.4] = 0.0  # fills of one order have the same timestamp
    at = np.cumsum(gaps, out=gaps)
    at *= (window[1] - window[0] - 1) / at[-1]
    steps = rng.choice(np.array([-1, 0, 1], np.int64), count, p=(0.11, 0.78, 0.11))
    walk = np.cumsum(steps) % (2 * ROWS)
    prices = MIDDLE_TICKS + np.abs(walk - ROWS) - ROWS // 2
    sizes = np.minimum(rng.zipf(1.9, count), 500).astype(np.uint32)
    return Trades(at.astype(np.int64) + window[0], prices, sizes)


def _day(day: date, count: int) -> Iterator[Trades]:
    """Generate one trade date: overnight, regular hours, and the time after them."""
    calendar = load_reference().calendar
    ((opened, closed),) = regular_session(day)
    around = calendar.trade_dates("ES", opened, closed)[0].segments
    pieces = [(around[0][0], opened), (opened, closed), (closed, around[-1][1])]
    shares = (0.15, REGULAR_SHARE, 0.05)
    for place, (window, share) in enumerate(zip(pieces, shares, strict=True)):
        if window[1] - window[0] > NANOS_PER_MINUTE:
            yield trades(int(count * share), window, seed=day.toordinal() * 8 + place)


def write_recording(path: Path, count: int) -> int:
    """Write a DBN recording of one contract over several trade dates; return its number of trades.

    The file is compressed if its name ends in .zst.
    """
    written = 0
    with path.open("wb") as file:
        packed = (
            zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False)
            if path.suffix == ".zst"
            else file
        )
        packed.write(_metadata())
        for day in DAYS:
            for made in _day(day, count // len(DAYS)):
                for start in range(0, len(made.at_ns), _STEP):
                    at = slice(start, start + _STEP)
                    piece = Trades(made.at_ns[at], made.price_ticks[at], made.size_lots[at])
                    packed.write(_records(piece, written).tobytes())
                    written += len(piece.at_ns)
        if packed is not file:
            packed.close()
    return written


def _records(made: Trades, before: int) -> NDArray[Any]:
    records = np.zeros(len(made.at_ns), RECORD)
    rng = np.random.default_rng(before)
    records["length"], records["rtype"], records["publisher_id"] = RECORD.itemsize // 4, 0, 1
    records["instrument_id"], records["action"], records["flags"] = INSTRUMENT, b"T", 128
    records["ts_event"], records["ts_recv"] = (
        made.at_ns,
        made.at_ns + 150_000 + rng.integers(0, 20_000, len(records)),
    )
    records["ts_in_delta"] = rng.integers(12_000, 16_000, len(records))
    records["price"], records["size"] = made.price_ticks * TICK_E9, made.size_lots
    records["side"] = np.array([b"A", b"B"])[rng.integers(0, 2, len(records))]
    records["sequence"] = np.arange(before, before + len(records))
    return records


def _metadata() -> bytes:
    interval = SimpleNamespace(
        start_date=date(2023, 12, 1), end_date=date(2024, 3, 15), symbol=str(INSTRUMENT)
    )
    mapping: Any = SimpleNamespace(raw_symbol=SYMBOL, intervals=[interval])
    metadata = dbn.Metadata(
        dataset="GLBX.MDP3", schema=dbn.Schema.from_str("trades"), start=0, end=None, limit=None, ts_out=False,
        stype_in=dbn.SType.from_str("raw_symbol"), stype_out=dbn.SType.from_str("instrument_id"),
        symbols=[SYMBOL], partial=[], not_found=[], mappings=[mapping],
    )  # fmt: skip
    return bytes(metadata.encode())
