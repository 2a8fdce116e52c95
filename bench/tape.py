"""Sixty streams for the live benches: the invented market's regular hours, traded more densely, of two feeds.

What matters to speed is kept: products differ in how often they trade by a factor of twenty, every session is measured
against twenty before it, so that every alert machine is armed, and prices go where they fire. A stream is a feed's
contract, so two feeds of thirty products are sixty.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np

from outcry.access.licences import Grant, Scope
from outcry.access.model import GrantRow
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_HOUR
from outcry.sessions.demo_history import write_history
from outcry.trades.feed import Backfill, CaughtUp, Cursor, Ended, Event, FeedCaps, Resume, Trades
from outcry.trades.records import Quality, Rows
from outcry.trades.reference_tables import Reference

SEED = 1848
DAY = date(2024, 5, 15)
PRODUCTS = 30
FEEDS = ("left", "right")
STREAMS = PRODUCTS * len(FEEDS)
#: One invented trade is so many: price then changes at one of seven, and fills share a timestamp.
DENSITY = 3
CAPS = FeedCaps(
    resolution_ns=1, has_id=True, has_side=True, backfill=Backfill.TICKS, reach_ns=0, resume=Resume.BY_TIME,
    has_volume_counter=False, own_clock=True, invented=False,
)  # fmt: skip
EVERYTHING = Scope(
    user_id=1, grants=tuple(Grant("everyone", scope, (), None, None) for scope in ("completed", "live"))
)  # fmt: skip


def lay_out(folder: Path, *, history: int = 20) -> None:
    """Lay a data folder out: `history` past sessions of every product, everything granted to everyone."""
    with open_installation(read_settings({}, data=str(folder))) as house:
        furnish(house, history)


def furnish(house: Installation, history: int = 20) -> None:
    """Give a house `history` past sessions of every product, and grant everything to everyone."""
    market = market_of(house.reference)
    write_history(
        house.store, house.reference.universe.products, contracts(house.reference),
        lambda contract: past_sessions(market, contract, house.reference.calendar, DAY, history),
        source="invented", now_ns=house.clock.now_ns(),
    )  # fmt: skip
    for scope in ("completed", "live"):
        house.store.add_grant(GrantRow(0, "everyone", scope, (), None, None, 0, None), house.clock.now_ns())


def market_of(reference: Reference) -> SimulatedMarket:
    """The invented market."""
    return SimulatedMarket(SEED, reference.universe.products, reference.calendar)


def contracts(reference: Reference) -> list[Contract]:
    """The front contracts of the products played."""
    return [reference.universe.front(root, DAY) for root in market_of(reference).roots[:PRODUCTS]]


def regular_hours(reference: Reference, contract: Contract, density: int = 1) -> Rows:
    """The invented trades of a product's regular hours, each so many times: in as many lots, `density` in a row."""
    session = reference.calendar.session(contract.root, DAY, SessionKind.RTH)
    if session is None:
        raise RuntimeError(f"{contract.root} does not trade on {DAY}")
    rows = np.repeat(market_of(reference).trades(contract, session), density)
    rows["id"] = np.arange(1, len(rows) + 1)
    rows["sequence"] = rows["id"]
    return rows


@dataclass
class Gate:
    """Holds streams until all of them have come, so that what is timed is trades and not openings."""

    streams: int
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    all_there: asyncio.Event = field(default_factory=asyncio.Event)
    there: int = 0

    async def wait(self) -> None:
        """Come, and wait until `opened`."""
        self.there += 1
        if self.there == self.streams:
            self.all_there.set()
        await self.opened.wait()


class TapeFeed:
    """Sends each contract's rows in events of `batch` rows, as fast as they are taken; the first hour before the gate.

    Implements `Feed`. After `turn` events other streams have their turn, for `pace_s`, as they have when a
    feed reads from a socket.
    """

    def __init__(
        self, name: str, rows: Mapping[Contract, Rows], batch: int, gate: Gate, *, turn: int = 1,
        pace_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.name, self.caps, self.run = name, CAPS, ""
        self._rows, self._batch, self._gate, self._turn, self._pace_s = rows, batch, gate, turn, pace_s

    async def contracts(self) -> list[Contract]:
        """See `Feed`."""
        return list(self._rows)

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """See `Feed`. From the beginning only."""
        assert since.since_ns <= self._rows[contract]["ts_event"][0]
        rows, batch = self._rows[contract], self._batch
        head = first_hour(rows)
        yield CaughtUp(int(rows["ts_event"][0]) - 1, Quality.TICKS)
        yield Trades(rows[:head])
        await self._gate.wait()
        for count, start in enumerate(range(head, len(rows), batch), 1):
            yield Trades(rows[start : start + batch])
            if not count % self._turn:
                await asyncio.sleep(self._pace_s)
        yield Ended(int(rows["ts_event"][-1]))

    async def close(self) -> None:
        """See `Feed`."""


def first_hour(rows: Rows) -> int:
    """How many rows lie in the first hour: after them the initial balance stands, and can be broken."""
    return int(np.searchsorted(rows["ts_event"], rows["ts_event"][0] + NANOS_PER_HOUR))


def sent(rows: Sequence[Rows]) -> int:
    """How many rows are sent after the gate."""
    return sum(len(each) - first_hour(each) for each in rows)
