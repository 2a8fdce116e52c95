"""A TWS on loopback: real sockets, its documented text protocol, whole seconds, pages of trades and one-minute bars.

It refuses requests as TWS does: a client ID in use, an unknown contract, data without a subscription, or too many
tick-by-tick subscriptions. Each heartbeat advances its clock by a second, because clients that join history and live
trades wait for a second to end.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from zoneinfo import ZoneInfo

import numpy as np
from support.vendors import ibkr_frames as frames
from support.vendors.ibkr_visit import SECOND_NS, Visit, second

from outcry.feeds.ibkr.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows

#: A pause in trading that ends a page; a page never contains two sessions.
_PAUSE_S = 15 * 60


class IbkrPeer:
    """Fake Interactive Brokers. Implements `FakePeer`."""

    adapter = ADAPTER
    history = Quality.TICKS
    #: Its history arrives as bars that trades replace later.
    bars_first = True
    resolution_ns = SECOND_NS

    def __init__(self) -> None:
        self.now_ns = self.skew_ns = 0
        self.logins = self.refusals = self.repeated = 0
        #: Limit of tick-by-tick subscriptions; error for requests of a root's trades; span (ns) of trades whose
        #: requests exceed the rate limit.
        self.lines = 100
        self.refused: dict[str, int] = {}
        self.hurried = (0, 0)
        #: Client IDs of closed connections whose end TWS has not detected.
        self.undetected_closed: set[int] = set()
        #: Every request: its first field, and the root it concerns.
        self.asked: list[tuple[int, str]] = []
        self._tapes: dict[Contract, Rows] = {}
        self._visits: set[Visit] = set()
        self._server: asyncio.Server | None = None
        self._frozen = self._expired = False
        self._repeats_s: dict[Contract, int] = {}
        self._shuffle = 0

    # -- controls for tests

    @property
    def given(self) -> Mapping[str, str]:
        """Return the entries of a connection form."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return {"host": "127.0.0.1", "port": str(port), "client_id": "41"}

    @property
    def places(self) -> Mapping[str, str]:
        """Return an empty mapping, because the entries contain host and port."""
        return {}

    async def start(self) -> None:
        """Start listening."""
        self._server = await asyncio.start_server(self._visited, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        assert self._server is not None
        self._server.close()
        await self._hang_up()
        await self._server.wait_closed()

    def tape(self, contract: Contract, rows: Rows) -> None:
        """Set all trades of a contract."""
        self._tapes[contract] = rows

    async def advance(self, to_ns: int) -> None:
        """Send the trades up to a time (ns UTC); each heartbeat is one second."""
        to_ns += SECOND_NS if to_ns == self.now_ns else 0
        moments: list[tuple[int, Contract, int, int]] = []
        for contract, tape in self._tapes.items():
            new = tape[(tape["ts_event"] >= self.now_ns) & (tape["ts_event"] < to_ns)]
            columns = (new[name].tolist() for name in ("ts_event", "price", "size"))
            moments += [(at, contract, price, size) for at, price, size in zip(*columns, strict=True)]
        moments.sort(key=lambda moment: moment[0])
        burst, self._shuffle = moments[: self._shuffle], max(0, self._shuffle - len(moments))
        self.now_ns = to_ns
        for at_ns, contract, price, size in [*reversed(burst), *moments[len(burst) :]]:
            for visit in self._visits:
                visit.trade(contract, self.stamp_s(at_ns), price, size)
        for visit in list(self._visits):
            await visit.flush()

    async def drop(self) -> None:
        """Break every connection in the middle of a message."""
        for visit in self._visits:
            whole = frames.trade(7, self.stamp_s(self.now_ns), 4_000_250_000_000, 1)
            visit.say(whole[: len(whole) // 2])
            await visit.flush()
        await self._hang_up()

    def freeze(self, *, on: bool) -> None:
        """While on, send nothing; send the waiting data afterwards."""
        self._frozen = on
        if not on:
            for visit in self._visits:
                visit.let_go()

    def repeat(self, seconds: float) -> None:
        """Let the next page of trades of each contract begin this much earlier."""
        self._repeats_s = dict.fromkeys(self._tapes, int(seconds))

    async def expire(self, *, on: bool) -> None:
        """While on, TWS is signed out: it closes all connections, and closes new ones at once."""
        self._expired = on
        if on:
            await self._hang_up()

    def shuffle(self, burst: int) -> None:
        """Send the next live trades in another order."""
        self._shuffle = burst

    async def note(self, code: int, text: str = "a message") -> None:
        """Send everyone a message that belongs to no request."""
        for visit in self._visits:
            visit.say(frames.note(-1, code, text))
            await visit.flush()

    async def say(self, raw: bytes) -> None:
        """Send raw bytes to everyone."""
        for visit in self._visits:
            visit.say(raw)
            await visit.flush()

    # -- state

    @property
    def frozen(self) -> bool:
        """Return whether sending is paused."""
        return self._frozen

    @property
    def clients(self) -> set[int]:
        """Return the client IDs of the connected programs."""
        return self.undetected_closed | {
            visit.client_id for visit in self._visits if visit.client_id is not None
        }

    def admits(self) -> bool:
        """Return whether new connections are accepted."""
        self.logins += 1
        self.refusals += self._expired
        return not self._expired

    def lines_used(self) -> int:
        """Return the number of tick-by-tick subscriptions."""
        return sum(len(visit.streams) for visit in self._visits)

    def stamp_s(self, at_ns: int) -> int:
        """Return a time in TWS's format."""
        return (at_ns + self.skew_ns) // SECOND_NS

    def found(self, symbol: str, exchange: str, month: str) -> list[tuple[Contract, frames.Listed]]:
        """Return the contracts of a symbol: all months with a tape, of every product with that symbol."""
        return [
            (contract, frames.LISTED[contract.root])
            for contract in self._tapes
            if frames.LISTED[contract.root].symbol == symbol
            and frames.LISTED[contract.root].exchange == exchange
            and month in ("", f"{contract.year}{contract.month:02}")
        ]

    def contract(self, con_id: int) -> Contract:
        """Return the contract of a contract id."""
        return list(self._tapes)[con_id - 1000]

    def con_id(self, contract: Contract) -> int:
        """Return the contract id of a contract."""
        return list(self._tapes).index(contract) + 1000

    def hours(self) -> str:
        """Return the hours of the current trade date and the next: 17:00 to 16:00 Chicago."""
        local = datetime.fromtimestamp(self.now_ns / SECOND_NS, ZoneInfo("America/Chicago"))
        first = local.date() if local.hour >= 17 else local.date() - timedelta(days=1)
        days = [first + timedelta(days=more) for more in range(3)]
        return ";".join(f"{one:%Y%m%d}:1700-{two:%Y%m%d}:1600" for one, two in pairwise(days))

    def ticks(self, con_id: int, since: str, most: int) -> list[tuple[int, int, int]]:
        """Return a page of trades of one session; its last second is complete."""
        contract, asked_s = self.contract(con_id), second(since)
        since_s = asked_s - self._repeats_s.pop(contract, 0)
        rows = [row for row in self._past(contract) if row[0] >= since_s]
        ends = [at for at in range(1, len(rows)) if rows[at][0] - rows[at - 1][0] > _PAUSE_S]
        rows = rows[: min(ends, default=len(rows))]
        page = [row for row in rows if row[0] <= rows[min(most, len(rows)) - 1][0]]
        self.repeated += sum(row[0] < asked_s for row in page)
        return page

    def bars(self, con_id: int, until: str) -> list[tuple[int, ...]]:
        """Return one day of one-minute bars that begin before a time, including the incomplete one."""
        until_s = second(until)
        rows = [row for row in self._past(self.contract(con_id)) if until_s - 86_400 <= row[0] < until_s]
        found: list[tuple[int, ...]] = []
        for minute, members in groupby(rows, key=lambda row: row[0] // 60):
            rows = list(members)
            prices = [row[1] for row in rows]
            lots = sum(row[2] for row in rows)
            found.append((minute * 60, prices[0], max(prices), min(prices), prices[-1], lots))
        return found

    def _past(self, contract: Contract) -> list[tuple[int, int, int]]:
        tape = self._tapes[contract]
        rows = tape[tape["ts_event"] < self.now_ns]
        stamps = (rows["ts_event"] + self.skew_ns) // SECOND_NS
        order = np.argsort(stamps, kind="stable")
        columns = (stamps[order].tolist(), rows["price"][order].tolist(), rows["size"][order].tolist())
        return list(zip(*columns, strict=True))

    # -- connections

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(self, writer)
        self._visits.add(visit)
        try:
            await visit.serve(reader)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._visits.discard(visit)
            writer.transport.abort()

    async def _hang_up(self) -> None:
        tasks = [visit.task for visit in self._visits]
        for visit in list(self._visits):
            visit.cut()
        if tasks:
            await asyncio.wait(tasks)
