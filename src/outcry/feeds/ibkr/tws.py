"""The socket to TWS or IB Gateway through `ib_async`; no other module uses that library.

The library's `Client` and `Decoder` run with our own receiver instead of its `Wrapper`. The `Wrapper` replaces exchange
times by arrival times, requests positions and ignores unreadable messages. No account data is requested, and account
numbers are neither stored nor logged. A price is the shortest decimal of the double received, because the vendor sent
that decimal. `tests/feeds/test_vendor_libraries.py` lists this module's assumptions about the library.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

from ib_async import Contract as IbContract
from ib_async.client import Client
from ib_async.decoder import Decoder

from outcry.feeds import number_parsing
from outcry.feeds.ibkr.contracts import ContractQuery, IbContractDetails

#: A trade: time in whole seconds UTC, price 10⁻⁹, lots.
Tick = tuple[int, int, int]
#: A bar: its start in whole seconds UTC; open, high, low, close 10⁻⁹; lots.
Bar = tuple[int, int, int, int, int, int]

_E9 = Decimal(1_000_000_000)


class Listener(Protocol):
    """Interface of the receiver of messages from TWS. `request`: the id of the request, -1 for none."""

    def on_bytes(self) -> None:
        """Handle the arrival of any data from TWS, which shows that it responds."""
        ...

    def on_batch_end(self) -> None:
        """Handle the end of a batch of received messages."""
        ...

    def on_message(self, request: int, code: int, text: str) -> None:
        """Handle an error or information message from TWS. code: TWS's number for the message."""
        ...

    def on_reply(self, request: int, parts: Sequence[Any], *, done: bool) -> None:
        """Handle part of a reply: contracts, bars or trades. `done`: it is the last part."""
        ...

    def on_trade(self, request: int, tick: Tick) -> None:
        """Handle a live trade."""
        ...

    def on_time(self, at_s: int) -> None:
        """Handle TWS's reply to a request for the time (s UTC)."""
        ...

    def on_unreadable(self) -> None:
        """Handle the arrival of a message from TWS that cannot be decoded."""
        ...

    def on_disconnected(self) -> None:
        """Handle the end of the connection to TWS."""
        ...


@lru_cache(maxsize=8192)
def price_e9(price: float) -> int:
    """Return a price in units of 10⁻⁹. Raises `ValueError` for an invalid one."""
    scaled = Decimal(repr(price)) * _E9
    if not scaled.is_finite() or scaled != scaled.to_integral_value() or abs(scaled) >= 2**63:
        raise ValueError("no price")
    return int(scaled)


