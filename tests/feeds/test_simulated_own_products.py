"""The operator's own products are simulated too: on their tick, in their size step and in their hours."""

import asyncio
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

from outcry.feeds.simulator.clock import DemoClock
from outcry.feeds.simulator.feed import SimulatorFeed
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.trades.example_tables import examples, with_examples
from outcry.trades.own_tables import replace_tables
from outcry.trades.reference_tables import Reference, load_reference

#: Hours from 10:00 to 10:40 only; and a product whose hours ended years ago.
SHORT = """\
SHORT,Short,X,short,,0.25,1,,points,,,,UTC,,,,,,,test,2026-11-23,
ENDED,Ended,X,ended,,1,1,,points,,,,UTC,,,,,,,test,2026-11-23,
"""
HOURS = """\
SHORT,,Mon-Fri,2020-01-01,,10:00-10:40,10:00-10:40,test,2026-11-23,
ENDED,,Mon-Fri,2010-01-01,2015-12-31,10:00-16:00,10:00-16:00,test,2026-11-23,
"""
UNTIL = date(2026, 11, 20)


class StillClock:
    """The clock stands at 11:00 in New York on a Friday."""

    def now_ns(self) -> int:
        return int(datetime(2026, 11, 20, 16, 0, tzinfo=UTC).timestamp()) * 10**9


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Return all examples, a product with short hours and an ended one."""
    folder: Path = tmp_path_factory.mktemp("own")
    _, drafts, _ = with_examples(folder, tuple(examples()))
    more = {"products.csv": SHORT, "sessions.csv": HOURS}
    header = drafts["products.csv"].splitlines()[0].split(",")
    assert header.index("size_step") == 7  # the rows above have the columns of the examples
    replace_tables(folder, {name: text + more.get(name, "") for name, text in drafts.items()})
    return load_reference(folder)


@pytest.fixture(scope="module")
def market(own: Reference) -> SimulatedMarket:
    return SimulatedMarket(1, own.universe.products, own.calendar)


def test_own_products_come_after_ours_and_do_not_change_them(own: Reference, market: SimulatedMarket) -> None:
    packaged = load_reference()
    alone = SimulatedMarket(1, packaged.universe.products, packaged.calendar)
    assert market.packaged_roots == alone.roots
    assert market.roots == (*alone.roots, *examples(), "SHORT", "ENDED")
    session = packaged.calendar.session("ES", UNTIL, SessionKind.RTH)
    assert session is not None
    es = Contract("ES", 2026, 12)
    assert np.array_equal(alone.trades(es, session), market.trades(es, session))


@pytest.mark.parametrize("root", [*examples(), "SHORT"])
def test_trades_are_on_tick_in_steps_and_inside_the_windows(
    root: str, own: Reference, market: SimulatedMarket
) -> None:
    product, contract = own.universe.products[root], own.universe.front(root, UNTIL)
    seen = list(past_sessions(market, contract, own.calendar, UNTIL, 3))
    assert len({session.trade_date for session, _ in seen}) == 3
    for session, rows in seen:
        times = rows["ts_event"]
        inside = [(start <= times) & (times < end) for start, end in session.segments]
        assert np.logical_or.reduce(inside).all()
        assert (np.diff(times) >= 0).all()
        assert (rows["price"] % product.tick_e9 == 0).all()
        assert (rows["price"] > 0).all()
        assert rows["size"].min() >= 1
    if root == "BTC-PERP":  # half a coin on average, in steps of a thousandth
        assert 100 < np.mean([rows["size"].mean() for _, rows in seen]) < 2000


def test_a_market_without_weekends_moves_on_saturday_too(market: SimulatedMarket) -> None:
    """Friday 20 November 2026 to Sunday have scripts of their own; a share repeats none, because it does not trade."""
    scripts = [market.script_of("BTC-PERP", date(2026, 11, day)) for day in (20, 21, 22)]
    assert scripts[0] != scripts[1] != scripts[2]
    assert market.script_of("SPY", date(2026, 11, 21)) == market.script_of("SPY", date(2026, 11, 20))


def test_the_feed_lists_what_trades_and_leaves_out_what_has_ended(
    own: Reference, market: SimulatedMarket
) -> None:
    feed = SimulatorFeed(market, own.universe, own.calendar, StillClock())
    contracts = {contract.root: contract.key for contract in asyncio.run(feed.contracts())}
    assert set(market.roots) - set(contracts) == {"ENDED"}
    assert (contracts["FESX"], contracts["SPY"]) == ("FESXZ2026", "SPY")


def test_holidays_of_own_products_do_not_move_the_clock(own: Reference, market: SimulatedMarket) -> None:
    """The clock needs a day on which all products have full hours; it asks ours only, and `ENDED` has no day."""
    clock = DemoClock(StillClock(), own.calendar, market.packaged_roots)
    assert clock.trade_date == UNTIL
