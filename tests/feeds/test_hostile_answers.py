"""Vendor answers that could block the service: numbers of a million digits, and bodies that expand on decompression."""

import asyncio
import gzip
import json
import time
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from outcry.feeds import number_parsing, response_body
from outcry.feeds.databento import history
from outcry.feeds.ibkr.tws import _Receiver, _StrictDecoder
from outcry.feeds.massive.protocol import history_rows, live_rows, read_answer, read_frame
from outcry.feeds.massive.transport import Rest as MassiveRest
from outcry.feeds.projectx import protocol as projectx
from outcry.feeds.projectx.rest import ProjectXRest
from outcry.feeds.projectx.symbols import same_quote_unit
from outcry.feeds.tastytrade import events
from outcry.feeds.tastytrade.rest import Credentials as TastytradeCredentials
from outcry.feeds.tastytrade.rest import TastytradeRest
from outcry.feeds.tastytrade.symbols import read_future
from outcry.feeds.tradovate import protocol
from outcry.feeds.tradovate.login import Entries as TradovateEntries
from outcry.feeds.tradovate.login import Login
from outcry.market.instruments import Contract
from outcry.trades.feed import FeedLost
from outcry.trades.reference_tables import load_reference

HUGE = "1E999980"
ES = Contract("ES", 2026, 12)


#: Time limit: a refusal is immediate, while writing out the digits took minutes.
AT_ONCE_S = 3.0


def refused(work: Callable[[], object]) -> None:
    began_s = time.process_time()
    with pytest.raises(FeedLost) as found:
        work()
    assert found.value.code == "protocol"
    assert time.process_time() - began_s < AT_ONCE_S


# -- numbers


@pytest.mark.parametrize(
    "text", [HUGE, f"-{HUGE}", "1E-999980", "0E999980", "1E10", "NaN", "sNaN", "Infinity", "x", ""]
)
def test_a_price_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        number_parsing.parse_price_e9(text)


