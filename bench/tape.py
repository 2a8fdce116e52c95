"""Sixty streams for the live benches: the simulated market's regular hours with more trades, on two feeds.

It imitates the traits that determine speed. Trading rates of products differ by a factor of twenty. Every session has
twenty earlier ones, so that every alert machine is armed, and prices reach levels that fire. A stream is a contract of
a feed, so two feeds of thirty products are sixty.
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
#: Each simulated trade is repeated this often. Price then changes at one of seven trades, and fills share a timestamp.
DENSITY = 3
CAPS = FeedCaps(
    resolution_ns=1, has_id=True, has_side=True, backfill=Backfill.TICKS, reach_ns=0, resume=Resume.BY_TIME,
    has_volume_counter=False, own_clock=True, invented=False,
)  # fmt: skip
EVERYTHING = Scope(
    user_id=1, grants=tuple(Grant("everyone", scope, (), None, None) for scope in ("completed", "live"))
)  # fmt: skip


def lay_out(folder: Path, *, history: int = 20) -> None:
    """Create a data folder with `history` past sessions of every product, licensed to all users."""
    with open_installation(read_settings({}, data=str(folder))) as installation:
        furnish(installation, history)


def furnish(installation: Installation, history: int = 20) -> None:
    """Store `history` past sessions of every product, and license everything to all users."""
    market = market_of(installation.reference)
    write_history(
        installation.store, installation.reference.universe.products, contracts(installation.reference),
        lambda contract: past_sessions(market, contract, installation.reference.calendar, DAY, history),
        source="invented", now_ns=installation.clock.now_ns(),
    )  # fmt: skip
    for scope in ("completed", "live"):
        installation.store.add_grant(
            GrantRow(0, "everyone", scope, (), None, None, 0, None), installation.clock.now_ns()
        )


def market_of(reference: Reference) -> SimulatedMarket:
    """Return the simulated market."""
    return SimulatedMarket(SEED, reference.universe.products, reference.calendar)


def contracts(reference: Reference) -> list[Contract]:
    """Return the front contracts of the products."""
    return [reference.universe.front(root, DAY) for root in market_of(reference).roots[:PRODUCTS]]


def regular_hours(reference: Reference, contract: Contract, density: int = 1) -> Rows:
    """Return the simulated trades of a product's regular hours, each split into `density` consecutive trades."""
    session = reference.calendar.session(contract.root, DAY, SessionKind.RTH)
    if session is None:
        raise RuntimeError(f"{contract.root} does not trade on {DAY}")
    rows = np.repeat(market_of(reference).trades(contract, session), density)
    rows["id"] = np.arange(1, len(rows) + 1)
    rows["sequence"] = rows["id"]
    return rows


@dataclass
class Gate:
    """Delays streams until all of them are open, so that the time covers trades and not openings."""

    streams: int
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    all_there: asyncio.Event = field(default_factory=asyncio.Event)
    there: int = 0

    async def wait(self) -> None:
        """Register a stream and wait until `opened`."""
        self.there += 1
        if self.there == self.streams:
            self.all_there.set()
        await self.opened.wait()


class TapeFeed:
    """Sends each contract's rows in events of `batch` rows, as fast as they are taken; the first hour before the gate.

    After `turn` events it pauses for `pace_s`, so that other streams run, as with a feed that reads a socket.
    Implements `Feed`.
    """

    def __init__(
        self, name: str, rows: Mapping[Contract, Rows], batch: int, gate: Gate, *, turn: int = 1,
        pace_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.name, self.caps, self.run = name, CAPS, ""
        self._rows, self._batch, self._gate, self._turn, self._pace_s = rows, batch, gate, turn, pace_s

    async def contracts(self) -> list[Contract]:
        """Return the contracts of the rows."""
        return list(self._rows)

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract, from the beginning only."""
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
        """Do nothing."""


def first_hour(rows: Rows) -> int:
    """Return the number of rows in the first hour; after them the initial balance is complete and can be broken."""
    return int(np.searchsorted(rows["ts_event"], rows["ts_event"][0] + NANOS_PER_HOUR))


def sent(rows: Sequence[Rows]) -> int:
    """Return the number of rows after the gate."""
    return sum(len(each) - first_hour(each) for each in rows)
