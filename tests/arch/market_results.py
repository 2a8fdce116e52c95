"""Print the results of simulated sessions and the form that computed them: for tests/arch/test_compiled.py."""

import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import date
from random import Random

import numpy as np

from outcry.base.build_form import form
from outcry.library.price_ticks import MAX_PRICE, ticks_of_floats
from outcry.market.alerts.machine import Fired
from outcry.market.calendar import SessionKind
from outcry.market.fold import SessionFold
from outcry.market.kernels import BulkFold
from outcry.market.ladder import MAX_SESSION_ROWS, bracket_windows
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.live_session import LiveSession
from outcry.market.opening import Opening, Prior
from outcry.market.snapshot import dump
from outcry.market.units import NANOS_PER_MINUTE
from outcry.market.volume_count import TABLES, count_volume

OPEN_NS = 1_767_623_400_000_000_000  # 2026-01-05 09:30 New York
CLOSE_NS = OPEN_NS + 390 * NANOS_PER_MINUTE
NIGHT = date(2026, 1, 2)
OPENING = Opening(
    contract="ESH2026", root="ES", kind=SessionKind.RTH, trade_date=date(2026, 1, 5), segments=((OPEN_NS, CLOSE_NS),),
    short=False, prior=Prior(NIGHT, poc=980, vah=1000, val=960, high=1020, low=950, close=990),
    carried=CarriedLevels((CarriedLevel(1010, NIGHT),), (CarriedLevel(1020, NIGHT),), (CarriedLevel(950, NIGHT),)),
    overnight=(1004, 975), average_range=60,
)  # fmt: skip
Trade = tuple[int, int, int]


def walk(seed: int) -> Iterator[Trade]:
    """Generate a random walk through the session; one trade in fifty is late."""
    random, at_ns, price = Random(seed), OPEN_NS, 990
    while (at_ns := at_ns + random.randrange(4_000_000_000)) < CLOSE_NS:
        price += random.choice((-1, -1, 0, 0, 0, 1, 1)) + (random.random() < 0.002) * random.choice((-9, 9))
        late_ns = random.randrange(20_000_000_000) if random.random() < 0.02 else 0
        yield max(OPEN_NS, at_ns - late_ns), price, random.choice((1, 1, 2, 5, 0, 40))


def live(trades: list[Trade], seed: int) -> tuple[list[Fired], LiveSession]:
    """Fold trades live, one or several at a time, with a restart in the middle."""
    session, fired, at, random = LiveSession(OPENING), list[Fired](), 0, Random(seed)
    while at < len(trades):
        count = random.choice((1, 1, 1, 2, 60))
        at_ns, prices, sizes = zip(*trades[at : at + count], strict=True)
        fired += session.trades(at_ns, prices, sizes)
        at += count
        if len(trades) // 2 <= at < len(trades) // 2 + 60:
            session = LiveSession.load(OPENING, session.dump())
    return fired + session.advance(CLOSE_NS + NANOS_PER_MINUTE), session


def results(seed: int) -> Iterator[object]:
    trades = list(walk(seed))
    windows = bracket_windows(OPENING.segments, 30)
    many, single = SessionFold(windows, MAX_SESSION_ROWS), SessionFold(windows, MAX_SESSION_ROWS)
    many.trades(trades)
    for trade in trades:
        single.trade(*trade)
    bulk = BulkFold(windows)
    for start in range(0, len(trades), 1500):  # whole batches are in order, most are not
        bulk.trades(
            *(np.array(column, np.int64) for column in zip(*trades[start : start + 1500], strict=True))
        )
    ladder = many.ladder()
    assert ladder is not None
    assert ladder == bulk.ladder()
    assert ladder == single.ladder()
    yield dump(ladder).decode()
    fired, session = live(trades, seed)
    yield [repr(alert) for alert in fired]
    yield session.dump().decode()
    capture = session.capture()
    assert capture is not None
    yield capture.dump().decode()
    yield repr(capture.view())


def counts(seed: int) -> Iterator[tuple[int, int, int, list[int]]]:
    """Count random columns, with and without a fault, in any layout: where it stops, the range, and the volumes."""
    random = np.random.default_rng(seed)
    for layout in (
        np.dtype("i8, i8, i8"),
        np.dtype("i8, i8, u4"),
        np.dtype("u1, i8, i8, u4")[["f1", "f2", "f3"]],
    ):
        rows = np.zeros(int(random.integers(1, 3000)), layout)
        times, prices, sizes = (rows[name] for name in layout.names or ())
        times[:] = np.sort(random.integers(0, 10**6, len(rows)))
        prices[:] = random.integers(-40, 41, len(rows))
        sizes[:] = random.integers(1, 2**31, len(rows))
        for column, fault in (
            (times, -1),
            (prices, 2**62),
            (prices, -(2**63)),
            (prices, 41),
            (sizes, 0),
            (sizes, 1),
        ):
            at, base = random.integers(len(rows)), -int(random.integers(40, 100))
            before, column[at] = column[at], fault
            for columns in ((times, prices, sizes), tuple(each.copy() for each in (times, prices, sizes))):
                tables = np.zeros((41 - base, TABLES), np.int64)
                first = int(random.integers(len(rows)))
                found = count_volume(*columns, first, len(rows), base, tables)
                yield *found, tables.sum(axis=1).tolist()
            column[at] = before


def conversions(seed: int) -> Iterator[tuple[bool, list[int]]]:
    """Convert random prices, with and without one that is no multiple of the tick; the ticks if all were converted."""
    random = np.random.default_rng(seed)
    for tick_e9 in (250_000_000, 10_000_000, 15_625_000, 3_906_250, 5, 7, 4, 10**12):
        most = int(min(2**51 // tick_e9, 10**12))
        prices = random.integers(-most, most, 500) * tick_e9 / 1e9
        around = (np.array([-3.1, -3, -2, 0, 2, 3, 3.1]) + tick_e9 * random.integers(0, most)) / 1e9
        for fault in (
            prices[7],
            *around,
            np.nan,
            np.inf,
            -np.inf,
            MAX_PRICE,
            -MAX_PRICE,
            MAX_PRICE - 2**-20,
            1e300,
        ):
            changed, ticks = prices.copy(), np.zeros(500, np.int64)
            changed[random.integers(500)] = fault
            converted = ticks_of_floats(changed, tick_e9, ticks)
            yield converted, ticks.tolist() if converted else []


def main() -> None:
    found = [[*results(seed), *counts(seed), *conversions(seed)] for seed in range(12)]
    alerts = sum(len(each[1]) for each in found)
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()
    json.dump({"form": form(), "alerts": alerts, "digest": digest}, sys.stdout)


if __name__ == "__main__":
    main()
