"""One connection to Databento's live gateway, through the library's protocol class on our event loop.

No type of the library leaves this module, and trades are passed on in batches. The library's threaded client is not
used: it needs a thread per connection, and its reconnect leaves a gap in the data.
`tests/feeds/test_vendor_libraries.py` lists this module's assumptions about the library.
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

from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.databento.rows import RECORD, Records
from outcry.feeds.databento.symbols import DATASET
from outcry.feeds.shared_session import CredentialsRejected
from outcry.trades.feed import FeedLost, FeedRefused

#: Host and port of the vendor.
GATEWAY = "glbx-mdp3.lsg.databento.com:13000"
#: Heartbeat interval requested from the vendor, the shortest it allows.
HEARTBEAT_S = 5
CONNECT_S = AUTHENTICATE_S = 10.0
#: Code of an account with too many connections.
TOO_MANY_SESSIONS = "too_many_sessions"
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class SymbolMapping:
    """Message of the gateway: the instrument id that the gateway uses for a symbol from now on."""

    symbol: str
    instrument_id: int


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """A status of the gateway (`heartbeat`, `replay_completed`, …) and its time (ns UTC, the gateway's clock)."""

    code: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class GatewayError:
    """An error message from Databento's gateway: code (`symbol_resolution_failed`, …) and text."""

    code: str
    text: str


#: Called with each batch of trade records, and with each message.
MessageHandler = Callable[[Records | SymbolMapping | GatewayStatus | GatewayError], None]
#: Called once when the connection has ended, with the reason if known.
LossHandler = Callable[[FeedLost], None]


class Gateway(DatabentoLiveProtocol):
    """A connection to Databento's live gateway. `on_message` and `on_lost` are called on the event loop."""

    def __init__(self, key: str) -> None:
        super().__init__(key, DATASET, heartbeat_interval_s=HEARTBEAT_S, slow_reader_behavior="warn")
        self.on_message: MessageHandler = _ignore
        self.on_lost: LossHandler = _ignore
        self.open = True
        #: Set once the connection has ended.
        self.over = asyncio.Event()
        self._records = DBNDecoder(upgrade_policy=VersionUpgradePolicy.UPGRADE_TO_V3)  # pyright: ignore[reportArgumentType] - typed as a number
        self._unread = False

    def buffer_updated(self, nbytes: int) -> None:
        """Decode received bytes and pass the records on.

        The base class would handle records one by one, which is too slow for a replay of millions.
        """
        try:
            if not self.authenticated.done():
                super().buffer_updated(nbytes)
                return
            records = self._records.write_and_decode(bytes(memoryview(self.get_buffer(nbytes))[:nbytes]))
        except Exception:  # noqa: BLE001 - the decoders raise undocumented errors
            self._unread = True
            self.abort()
            return
        for kind, group in groupby(records, type):
            if kind is TradeMsg:
                self.on_message(np.frombuffer(b"".join(map(bytes, group)), RECORD))
            else:
                for record in group:
                    self._read_message(record)

    def _read_message(self, record: Any) -> None:
        if isinstance(record, SymbolMappingMsg):
            self.on_message(SymbolMapping(record.stype_in_symbol, record.instrument_id))
        elif isinstance(record, SystemMsg):
            self.on_message(
                GatewayStatus("heartbeat" if record.is_heartbeat() else str(record.code), record.ts_event)
            )
        elif isinstance(record, ErrorMsg):
            self.on_message(GatewayError(str(record.code), record.err[:_LONGEST_TEXT]))

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection: call `on_lost` with the reason."""
        self.open = False
        self.over.set()
        super().connection_lost(exc)
        if not self.authenticated.done():
            self.authenticated.set_exception(exc or ConnectionResetError("connection closed during login"))
        for ended in (self.authenticated, self.disconnected):
            if ended.done() and not ended.cancelled():
                ended.exception()  # mark as retrieved, or asyncio logs a warning
        if self._unread:
            self.on_lost(FeedLost("protocol", "the gateway sent unreadable data"))
        else:
            self.on_lost(
                FeedLost("disconnected", type(exc).__name__ if exc else "the gateway closed the connection")
            )

    def subscribe_trades(self, symbol: str, start_ns: int, number: int) -> None:
        """Subscribe to a symbol's trades, replayed from a time within the last day (ns UTC)."""
        self.subscribe("trades", symbol, "raw_symbol", start=start_ns, subscription_id=number)

    def pause(self, *, on: bool) -> None:
        """Pause or resume reading; unread data waits at the vendor."""
        if self.open:
            (self.transport.pause_reading if on else self.transport.resume_reading)()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.open:
            self.transport.abort()


def _ignore(_: object) -> None:
    """Ignore a message of the gateway that arrives before a session handles its messages."""


async def connect_gateway(key: str, place: str, speedup: float) -> Gateway:
    """Connect to Databento's gateway and sign in.

    Raises `CredentialsRejected`, `FeedLost`, `FeedRefused`, `OSError`, `TimeoutError`.
    """
    # The library logs the login response, which is derived from the key.
    logging.getLogger("databento").setLevel(logging.CRITICAL + 1)
    host, _, port = (place or GATEWAY).rpartition(":")
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(answer_limit_s(CONNECT_S, speedup)):
        _, gateway = await loop.create_connection(lambda: Gateway(key), host, int(port))
    try:
        async with asyncio.timeout(answer_limit_s(AUTHENTICATE_S, speedup)):
            await asyncio.shield(gateway.authenticated)
    except BentoError as problem:
        gateway.abort()
        raise login_problem(str(problem).replace(key, "…")[:_LONGEST_TEXT]) from None
    except BaseException:
        gateway.abort()
        raise
    return gateway


def login_problem(text: str) -> CredentialsRejected | FeedLost:
    """Return the error for a refused login. The gateway sends a text only, no code."""
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
