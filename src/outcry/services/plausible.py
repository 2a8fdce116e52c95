"""What an event of a feed can say at all: times, prices and sizes that can be, rows that fit together.

Rule kept: a fault is named by a stable word, of the first thing that is wrong.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from outcry.core.units import NANOS_PER_DAY
from outcry.ports.feed import (
    Amend,
    Bars,
    CaughtUp,
    Ended,
    Event,
    Gap,
    Heartbeat,
    Repaired,
    RowFlag,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.ports.records import Quality, Rows

_EARLIEST_NS = 3652 * NANOS_PER_DAY  # 1980: no recording is older
LATEST_NS = 84_006 * NANOS_PER_DAY  # 2200
MOST_LOTS = 2**53  # a whole number in every program that reads our answers
_MOST_PRICE_E9 = 10**18
_MOST_TEXT = 300
_SIDES = np.array([b"B", b"A", b"N"])
_FLAGS = int(RowFlag.BACKFILL | RowFlag.ESTIMATED_TIME)


def fault_of(event: Event, latest_ns: int) -> str:
    """What is wrong with an event, none of which may be later than `latest_ns` (UTC); empty where nothing is."""

    def timely(*at_ns: int) -> str:
        return "" if all(is_time(one, latest_ns) for one in at_ns) else "times"

    match event:
        case Trades(rows):
            return _trades_fault(rows, timely)
        case Bars(rows, quality):
            return "quality" if quality is Quality.TICKS else _bars_fault(rows, timely)
        case Gap(from_ns, to_ns, why):
            return timely(from_ns, to_ns) or ("" if from_ns < to_ns and _is_text(why) else "gap")
        case Repaired(from_ns, to_ns):
            return timely(from_ns, to_ns) or ("" if from_ns < to_ns else "gap")
        case Amend(number, _, price, size):
            sane = 0 <= number < 2**64 and abs(price) < _MOST_PRICE_E9 and 0 <= size < 2**32
            return "" if sane else "amend"
        case VolumeCounter(at_ns, lots):
            return timely(at_ns) or ("" if 0 <= lots < MOST_LOTS else "volume")
        case Status(_, code, text):
            return "" if _is_text(code) and _is_text(text) else "status"
        case CaughtUp(at_ns) | Heartbeat(at_ns) | Ended(at_ns):
            return timely(at_ns)


def _trades_fault(rows: Rows, timely: Callable[..., str]) -> str:
    at_ns, received_ns = rows["ts_event"], rows["ts_recv"]
    if fault := timely(*_ends(at_ns), *_ends(received_ns)):
        return fault
    sane = (
        _are_prices(rows["price"])
        and bool(np.isin(rows["side"], _SIDES).all())
        and int(rows["flags"].max()) <= _FLAGS
    )
    return "" if sane else "rows"


def _bars_fault(rows: Rows, timely: Callable[..., str]) -> str:
    at_ns = rows["ts_event"]
    if fault := timely(*_ends(at_ns)):
        return fault
    body_low, body_high = np.minimum(rows["open"], rows["close"]), np.maximum(rows["open"], rows["close"])
    sane = (
        _are_prices(rows["low"])
        and _are_prices(rows["high"])
        and bool((rows["low"] <= body_low).all() and (body_high <= rows["high"]).all())
        and int(rows["volume"].max()) < MOST_LOTS
        and bool((at_ns[1:] >= at_ns[:-1]).all())
    )
    return "" if sane else "rows"


def _ends(values: NDArray[np.int64]) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def _are_prices(values: NDArray[np.int64]) -> bool:
    low, high = _ends(values)
    return low > -_MOST_PRICE_E9 and high < _MOST_PRICE_E9


def is_time(at_ns: int, latest_ns: int) -> bool:
    """Whether an instant (ns UTC) can be one of an event."""
    return _EARLIEST_NS <= at_ns <= latest_ns


def _is_text(text: str) -> bool:
    return len(text) <= _MOST_TEXT and text.isprintable()
