"""Market data of a simulation: recordings generated from a seed, and growing files like Sierra Chart's.

The seed and the day determine all data. Rows written to a growing file are stored, so that results can be checked.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
from support.recordings import MemoryRecording

from outcry.feeds.replay import ReplayFeed
from outcry.feeds.replay_pacing import Pacer
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_SECOND
from outcry.recordings.formats.scid import EPOCH_US, HEADER, RECORD
from outcry.sessions.demo_history import write_history
from outcry.sessions.store import SqlStore
from outcry.trades.records import TRADE, Batch, Quality, Rows
from outcry.trades.reference_tables import Reference

#: Products of the operator's recordings and of the users'. They are separate, because otherwise reference levels would
#: depend on whose session is stored first.
SHARED, PERSONAL = ("ES", "NQ", "YM", "RTY"), ("CL", "GC", "ZN", "6E", "SI", "ZB", "NG", "6J")
#: Products traded on every day at every hour.
ROUND_THE_CLOCK = ("BTC", "ETH")
DAYS = 2
#: Maximum trades of a contract and session in a recording.
MOST_TRADES = {"eth": 600, "rth": 2500}
_MS = 1_000_000


@dataclass(frozen=True)
class PushedRecording:
    """One owner's recording, of several contracts, pushed under a feed's name.

    `owner`: an email address, or `operator`.
    """

    owner: str
    feed: str
    roots: tuple[str, ...]
    seed: int

    def contracts(self, reference: Reference, days: Sequence[date]) -> list[Contract]:
        """Return its contracts."""
        return [reference.universe.front(root, days[0]) for root in self.roots]

    def replay(self, reference: Reference, days: Sequence[date], pace: Pacer) -> ReplayFeed:
        """Return a feed that replays it."""
        market = SimulatedMarket(self.seed, reference.universe.products, reference.calendar)
        batches = [
            Batch(contract, Quality.TICKS, _thinned(market.trades(contract, session), session), "simulated")
            for contract in self.contracts(reference, days)
            for session in reference.calendar.sessions(contract.root, days[0], days[-1])
        ]
        return ReplayFeed([MemoryRecording(self.feed, batches)], reference.calendar, pace, name=self.feed)


def recordings_of(number: int, seed: int, users: int) -> list[PushedRecording]:
    """Return the recordings of one round: the operator's, and each user's."""
    chance = random.Random(f"{seed}/{number}")
    feed = f"recording{number}"
    found: list[PushedRecording] = []
    if number < len(SHARED):
        found.append(PushedRecording("operator", feed, (SHARED[number],), chance.randrange(2**31)))
    for at in range(users):
        roots, own_seed = tuple(sorted(chance.sample(PERSONAL, 2))), chance.randrange(2**31)
        found.append(PushedRecording(f"u{number}-{at}@example.com", feed, roots, own_seed))
    return found


def days_of(reference: Reference, today: date) -> list[date]:
    """Return the trade dates to play: the last ones of a completed week, for every product."""
    day, found = today - timedelta(days=today.weekday() + 3), list[date]()
    roots = (*SHARED, *PERSONAL)
    while len(found) < DAYS:
        if all(len(list(reference.calendar.sessions(root, day, day))) == 2 for root in roots):
            found.insert(0, day)
        day -= timedelta(days=1)
    return found


def _thinned(rows: Rows, session: Session) -> Rows:
    most = MOST_TRADES[session.kind.value]
    few = rows[:: -(-len(rows) // most)]
    plain = np.zeros(len(few), TRADE)
    for name in TRADE.names or ():
        plain[name] = few[name]
    return plain


class GrowingFile:
    """A Sierra Chart file of one contract that grows by current trades.

    `prices` and `sizes` are those of its trades.
    """

    def __init__(self, folder: Path, contract: Contract, tick_e9: int, seed: int) -> None:
        month = "FGHJKMNQUVXZ"[contract.month - 1]
        self.path = folder / f"{contract.root}{month}{contract.year % 100:02}_FUT_CME.scid"
        self.contract, self._tick_e9 = contract, tick_e9
        self._chance = np.random.default_rng(seed)
        self._ticks, self._last_ms = 20_000, 0
        self.rows = np.zeros(0, TRADE)
        header = np.zeros(1, HEADER)
        header["magic"], header["header_size"] = b"SCID", HEADER.itemsize
        header["record_size"], header["version"] = RECORD.itemsize, 1
        self.path.write_bytes(header.tobytes())

    def add(self, now_ns: int, count: int) -> None:
        """Add trades of the last moments, in one write."""
        first_ms = max(self._last_ms + 1, now_ns // _MS - 2 * count)
        records, rows = np.zeros(count, RECORD), np.zeros(count, TRADE)
        at_ms = first_ms + np.arange(count)
        self._last_ms = int(at_ms[-1])
        ticks = self._ticks + np.cumsum(self._chance.integers(-3, 4, count))
        self._ticks = int(ticks[-1])
        prices = ticks * self._tick_e9 / 1e9
        sizes, bought = self._chance.integers(1, 9, count), self._chance.integers(0, 2, count)
        records["at"] = at_ms * 1000 + EPOCH_US
        records["high"], records["low"], records["close"] = prices + 1, prices - 1, prices
        records["trades"], records["volume"] = 1, sizes
        records["ask_volume"], records["bid_volume"] = sizes * bought, sizes * (1 - bought)
        with self.path.open("ab") as file:
            file.write(records.tobytes())
        rows["ts_event"], rows["price"], rows["size"] = at_ms * _MS, ticks * self._tick_e9, sizes
        self.rows = np.concatenate([self.rows, rows])


def growing_files(folder: Path, reference: Reference, now_ns: int, seed: int) -> list[GrowingFile]:
    """Return a file for each product that trades now; none for years with weekend closures of these products.

    Each file has trades from the open of its session on. Without them, answers would be delayed as incomplete.
    """
    today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
    files: list[GrowingFile] = []
    for at, root in enumerate(ROUND_THE_CLOCK):
        session = reference.calendar.session_at(root, now_ns)
        if session is None:
            continue
        contract, tick_e9 = reference.universe.front(root, today), reference.universe.products[root].tick_e9
        file = GrowingFile(folder, contract, tick_e9, seed + at)
        file.add(session.open_ns + NANOS_PER_SECOND, 10)
        files.append(file)
    return files


def write_past(
    store: SqlStore, reference: Reference, contracts: Sequence[Contract], until: date, now_ns: int
) -> None:
    """Store past sessions of the contracts followed live, as a source of reference levels."""
    market = SimulatedMarket(1, reference.universe.products, reference.calendar)
    write_history(
        store, reference.universe.products, contracts,
        lambda contract: past_sessions(market, contract, reference.calendar, until, count=5),
        source="past", now_ns=now_ns,
    )  # fmt: skip
