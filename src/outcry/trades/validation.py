"""Validation of feed events: plausible times, prices and sizes, and rows that agree with each other.

The result is the code of the first fault found; these codes do not change between versions.
"""

import numpy as np
from numpy.typing import NDArray

from outcry.market.units import NANOS_PER_DAY
from outcry.trades.feed import (
    Amend,
    Bars,
    CaughtUp,
    Ended,
    Event,
    Gap,
    Heartbeat,
    Repaired,
    Replaced,
    RowFlag,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.trades.records import Quality, Rows

_EARLIEST_NS = 3652 * NANOS_PER_DAY  # 1980: no recording is older
LATEST_NS = 84_006 * NANOS_PER_DAY  # 2200
# A feed may send heartbeats after its contract's last trade.
AFTERWARDS_NS = 366 * NANOS_PER_DAY
MOST_LOTS = 2**53  # exact in every JSON reader
MOST_BAR_LOTS = 2**40  # far above any real bar; the sum of a session's bars still fits into 64 bits
_MOST_PRICE_E9 = 10**18
_MOST_TEXT = 300
_SIDES = np.array([b"B", b"A", b"N"])
_FLAGS = int(RowFlag.BACKFILL | RowFlag.ESTIMATED_TIME)


def fault_of(event: Event, latest_ns: int, lifetime_ns: tuple[int, int]) -> str:
    """Return the code of the first fault of an event; empty if it is valid.

    `lifetime_ns`: the window (ns UTC) in which the contract can trade. The times of an event's trades must be in it.
    Other times may be up to a year after its end. No time may be after `latest_ns`.
    """
    last_word_ns = min(latest_ns, lifetime_ns[1] + AFTERWARDS_NS)

    def timely(*at_ns: int) -> str:
        return "" if all(is_time(one, last_word_ns) for one in at_ns) else "times"

    match event:
        case Trades(rows):
            return _trades_fault(rows, latest_ns) or _life_fault(rows, lifetime_ns)
        case Bars(rows, quality) if quality is Quality.TICKS:
            return "quality"
        case Bars(rows):
            return _bars_fault(rows, latest_ns) or _life_fault(rows, lifetime_ns)
        case Replaced(from_ns, to_ns):
            return timely(from_ns, to_ns) or _replaced_fault(event, latest_ns, lifetime_ns)
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


def _life_fault(rows: Rows, lifetime_ns: tuple[int, int]) -> str:
    first_ns, last_ns = _ends(rows["ts_event"])
    return "" if lifetime_ns[0] <= first_ns and last_ns < lifetime_ns[1] else "not_listed"


def _trades_fault(rows: Rows, latest_ns: int) -> str:
    for name in ("ts_event", "ts_recv"):
        if not all(is_time(one, latest_ns) for one in _ends(rows[name])):
            return "times"
    sane = (
        _are_prices(rows["price"])
        and bool(np.isin(rows["side"], _SIDES).all())
        and int(rows["flags"].max()) <= _FLAGS
    )
    return "" if sane else "rows"


def _replaced_fault(event: Replaced, latest_ns: int, lifetime_ns: tuple[int, int]) -> str:
    rows, times = event.rows, event.rows["ts_event"]
    if event.from_ns >= event.to_ns:
        return "gap"
    if not len(rows):
        return ""
    fault = _trades_fault(rows, latest_ns) or _life_fault(rows, lifetime_ns)
    sane = (
        event.from_ns <= int(times[0])
        and int(times[-1]) < event.to_ns
        and bool((times[1:] >= times[:-1]).all())
    )
    return fault or ("" if sane else "rows")


def _bars_fault(rows: Rows, latest_ns: int) -> str:
    at_ns = rows["ts_event"]
    if not all(is_time(one, latest_ns) for one in _ends(at_ns)):
        return "times"
    body_low, body_high = np.minimum(rows["open"], rows["close"]), np.maximum(rows["open"], rows["close"])
    sane = (
        _are_prices(rows["low"])
        and _are_prices(rows["high"])
        and bool((rows["low"] <= body_low).all() and (body_high <= rows["high"]).all())
        and int(rows["volume"].max()) <= MOST_BAR_LOTS
        and bool((at_ns[1:] >= at_ns[:-1]).all())
    )
    return "" if sane else "rows"


def _ends(values: NDArray[np.int64]) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def _are_prices(values: NDArray[np.int64]) -> bool:
    low, high = _ends(values)
    return low > -_MOST_PRICE_E9 and high < _MOST_PRICE_E9


def is_time(at_ns: int, latest_ns: int) -> bool:
    """Return whether a time (ns UTC) is plausible for an event."""
    return _EARLIEST_NS <= at_ns <= latest_ns


def _is_text(text: str) -> bool:
    return len(text) <= _MOST_TEXT and text.isprintable()