class Tws:
    """A connection to TWS or IB Gateway.

    Methods that send a request return its id. They raise `ConnectionError` if the connection has ended.
    """

    def __init__(self, listener: Listener) -> None:
        for name in ("ib_async", "eventkit"):  # they log accounts, hosts and raw messages
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._listener = listener
        self._client: Any = Client(_Receiver(listener))
        self._client.decoder = _StrictDecoder(self._client.wrapper, listener)
        self._client.conn.disconnected += self._on_disconnected
        self._closed = asyncio.Event()

    async def connect(self, host: str, port: int, client_id: int, timeout_s: float) -> None:
        """Connect and wait for TWS's greeting.

        Raises `OSError`, `TimeoutError`, and `ConnectionAbortedError` if TWS closes the connection instead.
        """
        opening = asyncio.ensure_future(self._client.connectAsync(host, port, client_id, 0))
        gone = asyncio.ensure_future(self._closed.wait())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait({opening, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                raise ConnectionAbortedError("TWS closed the connection")
            opening.result()
        finally:
            for task in (opening, gone):
                task.cancel()
            await asyncio.gather(opening, gone, return_exceptions=True)

    async def close(self) -> None:
        """Close the connection at once, dropping unsent data. May be called again."""
        transport = self._client.conn.transport
        if transport is not None:
            transport.abort()
            await self._closed.wait()

    def ask_time(self) -> int:
        """Request the time. The reply has no request id (-1)."""
        self._client.reqCurrentTime()
        return -1

    def ask_contracts(self, query: ContractQuery) -> int:
        """Request the contracts that match a query."""
        request = self._client.getReqId()
        contract = IbContract(
            secType="FUT", symbol=query.symbol, exchange=query.exchange, currency="USD",
            lastTradeDateOrContractMonth=query.month, includeExpired=True,
        )  # fmt: skip
        self._client.reqContractDetails(request, contract)
        return request

    def ask_bars(self, found: IbContractDetails, until: str, duration: str) -> int:
        """Request the one-minute bars that end at or before a time, including those outside regular hours.

        The time is text in the form `YYYYMMDD HH:MM:SS UTC`.
        """
        request = self._client.getReqId()
        self._client.reqHistoricalData(request, _of(found), until, duration, "1 min", "TRADES", 0, 2, 0, [])
        return request

    def ask_ticks(self, found: IbContractDetails, since: str, most: int) -> int:
        """Request the first trades at or after a time, including those outside regular hours.

        The time is text in the form `YYYYMMDD HH:MM:SS UTC`.
        """
        request = self._client.getReqId()
        self._client.reqHistoricalTicks(request, _of(found), since, "", most, "TRADES", 0, 0, [])
        return request

    def subscribe(self, found: IbContractDetails) -> int:
        """Subscribe to every trade of a contract from now on; return the request's id."""
        request = self._client.getReqId()
        self._client.reqTickByTickData(request, _of(found), "AllLast", 0, 0)
        return request

    def unsubscribe(self, request: int) -> None:
        """Cancel a subscription; does nothing if the connection has ended."""
        with suppress(ConnectionError):
            self._client.cancelTickByTickData(request)

    def _on_disconnected(self, *_: object) -> None:
        self._closed.set()
        self._listener.on_disconnected()


def _of(found: IbContractDetails) -> Any:
    return IbContract(conId=found.con_id, exchange=found.exchange, secType="FUT", includeExpired=True)


class _StrictDecoder(Decoder):
    """Message decoder that reports unreadable messages instead of logging them, and ignores unused types."""

    def __init__(self, receiver: Any, listener: Listener) -> None:
        super().__init__(receiver, 0)
        self._listener = listener

    def interpret(self, fields: Any) -> None:
        """Decode a message and pass it to the receiver."""
        try:
            handler = self.handlers.get(int(fields[0])) if int(fields[0]) in _USED_MESSAGES else None
            if handler is not None:
                handler(fields)
        except Exception:  # noqa: BLE001 - the library raises any error for a malformed message
            self._listener.on_unreadable()


#: Types of the messages we use: errors, contracts and their end, bars, time, historical trades, trades.
_USED_MESSAGES = frozenset({4, 10, 17, 49, 52, 98, 99})


class _Receiver:
    """Callbacks for the library's decoder, with the method names it expects."""

    #: Time zone of the datetimes that the decoder creates.
    defaultTimezone = UTC  # noqa: N815 - the library's name

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._bars: list[Bar] = []
        self.tcpDataArrived = listener.on_bytes
        self.tcpDataProcessed = listener.on_batch_end

    def connectAck(self) -> None:  # noqa: N802 - the library's name, as all below
        pass

    def connectionClosed(self) -> None:  # noqa: N802
        pass

    def setEventsDone(self) -> None:  # noqa: N802
        pass

    def error(self, request: int, code: int, text: str, *_: object) -> None:
        self._listener.on_message(request, code, text)

    def currentTime(self, time: int) -> None:  # noqa: N802
        self._listener.on_time(time)

    def contractDetails(self, request: int, details: Any) -> None:  # noqa: N802
        contract = details.contract
        found = IbContractDetails(
            con_id=contract.conId,
            symbol=contract.symbol,
            exchange=contract.exchange,
            trading_class=contract.tradingClass,
            month=details.contractMonth,
            point=Decimal(number_parsing.parse_price_e9(contract.multiplier or "0"))
            / _E9
            / (details.priceMagnifier or 1),
            hours=details.tradingHours,
            zone=details.timeZoneId,
        )
        self._listener.on_reply(request, [found], done=False)

    def contractDetailsEnd(self, request: int) -> None:  # noqa: N802
        self._listener.on_reply(request, [], done=True)

    def historicalData(self, request: int, bar: Any) -> None:  # noqa: N802 - told with the last
        prices = (price_e9(price) for price in (bar.open, bar.high, bar.low, bar.close))
        first, high, low, close = prices
        self._bars.append((int(bar.date), first, high, low, close, number_parsing.parse_lots(bar.volume)))

    def historicalDataEnd(self, request: int, *_: object) -> None:  # noqa: N802
        bars, self._bars = self._bars, []
        self._listener.on_reply(request, bars, done=True)

    def historicalTicksLast(self, request: int, ticks: Any, done: bool) -> None:  # noqa: N802, FBT001
        rows = [
            (int(one.time.timestamp()), price_e9(one.price), number_parsing.parse_lots(one.size))
            for one in ticks
        ]
        self._listener.on_reply(request, [row for row in rows if row[2] > 0], done=done)

    def tickByTickAllLast(  # noqa: N802
        self, request: int, _kind: int, time: int, price: float, size: float, *_: object
    ) -> None:
        if size > 0:  # size 0 at price -1 means no data
            self._listener.on_trade(request, (time, price_e9(price), number_parsing.parse_lots(size)))
