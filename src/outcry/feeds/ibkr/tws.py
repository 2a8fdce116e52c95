"""The socket to TWS or IB Gateway, as `ib_async` speaks on it; no other module knows that library.

The library's `Client` and `Decoder` are used with a receiver of our own in place of its `Wrapper`, which puts the
time of arrival in the place of the exchange's, asks for positions, and swallows what cannot be read. Rules kept: no
account number is kept or logged, nothing of the account is asked for; prices are taken from the shortest decimal that
is the number sent, which is the one that was sent.
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
    """Who is told what TWS sends. `request`: the number a question was asked under, -1 for none."""

    def arrived(self) -> None:
        """Bytes came."""
        ...

    def processed(self) -> None:
        """What came has been told."""
        ...

    def noted(self, request: int, code: int, text: str) -> None:
        """A numbered message."""
        ...

    def answered(self, request: int, parts: Sequence[Any], *, done: bool) -> None:
        """Part of an answer: contracts found, bars, or trades; `done` with the last."""
        ...

    def traded(self, request: int, tick: Tick) -> None:
        """A trade, as it is made."""
        ...

    def timed(self, at_s: int) -> None:
        """What time it is by TWS."""
        ...

    def unreadable(self) -> None:
        """A message could not be read."""
        ...

    def hung_up(self) -> None:
        """The connection is gone."""
        ...


@lru_cache(maxsize=8192)
def price_e9(price: float) -> int:
    """A price in 10⁻⁹. Raises `ValueError` for one that is none."""
    scaled = Decimal(repr(price)) * _E9
    if not scaled.is_finite() or scaled != scaled.to_integral_value() or abs(scaled) >= 2**63:
        raise ValueError("no price")
    return int(scaled)


class Tws:
    """One connection. Methods that ask return the request's number, and raise `ConnectionError` where it is gone."""

    def __init__(self, listener: Listener) -> None:
        for name in ("ib_async", "eventkit"):  # they log accounts, hosts and raw messages
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._listener = listener
        self._client: Any = Client(_Receiver(listener))
        self._client.decoder = _StrictDecoder(self._client.wrapper, listener)
        self._client.conn.disconnected += self._hung_up
        self._gone = asyncio.Event()

    async def connect(self, host: str, port: int, client_id: int, timeout_s: float) -> None:
        """Connect and be greeted. Raises `OSError` and `TimeoutError`; `ConnectionAbortedError` where it hangs up
        instead of greeting."""
        opening = asyncio.ensure_future(self._client.connectAsync(host, port, client_id, 0))
        gone = asyncio.ensure_future(self._gone.wait())
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
        """Cut the connection; nothing that was to be sent is waited for. May be called again."""
        transport = self._client.conn.transport
        if transport is not None:
            transport.abort()
            await self._gone.wait()

    def ask_time(self) -> int:
        """Ask what time it is; the answer comes under no number, -1."""
        self._client.reqCurrentTime()
        return -1

    def ask_contracts(self, query: ContractQuery) -> int:
        """Ask for contracts that fit."""
        request = self._client.getReqId()
        contract = IbContract(
            secType="FUT", symbol=query.symbol, exchange=query.exchange, currency="USD",
            lastTradeDateOrContractMonth=query.month, includeExpired=True,
        )  # fmt: skip
        self._client.reqContractDetails(request, contract)
        return request

    def ask_bars(self, found: IbContractDetails, until: str, duration: str) -> int:
        """Ask for bars of a minute that end at or before an instant (`YYYYMMDD HH:MM:SS UTC`), of all hours."""
        request = self._client.getReqId()
        self._client.reqHistoricalData(request, _of(found), until, duration, "1 min", "TRADES", 0, 2, 0, [])
        return request

    def ask_ticks(self, found: IbContractDetails, since: str, most: int) -> int:
        """Ask for the first trades at or after an instant, of all hours."""
        request = self._client.getReqId()
        self._client.reqHistoricalTicks(request, _of(found), since, "", most, "TRADES", 0, 0, [])
        return request

    def subscribe(self, found: IbContractDetails) -> int:
        """Ask for every trade from now on."""
        request = self._client.getReqId()
        self._client.reqTickByTickData(request, _of(found), "AllLast", 0, 0)
        return request

    def unsubscribe(self, request: int) -> None:
        """Ask for no more; nothing happens where the connection is gone."""
        with suppress(ConnectionError):
            self._client.cancelTickByTickData(request)

    def _hung_up(self, *_: object) -> None:
        self._gone.set()
        self._listener.hung_up()


def _of(found: IbContractDetails) -> Any:
    return IbContract(conId=found.con_id, exchange=found.exchange, secType="FUT", includeExpired=True)


class _StrictDecoder(Decoder):
    """Tells of what cannot be read, which the library's own only logs. What we have no use for is let go by."""

    def __init__(self, receiver: Any, listener: Listener) -> None:
        super().__init__(receiver, 0)
        self._listener = listener

    def interpret(self, fields: Any) -> None:
        """Hand a message on."""
        try:
            handler = self.handlers.get(int(fields[0])) if int(fields[0]) in _WANTED else None
            if handler is not None:
                handler(fields)
        except Exception:  # noqa: BLE001 - whatever a message that is not as agreed upon raises in the library
            self._listener.unreadable()


#: Numbers of the messages we use: errors, contracts and their end, bars, time, trades of history, trades.
_WANTED = frozenset({4, 10, 17, 49, 52, 98, 99})


class _Receiver:
    """What the library's decoder calls, by the names that it calls."""

    #: The zone in which the decoder makes a datetime of seconds.
    defaultTimezone = UTC  # noqa: N815 - the library's name

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._bars: list[Bar] = []
        self.tcpDataArrived = listener.arrived
        self.tcpDataProcessed = listener.processed

    def connectAck(self) -> None:  # noqa: N802 - the library's name, as all below
        pass

    def connectionClosed(self) -> None:  # noqa: N802
        pass

    def setEventsDone(self) -> None:  # noqa: N802
        pass

    def error(self, request: int, code: int, text: str, *_: object) -> None:
        self._listener.noted(request, code, text)

    def currentTime(self, time: int) -> None:  # noqa: N802
        self._listener.timed(time)

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
        self._listener.answered(request, [found], done=False)

    def contractDetailsEnd(self, request: int) -> None:  # noqa: N802
        self._listener.answered(request, [], done=True)

    def historicalData(self, request: int, bar: Any) -> None:  # noqa: N802 - told with the last
        prices = (price_e9(price) for price in (bar.open, bar.high, bar.low, bar.close))
        first, high, low, close = prices
        self._bars.append((int(bar.date), first, high, low, close, number_parsing.parse_lots(bar.volume)))

    def historicalDataEnd(self, request: int, *_: object) -> None:  # noqa: N802
        bars, self._bars = self._bars, []
        self._listener.answered(request, bars, done=True)

    def historicalTicksLast(self, request: int, ticks: Any, done: bool) -> None:  # noqa: N802, FBT001
        rows = [
            (int(one.time.timestamp()), price_e9(one.price), number_parsing.parse_lots(one.size))
            for one in ticks
        ]
        self._listener.answered(request, [row for row in rows if row[2] > 0], done=done)

    def tickByTickAllLast(  # noqa: N802
        self, request: int, _kind: int, time: int, price: float, size: float, *_: object
    ) -> None:
        if size > 0:  # none, at a price of -1, says that there is nothing to say
            self._listener.traded(request, (time, price_e9(price), number_parsing.parse_lots(size)))
