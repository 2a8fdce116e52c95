"""One connection to Databento's live gateway: the vendor's own protocol class, on our event loop.

Rules kept: nothing of the vendor's leaves this module but numbers and texts; records are handed on by the batch, not
one by one. The library's threaded client is not used: its protocol class is made for an event loop of one's own, so a
hundred connections need no thread, and its way of reconnecting, which leaves a hole, does not come into play.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from databento.common.error import BentoError
from databento.live.protocol import DatabentoLiveProtocol
from databento_dbn import DBNDecoder, ErrorMsg, SymbolMappingMsg, SystemMsg, TradeMsg, VersionUpgradePolicy

from outcry.feeds.databento.rows import RECORD, Records
from outcry.feeds.databento.symbols import DATASET
from outcry.feeds.shared_session import CredentialsRejected
from outcry.trades.feed import FeedLost, FeedRefused

#: Where the vendor listens.
GATEWAY = "glbx-mdp3.lsg.databento.com:13000"
#: Asked of the vendor: beats where nothing else is sent for so long. It takes no less.
HEARTBEAT_S = 5
CONNECT_S = AUTHENTICATE_S = 10.0
#: The code of having too many connections.
TOO_MANY_SESSIONS = "too_many_sessions"
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class SymbolMapping:
    """The gateway calls a symbol by a number from here on."""

    symbol: str
    instrument_id: int


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """The gateway says how it stands, at an instant of its clock (ns UTC): `heartbeat`, `replay_completed`, …"""

    code: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class GatewayError:
    """The gateway found a fault: its code (`symbol_resolution_failed`, …) and words."""

    code: str
    text: str


#: What a session does with what comes; a batch of trade records, or something said.
MessageHandler = Callable[[Records | SymbolMapping | GatewayStatus | GatewayError], None]
#: Called once when the connection is over, with why, so far as anybody knows.
LossHandler = Callable[[FeedLost], None]


class Gateway(DatabentoLiveProtocol):
    """The connection. `hear` and `lose` are called on the event loop."""

    def __init__(self, key: str) -> None:
        super().__init__(key, DATASET, heartbeat_interval_s=HEARTBEAT_S, slow_reader_behavior="warn")
        self.hear: MessageHandler = _nobody
        self.lose: LossHandler = _nobody
        self.open = True
        #: Set once the connection is over.
        self.over = asyncio.Event()
        self._records = DBNDecoder(upgrade_policy=VersionUpgradePolicy.UPGRADE_TO_V3)  # pyright: ignore[reportArgumentType] - typed as a number
        self._unread = False

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: decode them, and hand on what they hold.

        Records are decoded here rather than by the class above, which handles them one by one: a replay holds millions.
        """
        try:
            if not self.authenticated.done():
                super().buffer_updated(nbytes)
                return
            records = self._records.write_and_decode(bytes(memoryview(self.get_buffer(nbytes))[:nbytes]))
        except Exception:  # noqa: BLE001 - the library's decoders raise what they like
            self._unread = True
            self.abort()
            return
        for kind, group in groupby(records, type):
            if kind is TradeMsg:
                self.hear(np.frombuffer(b"".join(map(bytes, group)), RECORD))
            else:
                for record in group:
                    self._told(record)

    def _told(self, record: Any) -> None:
        if isinstance(record, SymbolMappingMsg):
            self.hear(SymbolMapping(record.stype_in_symbol, record.instrument_id))
        elif isinstance(record, SystemMsg):
            self.hear(
                GatewayStatus("heartbeat" if record.is_heartbeat() else str(record.code), record.ts_event)
            )
        elif isinstance(record, ErrorMsg):
            self.hear(GatewayError(str(record.code), record.err[:_LONGEST_TEXT]))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        self.open = False
        self.over.set()
        super().connection_lost(exc)
        if not self.authenticated.done():
            self.authenticated.set_exception(exc or ConnectionResetError("connection closed during login"))
        for ended in (self.authenticated, self.disconnected):
            if ended.done() and not ended.cancelled():
                ended.exception()  # looked at, so that asyncio does not say that nobody did
        if self._unread:
            self.lose(FeedLost("protocol", "the gateway sent unreadable data"))
        else:
            self.lose(
                FeedLost("disconnected", type(exc).__name__ if exc else "the gateway closed the connection")
            )

    def ask(self, symbol: str, start_ns: int, number: int) -> None:
        """Subscribe to a symbol's trades, replayed from an instant of the last day on."""
        self.subscribe("trades", symbol, "raw_symbol", start=start_ns, subscription_id=number)

    def pause(self, *, on: bool) -> None:
        """Have the vendor wait, or go on: what is not read stays on its side."""
        if self.open:
            (self.transport.pause_reading if on else self.transport.resume_reading)()

    def abort(self) -> None:
        """Hang up at once."""
        if self.open:
            self.transport.abort()


def _nobody(_: object) -> None:
    """Before a session listens, and after it is over."""


async def connect_gateway(key: str, place: str, rush: float) -> Gateway:
    """Connect and sign in. Raises `Rejected`, `FeedLost`, `FeedRefused`, `OSError`, `TimeoutError`."""
    logging.getLogger("databento").setLevel(logging.CRITICAL + 1)  # it logs what a key is proven by
    host, _, port = (place or GATEWAY).rpartition(":")
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_S / rush):
        _, gateway = await loop.create_connection(lambda: Gateway(key), host, int(port))
    try:
        async with asyncio.timeout(AUTHENTICATE_S / rush):
            await asyncio.shield(gateway.authenticated)
    except BentoError as problem:
        gateway.abort()
        raise login_problem(str(problem).replace(key, "…")[:_LONGEST_TEXT]) from None
    except BaseException:
        gateway.abort()
        raise
    return gateway


def login_problem(text: str) -> CredentialsRejected | FeedLost:
    """What the gateway's words on a login that it did not take come to: it has words only."""
    words = text.lower()
    if "limit" in words or "too many" in words:
        return FeedLost(TOO_MANY_SESSIONS, text)
    if any(word in words for word in ("licens", "entitle", "subscription", "dataset", "permission")):
        return FeedRefused("not_entitled", text)
    if any(word in words for word in ("deactivated", "expired", "revoked", "disabled")):
        return CredentialsRejected("login_expired", text)
    if "internal" in words or "unavailable" in words:
        return FeedLost("vendor_error", text)
    return CredentialsRejected("login_refused", text)
