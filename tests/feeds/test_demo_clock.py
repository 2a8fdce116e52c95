"""Clock of a demo. November 2026: the 21st is a Saturday, the 26th Thanksgiving, the 27th a short day.

New York is five hours behind UTC; the markets shown are closed from 17:00 to 18:00 New York and over the weekend.
"""

from datetime import UTC, datetime

import pytest

from outcry.feeds.simulator.clock import DemoClock
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.trades.reference_tables import Reference, load_reference


def at(text: str) -> int:
    """Convert a UTC time to ns."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NANOS_PER_SECOND


class SettableClock:
    def __init__(self, now_ns: int) -> None:
        self.now = now_ns

    def now_ns(self) -> int:
        return self.now


@pytest.fixture(scope="module")
def reference() -> Reference:
    return load_reference()


def clock(reference: Reference, hand: SettableClock, *roots: str, began_ns: int | None = None) -> DemoClock:
    full = [product.root for product in reference.universe.products.values() if product.parent is None]
    return DemoClock(hand, reference.calendar, roots or full, began_ns=began_ns)


@pytest.mark.parametrize(
    ("real", "market"),
    [
        ("2026-11-21T12:00", "2026-11-20T15:20"),  # Saturday: Friday
        ("2026-11-22T23:30", "2026-11-20T15:20"),  # Sunday evening, though Monday's night has begun
        ("2026-11-23T08:00", "2026-11-23T15:20"),  # Monday before the open: Monday
        ("2026-11-24T03:00", "2026-11-23T15:20"),  # still Monday in New York
        ("2026-11-26T18:00", "2026-11-25T15:20"),  # Thanksgiving
        ("2026-11-28T12:00", "2026-11-25T15:20"),  # the day after it closes early
        ("2026-07-05T12:00", "2026-07-02T14:20"),  # summer time: four hours; the 3rd is Independence Day's
    ],
)
def test_it_begins_at_twenty_past_ten_of_the_newest_ordinary_day(
    reference: Reference, real: str, market: str
) -> None:
    assert clock(reference, SettableClock(at(real))).now_ns() == at(market)


def test_it_runs_as_the_real_clock_does(reference: Reference) -> None:
    hand = SettableClock(at("2026-11-21T12:00"))
    demo = clock(reference, hand)
    for passed in (1, 999, NANOS_PER_SECOND, 3 * NANOS_PER_HOUR + 7):
        hand.now = at("2026-11-21T12:00") + passed
        assert demo.now_ns() == at("2026-11-20T15:20") + passed


@pytest.mark.parametrize(
    ("passed", "market"),
    [
        ("06:39:59", "2026-11-18T21:59:59"),  # Wednesday 16:59:59 New York
        ("06:40:00", "2026-11-18T23:00:00"),  # an hour's break
        ("29:40:00", "2026-11-19T23:00:00"),  # 23 hours on, the next
        ("52:40:00", "2026-11-22T23:00:00"),  # Friday's close is Sunday's open
        ("53:40:00", "2026-11-23T00:00:00"),
    ],
)
def test_it_leaves_out_breaks_and_weekends(reference: Reference, passed: str, market: str) -> None:
    """Though crypto trades on: it would be watched alone."""
    hours, minutes, seconds = (int(part) for part in passed.split(":"))
    hand = SettableClock(at("2026-11-18T20:00"))
    demo = clock(reference, hand)
    hand.now += hours * NANOS_PER_HOUR + minutes * NANOS_PER_MINUTE + seconds * NANOS_PER_SECOND
    assert demo.now_ns() == at(market)


def test_crypto_alone_is_watched_through_the_weekend(reference: Reference) -> None:
    hand = SettableClock(at("2026-11-18T20:00"))
    demo = clock(reference, hand, "BTC", "ETH")
    hand.now += 80 * NANOS_PER_HOUR  # from Wednesday 10:20 to Saturday 18:20 New York
    assert demo.now_ns() == at("2026-11-21T23:20")


def test_it_depends_on_the_real_clock_alone(reference: Reference) -> None:
    """Asked every few hours or once after months, begun now or gone on with from an earlier run: the same."""
    began = at("2026-11-18T20:00")
    often, once = SettableClock(began), SettableClock(began)
    asked, rarely = clock(reference, often), clock(reference, once)
    for _ in range(400):
        often.now += 5 * NANOS_PER_HOUR + 17
        asked.now_ns()
    once.now = often.now
    assert rarely.now_ns() == asked.now_ns()
    assert clock(reference, SettableClock(often.now), began_ns=began).now_ns() == asked.now_ns()
    for root in ("ES", "CL", "6E"):  # and the market is open
        assert reference.calendar.session_at(root, asked.now_ns())


def test_it_never_goes_back(reference: Reference) -> None:
    hand = SettableClock(at("2026-11-18T20:00"))
    demo = clock(reference, hand)
    hand.now += NANOS_PER_HOUR
    latest = demo.now_ns()
    hand.now -= 2 * NANOS_PER_HOUR
    assert demo.now_ns() == latest
    hand.now += 2 * NANOS_PER_HOUR + 5
    assert demo.now_ns() == latest + 5