@pytest.mark.parametrize(
    "lots", [HUGE, Decimal(HUGE), "0.5", 2**31, 10**4000, float("inf"), float("nan"), "x", True]
)
def test_lots_that_cannot_be(lots: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        number_parsing.parse_lots(lots)


def test_prices_and_lots_that_can() -> None:
    for sent, e9 in (
        ("0.0067315000000000005", 6_731_500),
        (5e-07, 500),
        (-37.63, -37_630_000_000),
        (7, 7 * 10**9),
    ):
        assert number_parsing.parse_price_e9(sent) == e9
    for sent, number in ((2.0, 2), ("3", 3), (Decimal("1E3"), 1000), (-1, -1)):
        assert number_parsing.parse_lots(sent) == number


@pytest.mark.parametrize(
    ("price", "size"), [(HUGE, "1"), ("1", HUGE), ("1", "-1"), ('"sNaN"', "1"), ("1", "9" * 200)]
)
def test_massive(price: str, size: str) -> None:
    refused(lambda: live_rows(read_frame(f'[{{"ev":"T","sym":"ESZ6","p":{price},"s":{size},"t":1}}]'), 0))
    text = f'{{"results":[{{"timestamp":1,"price":{price},"size":{size}}}]}}'
    refused(lambda: history_rows(read_answer(text).results, 0))


@pytest.mark.parametrize("number", [HUGE, float("inf"), float("nan"), 10**400])
def test_projectx(number: object) -> None:
    trade = {"price": 1, "timestamp": "2026-11-18T15:00:00Z", "type": 0, "volume": 1}
    for name in ("price", "volume"):
        refused(lambda name=name: projectx.trade_rows(trade | {name: number}, 0))
    assert projectx.parse_volume_counter({"volume": number, "timestamp": "2026-11-18T15:00:00Z"}) is None


@pytest.mark.parametrize("name", ["o", "h", "l", "c", "v"])
def test_projectx_bars(name: str) -> None:
    values = {"t": '"2026-11-18T15:00:00Z"', **dict.fromkeys("ohlcv", "1"), name: HUGE}
    text = ",".join(f'"{key}":{value}' for key, value in values.items())
    bars = projectx.read_answer(f'{{"bars":[{{{text}}}],"success":true}}'.encode()).bars or []
    assert len(bars) == 1
    refused(lambda: projectx.bar_rows(bars))


def test_projectx_ticks_and_times() -> None:
    refused(
        lambda: same_quote_unit(load_reference().universe, ES, projectx.ListedContract("", "", Decimal(HUGE)))
    )
    refused(lambda: projectx.parse_time_ns("2026-99-18T15:00:00Z"))
    bar = projectx.Bar("9999-01-01T00:00:00Z", *[Decimal(1)] * 5)
    refused(lambda: projectx.bar_rows([bar]))


@pytest.mark.parametrize(
    ("step", "size"), [(HUGE, "1"), ("1E-999980", "1"), ("0.25", HUGE), ("0.25", "1E300")]
)
def test_tradovate(step: str, size: str) -> None:
    text = f'{{"id":1,"bp":3,"bt":1,"ts":{step},"tks":[{{"t":0,"p":4,"s":{size},"id":1}}]}}'
    refused(lambda: protocol.parse_rows(protocol.parse(msgspec.Raw(text.encode()), protocol.Packet), 0, 0))


def test_tastytrade() -> None:
    sale = {"index": 5, "time": 1_795_014_000_000, "price": Decimal("6700.25"), "size": 3}
    assert events.read_sale(sale, Decimal(1)).trade
    for name in ("price", "size"):
        for number in (HUGE, Decimal(HUGE)):
            assert not events.read_sale(sale | {name: number}, Decimal(100)).trade
    refused(lambda: events.read_sale(sale | {"index": Decimal(HUGE)}, Decimal(1)))
    product = load_reference().universe.products["ES"]
    for tick in (HUGE, "1E-999980", Decimal("1E-999980")):
        future = read_future({"tick-size": tick}, ES, product)
        assert future is not None
        assert future.scale == 1


@pytest.mark.parametrize(("price", "size"), [(HUGE, "1"), ("1", HUGE), ("1", "1E300"), ("1E300", "1")])
def test_interactive_brokers(price: str, size: str) -> None:
    """What cannot be read is told to the session, which ends with `protocol`."""
    calls: list[str] = []
    listener: Any = SimpleNamespace(
        on_bytes=None, on_batch_end=None, on_unreadable=lambda: calls.append("unreadable"),
        on_trade=lambda *_: calls.append("traded"), on_reply=lambda *_, **__: calls.append("answered"),
    )  # fmt: skip
    receiver = _Receiver(listener)
    decoder = _StrictDecoder(receiver, listener)
    decoder.serverVersion = 176
    decoder.interpret(["99", "5", "2", "1795014000", price, size, "0", "CME", ""])
    assert calls == ["unreadable"]
    contract = SimpleNamespace(multiplier=HUGE, conId=1, symbol="ES", exchange="CME", tradingClass="ES")
    details = SimpleNamespace(
        contract=contract, contractMonth="202612", priceMagnifier=1, tradingHours="", timeZoneId=""
    )
    with pytest.raises(ValueError, match=r"."):
        receiver.contractDetails(5, details)


# -- bodies


def bomb() -> bytes:
    """Spaces, then an answer: JSON, of which 64 MiB come in 64 KiB."""
    return gzip.compress(b" " * (64 * 2**20) + json.dumps({"data": {}}).encode(), 6)


async def asked_of_a_bomb(ask: Callable[[str], Any], body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return web.Response(body=body, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        with pytest.raises(FeedLost) as found:
            await ask(f"http://127.0.0.1:{runner.addresses[0][1]}")
        assert found.value.code == "protocol"
        assert "larger than" in str(found.value)
    finally:
        await runner.cleanup()


class Clock:
    def now_ns(self) -> int:
        return 1_795_014_000_000_000_000


async def _massive(place: str) -> None:
    rest = MassiveRest("key", place, 1.0)
    try:
        await rest.page("ESZ6", {}, 0)
    finally:
        rest.close()


async def _projectx(place: str) -> None:
    rest = ProjectXRest("user", "key", place, Clock(), 1.0)
    try:
        await rest.contracts("ES")
    finally:
        await rest.close()


async def _tastytrade(place: str) -> None:
    rest = TastytradeRest(TastytradeCredentials("secret", "token"), {"api": place}, Clock(), 1.0)
    try:
        await rest.quote_token()
    finally:
        await rest.close()


async def _tradovate(place: str) -> None:
    async with aiohttp.ClientSession() as http:
        entries = TradovateEntries("user", "password", "1", "secret", "app", "demo")
        await Login(entries, http, place, "device", Clock(), 1.0).renew(None)


async def _databento(place: str) -> None:
    async for _ in history.History("db-" + "x" * 29, place, 1.0).pages("ESZ6", 10**18, 10**18 + 1):
        pass


@pytest.mark.parametrize("ask", [_massive, _projectx, _tastytrade, _tradovate, _databento])
def test_a_body_that_grows_is_let_go(ask: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_LARGEST", response_body.MAX_BODY_BYTES)  # a day of trades may be larger
    asyncio.run(asked_of_a_bomb(ask, bomb()))
