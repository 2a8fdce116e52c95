"""A TWS on loopback: real sockets, its documented text protocol, whole seconds, pages of trades and bars of a minute.

It refuses who asks as TWS does: a client ID that is in use, a contract it does not have, data the account has not paid
for, more subscriptions to single trades than there are lines. Its clock goes on by a second with each beat, as whoever
joins history and what follows it waits for a second to be over.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from zoneinfo import ZoneInfo

import numpy as np
from tests.brokers import ibkr_frames as frames

from outcry.core.instruments import Contract
from outcry.feeds.ibkr.adapter import ADAPTER
from outcry.ports.records import Quality, Rows

SECOND_NS = 1_000_000_000
#: A pause in trading that ends a page: it holds no two sessions.
_PAUSE_S = 15 * 60


class IbkrPeer:
    """`FakePeer` of Interactive Brokers."""

    adapter = ADAPTER
    history = Quality.TICKS
    resolution_ns = SECOND_NS

    def __init__(self) -> None:
        self.now_ns = self.skew_ns = 0
        self.logins = self.refusals = 0
        #: Lines for single trades; what is said to who asks for a root's trades; the stretch of time (ns) of which
        #: trades are said to be asked for too fast.
        self.lines = 100
        self.refused: dict[str, int] = {}
        self.hurried = (0, 0)
        #: Every request: its first field, and the root it is about.
        self.asked: list[tuple[int, str]] = []
        self._tapes: dict[Contract, Rows] = {}
        self._visits: set[_Visit] = set()
        self._server: asyncio.Server | None = None
        self._frozen = self._expired = False
        self._repeat_s = 0.0
        self._shuffle = 0

    # -- what a test does

    @property
    def given(self) -> Mapping[str, str]:
        """What a person enters."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return {"host": "127.0.0.1", "port": str(port), "client_id": "41"}

    @property
    def places(self) -> Mapping[str, str]:
        """Nothing: where TWS is is among the entries."""
        return {}

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._visited, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Hang up, and stop listening."""
        assert self._server is not None
        self._server.close()
        await self._hang_up()
        await self._server.wait_closed()

    def tape(self, contract: Contract, rows: Rows) -> None:
        """All that will be traded."""
        self._tapes[contract] = rows

    async def advance(self, to_ns: int) -> None:
        """Send what is traded up to an instant; a beat is a second."""
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
        """Cut everybody off in the middle of a message."""
        for visit in self._visits:
            whole = frames.trade(7, self.stamp_s(self.now_ns), 4_000_250_000_000, 1)
            visit.say(whole[: len(whole) // 2])
            await visit.flush()
        await self._hang_up()

    def freeze(self, *, on: bool) -> None:
        """While on, nothing is sent; what was to be sent comes after."""
        self._frozen = on
        if not on:
            for visit in self._visits:
                visit.let_go()

    def repeat(self, seconds: float) -> None:
        """The next page of trades begins so much earlier."""
        self._repeat_s = seconds

    async def expire(self, *, on: bool) -> None:
        """While on, nobody is signed in at TWS: it cuts off who is connected, and hangs up on who comes."""
        self._expired = on
        if on:
            await self._hang_up()

    def shuffle(self, burst: int) -> None:
        """The next live trades come in another order."""
        self._shuffle = burst

    async def note(self, code: int, text: str = "a message") -> None:
        """Say something to everybody, of no request in particular."""
        for visit in self._visits:
            visit.say(frames.note(-1, code, text))
            await visit.flush()

    async def say(self, raw: bytes) -> None:
        """Send bytes as they are to everybody."""
        for visit in self._visits:
            visit.say(raw)
            await visit.flush()

    # -- what it knows

    @property
    def frozen(self) -> bool:
        """Whether nothing is sent."""
        return self._frozen

    @property
    def clients(self) -> set[int]:
        """Numbers of the programs that are connected."""
        return {visit.client_id for visit in self._visits if visit.client_id is not None}

    def admits(self) -> bool:
        """Whether who comes now is let in."""
        self.logins += 1
        self.refusals += self._expired
        return not self._expired

    def lines_used(self) -> int:
        """Subscriptions to single trades there are."""
        return sum(len(visit.streams) for visit in self._visits)

    def stamp_s(self, at_ns: int) -> int:
        """A time as TWS writes it."""
        return (at_ns + self.skew_ns) // SECOND_NS

    def found(self, symbol: str, exchange: str, month: str) -> list[tuple[Contract, frames.Listed]]:
        """Contracts of a symbol: all months there is a tape of, of every product of that symbol."""
        return [
            (contract, frames.LISTED[contract.root])
            for contract in self._tapes
            if frames.LISTED[contract.root].symbol == symbol
            and frames.LISTED[contract.root].exchange == exchange
            and month in ("", f"{contract.year}{contract.month:02}")
        ]

    def contract(self, con_id: int) -> Contract:
        """The contract of a number given out."""
        return list(self._tapes)[con_id - 1000]

    def con_id(self, contract: Contract) -> int:
        """The number of a contract."""
        return list(self._tapes).index(contract) + 1000

    def hours(self) -> str:
        """Of the trade date that runs, and the next: 17:00 to 16:00 Chicago."""
        local = datetime.fromtimestamp(self.now_ns / SECOND_NS, ZoneInfo("America/Chicago"))
        first = local.date() if local.hour >= 17 else local.date() - timedelta(days=1)
        days = [first + timedelta(days=more) for more in range(3)]
        return ";".join(f"{one:%Y%m%d}:1700-{two:%Y%m%d}:1600" for one, two in pairwise(days))

    def ticks(self, con_id: int, since: str, most: int) -> list[tuple[int, int, int]]:
        """A page of trades: of one session, its last second whole."""
        since_s = _second(since) - int(self._repeat_s)
        self._repeat_s = 0.0
        rows = [row for row in self._past(self.contract(con_id)) if row[0] >= since_s]
        ends = [at for at in range(1, len(rows)) if rows[at][0] - rows[at - 1][0] > _PAUSE_S]
        rows = rows[: min(ends, default=len(rows))]
        return [row for row in rows if row[0] <= rows[min(most, len(rows)) - 1][0]]

    def bars(self, con_id: int, until: str) -> list[tuple[int, ...]]:
        """A day of bars of a minute that begin before an instant; the one that is forming with them."""
        until_s = _second(until)
        rows = [row for row in self._past(self.contract(con_id)) if until_s - 86_400 <= row[0] < until_s]
        found: list[tuple[int, ...]] = []
        for minute, members in groupby(rows, key=lambda row: row[0] // 60):
            held = list(members)
            prices = [row[1] for row in held]
            lots = sum(row[2] for row in held)
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
        visit = _Visit(self, writer)
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


class _Visit:
    """One program connected to TWS."""

    def __init__(self, peer: IbkrPeer, writer: asyncio.StreamWriter) -> None:
        self._peer, self._writer = peer, writer
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.client_id: int | None = None
        self.streams: dict[Contract, int] = {}
        self._held = b""
        self._handlers: dict[str, Callable[[list[str]], None]] = {
            "9": self._details,
            "20": self._bars,
            "49": self._time,
            "61": lambda _: self.say(frames.frame(62, 1)),
            "71": self._started,
            "96": self._ticks,
            "97": self._subscribed,
            "98": self._unsubscribed,
        }

    def say(self, raw: bytes) -> None:
        """Send, or hold back while nothing is sent."""
        if self._peer.frozen:
            self._held += raw
        else:
            self._writer.write(raw)

    def let_go(self) -> None:
        """Send what was held back."""
        held, self._held = self._held, b""
        self._writer.write(held)

    async def flush(self) -> None:
        """Wait until what was said is on its way."""
        try:
            await self._writer.drain()
        except ConnectionError:
            self.cut()

    def cut(self) -> None:
        """Reset the connection."""
        sock = self._writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self.task.cancel()

    def trade(self, contract: Contract, at_s: int, price: int, size: int) -> None:
        """Send a trade, if it is subscribed to."""
        if contract in self.streams:
            self.say(frames.trade(self.streams[contract], at_s, price, size))

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Greet, then answer whatever is asked."""
        assert await reader.readexactly(4) == b"API\0"
        offered = (await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))).decode()
        if not self._peer.admits():
            return
        lowest, _, highest = offered.removeprefix("v").partition("..")
        assert int(lowest) <= frames.SERVER_VERSION <= int(highest)
        self.say(frames.frame(frames.SERVER_VERSION, "20261122 03:00:00 UTC"))
        rest = b""
        while data := await reader.read(65536):
            messages, rest = frames.unframed(rest + data)
            for fields in messages:
                self._handlers[fields[0]](fields)
            await self.flush()
            if self.client_id == -1:
                return

    def _started(self, fields: list[str]) -> None:
        client_id = int(fields[2])
        if client_id in self._peer.clients:
            self.say(frames.note(-1, 326, "Unable to connect as the client id is already in use."))
            self.client_id = -1
            return
        self.client_id = client_id
        self.say(frames.frame(15, 1, "DU1234567") + frames.frame(9, 1, 1))
        for code, text in ((2104, "usfuture"), (2106, "ushmds"), (2158, "secdefil")):
            self.say(frames.note(-1, code, f"A data farm connection is OK:{text}"))

    def _time(self, _: list[str]) -> None:
        self.say(frames.frame(49, 1, self._peer.stamp_s(self._peer.now_ns)))

    def _details(self, fields: list[str]) -> None:
        request, symbol, month, exchange = int(fields[2]), fields[4], fields[6], fields[10]
        found = self._peer.found(symbol, exchange, month)
        self._peer.asked.append((9, symbol))
        if not found:
            self.say(frames.note(request, 200, "No security definition has been found for the request"))
            return
        for contract, listed in found:
            text = f"{contract.year}{contract.month:02}"
            con_id = self._peer.con_id(contract)
            self.say(frames.contract_details(request, listed, con_id, text, f"{text}18", self._peer.hours()))
        self.say(frames.frame(52, 1, request))

    def _bars(self, fields: list[str]) -> None:
        request, con_id = int(fields[1]), int(fields[2])
        until, size, duration, _rth, what, form = fields[15:21]
        assert (size, duration, what, form) == ("1 min", "1 D", "TRADES", "2")
        self._peer.asked.append((20, self._peer.contract(con_id).root))
        rows = self._peer.bars(con_id, until)
        self.say(frames.bars(request, rows) if rows else _nothing(request))

    def _ticks(self, fields: list[str]) -> None:
        request, con_id = int(fields[1]), int(fields[2])
        since, until, most, what = fields[15:19]
        assert (until, what) == ("", "TRADES")
        root = self._peer.contract(con_id).root
        self._peer.asked.append((96, root))
        if self._peer.hurried[0] <= _second(since) * SECOND_NS < self._peer.hurried[1]:
            text = "Historical Market Data Service error message:API historical data query pacing violation"
            self.say(frames.note(request, 162, text))
            return
        rows = self._peer.ticks(con_id, since, int(most))
        self.say(frames.page(request, rows) if rows else _nothing(request))

    def _subscribed(self, fields: list[str]) -> None:
        request, con_id = int(fields[1]), int(fields[2])
        assert fields[14] == "AllLast"
        contract = self._peer.contract(con_id)
        self._peer.asked.append((97, contract.root))
        code = self._peer.refused.get(contract.root)
        if code is not None:
            self.say(frames.note(request, code, "it is refused"))
        elif self._peer.lines_used() >= self._peer.lines:
            self.say(frames.note(request, 10190, "Max number of tick-by-tick requests has been reached."))
        else:
            self.streams[contract] = request

    def _unsubscribed(self, fields: list[str]) -> None:
        self.streams = {one: request for one, request in self.streams.items() if request != int(fields[1])}


def _nothing(request: int) -> bytes:
    text = "Historical Market Data Service error message:HMDS query returned no data: ESZ6@CME Trades"
    return frames.note(request, 162, text)


def _second(text: str) -> int:
    assert text.endswith(" UTC")
    at = datetime.strptime(text, "%Y%m%d %H:%M:%S UTC").replace(tzinfo=UTC)
    return int(at.timestamp())
