"""One program connected to the TWS on loopback: its requests and their replies."""

import asyncio
import socket
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from support.vendors import ibkr_frames as frames

from outcry.market.instruments import Contract

if TYPE_CHECKING:
    from support.vendors.ibkr_peer import IbkrPeer

SECOND_NS = 1_000_000_000


class Visit:
    """One program connected to TWS."""

    def __init__(self, peer: "IbkrPeer", writer: asyncio.StreamWriter) -> None:
        self._peer, self._writer = peer, writer
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.client_id: int | None = None
        self.streams: dict[Contract, int] = {}
        self._unsent = b""
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
        """Send data, or store it while sending is paused."""
        if self._peer.frozen:
            self._unsent += raw
        else:
            self._writer.write(raw)

    def let_go(self) -> None:
        """Send the stored data."""
        unsent, self._unsent = self._unsent, b""
        self._writer.write(unsent)

    async def flush(self) -> None:
        """Wait until all data is sent."""
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
        """Send a trade if the program subscribed to it."""
        if contract in self.streams:
            self.say(frames.trade(self.streams[contract], at_s, price, size))

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Send the greeting, then answer requests."""
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
        if self._peer.hurried[0] <= second(since) * SECOND_NS < self._peer.hurried[1]:
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


def second(text: str) -> int:
    """Parse a time written by a program, in seconds."""
    assert text.endswith(" UTC")
    at = datetime.strptime(text, "%Y%m%d %H:%M:%S UTC").replace(tzinfo=UTC)
    return int(at.timestamp())
