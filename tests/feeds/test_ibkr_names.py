"""Interactive Brokers: symbols, credentials, prices, messages and request pacing, without sockets."""

import asyncio
from decimal import Decimal

import pytest
from support.vendors import ibkr_frames as frames
from tests.feeds.ibkr_harness import ES, at, universe
from tests.virtual_time import run_in_virtual_time

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.ibkr import contracts, error_codes, request_limiter
from outcry.feeds.ibkr.adapter import ADAPTER
from outcry.feeds.ibkr.tws import price_e9
from outcry.market.instruments import Contract
from outcry.trades.feed import FeedLost, FeedRefused


def _listed(root: str, con_id: int, month: str = "202612") -> contracts.IbContractDetails:
    one = frames.LISTED[root]
    point = Decimal(one.size) / one.magnifier
    return contracts.IbContractDetails(
        con_id, one.symbol, one.exchange, one.trading_class, month, point, "", ""
    )


def test_every_product_is_found_by_its_name() -> None:
    """Among all that Interactive Brokers lists under the same symbol, in two months."""
    listed = [_listed(root, number, month) for number, (root, month) in enumerate(
        (root, month) for root in frames.LISTED for month in ("202612", "202703"))]  # fmt: skip
    assert frames.LISTED.keys() == universe().products.keys()
    for root in universe().products:
        contract = Contract(root, 2026, 12)
        query = contracts.contract_query(contract, universe())
        same = [one for one in listed if (one.symbol, one.exchange) == (query.symbol, query.exchange)]
        found = contracts.select_contract(contract, universe(), same)
        assert found is not None, root
        assert (found.trading_class, found.month) == (frames.LISTED[root].trading_class, query.month)


def test_an_ambiguous_or_unknown_contract_is_refused() -> None:
    assert contracts.select_contract(ES, universe(), [_listed("ES", 1, "202703")]) is None
    assert contracts.select_contract(Contract("SI", 2026, 12), universe(), [_listed("SIL", 1)]) is None
    with pytest.raises(FeedRefused) as refused:
        contracts.select_contract(ES, universe(), [_listed("ES", 1), _listed("ES", 2)])
    assert refused.value.code == "unknown_contract"
    with pytest.raises(FeedRefused):
        contracts.contract_query(Contract("XX", 2026, 12), universe())


def test_the_trade_date_under_way_is_read_from_the_hours() -> None:
    """17:00 in Chicago is 23:00 UTC in winter; where nothing can be read it is a day."""
    now = at("2026-11-18 15:00:00")
    hours = "20261117:1700-20261118:1600;20261118:1700-20261119:1600;20261121:CLOSED"
    found = contracts.IbContractDetails(1, "ES", "CME", "ES", "202612", Decimal(50), hours, "US/Central")
    assert contracts.trade_date_start_ns(found, now) == at("2026-11-17 23:00:00")
    other = contracts.IbContractDetails(1, "ES", "CME", "ES", "202612", Decimal(50), hours, "Nowhere")
    assert contracts.trade_date_start_ns(other, now) == at("2026-11-17 15:00:00")


def test_prices_are_those_that_were_sent() -> None:
    """As `float` reads the text of the message."""
    for text, e9 in (
        ("0.0067445", 6_744_500),
        ("110.0234375", 110_023_437_500),
        ("-37.63", -37_630_000_000),
        ("26800.1", 26_800_100_000_000),
        ("5e-07", 500),
    ):
        assert price_e9(float(text)) == e9
    for text in ("nan", "inf", "1.7976931348623157E308", "0.00000000001"):
        with pytest.raises(ValueError):  # noqa: PT011 - any
            price_e9(float(text))


# -- entries


def test_invalid_credentials() -> None:
    class Never:
        def now_ns(self) -> int:
            return 0

    context = AdapterContext(universe(), Never(), list)
    for name, text in (
        ("host", "127.0.0.1/x"), ("host", "a b"), ("port", "0"), ("port", "65536"), ("port", "4001x"),
        ("client_id", "0"), ("client_id", "-1"), ("client_id", "99999999999999"),
    ):  # fmt: skip
        with pytest.raises(InvalidCredential) as bad:
            ADAPTER.feed({name: text}, context)
        assert (bad.value.code, bad.value.field) == ("rejected", name)
    assert ADAPTER.feed({}, context).name == "ibkr"
    assert not ADAPTER.broker.hosted
    assert not any(entry.secret for entry in ADAPTER.broker.fields)


def test_history_requests_are_limited_to_sixty_in_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a two-hundredth of the time: the first sixty at once, but for what lies between two; what is not urgent leaves
    room. Bars are not counted."""
    monkeypatch.setattr(request_limiter, "MIN_INTERVAL_S", 0.0)

    async def work() -> None:
        loop, paced = asyncio.get_running_loop(), request_limiter.HistoryRequestLimiter(speedup=200.0)
        for _ in range(request_limiter.MAX_BACKGROUND_REQUESTS):
            await paced.trades(urgent=False)
        for _ in range(request_limiter.MAX_REQUESTS - request_limiter.MAX_BACKGROUND_REQUESTS):
            await paced.trades(urgent=True)
        for _ in range(request_limiter.MAX_REQUESTS):
            await paced.bars()
        assert loop.time() == pytest.approx(0.0, abs=1e-6)
        await paced.trades(urgent=False)
        assert loop.time() == pytest.approx(600 / 200.0, abs=0.1)

    run_in_virtual_time(work())


def test_messages_are_errors_a_person_can_act_on() -> None:
    """The one number for all of history's faults is told apart by its text."""
    problem = error_codes.read_error(162, "HMDS query returned no data: ESZ6@CME Trades")
    assert problem is error_codes.ReplyKind.NO_DATA
    for code, text, kind in (
        (162, "API historical data query pacing violation", "rate_limited"),
        (162, "Trading TWS session is connected from a different IP address", "too_many_sessions"),
        (162, "No market data permissions for CME FUT", "not_entitled"),
        (162, "something else", "vendor_error"),
        (420, "", "rate_limited"),
        (504, "", "disconnected"),
        (9999, "", "vendor_error"),
    ):
        fault = error_codes.read_error(code, text)
        assert isinstance(fault, FeedLost)
        assert fault.code == kind
