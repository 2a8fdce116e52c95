"""tastytrade's adapter with the fake vendor on loopback: faults are reported, and no report contains secrets."""

import logging

import pytest
from aiohttp import web
from tests.feeds.tastytrade_harness import (
    ES,
    NQ,
    SECOND,
    SECRETS,
    ZN,
    PeerClock,
    Reader,
    TastytradeHarness,
    answers,
    run_with_vendor,
    universe,
)

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.tastytrade.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.trades.feed import FeedLost, FeedRefused, LoginRefused

# -- what goes wrong


def test_a_wrong_secret_is_tried_twice_and_not_again() -> None:
    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed(client_secret="another")
        first, second = await Reader(feed).end_of_stream(), await Reader(feed).end_of_stream()
        assert (type(first), first.code) == (FeedLost, "login_refused")
        assert (type(second), second.code) == (LoginRefused, "login_refused")
        assert (await Reader(feed, NQ).end_of_stream()).code == "login_refused"
        assert (harness.peer.logins, harness.peer.refusals) == (2, 2)

    run_with_vendor(work)


def test_a_grant_that_has_ended_is_told_as_such() -> None:
    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await harness.peer.expire(on=True)
        assert (await reader.end_of_stream()).code == "login_expired"
        assert type(await Reader(feed).end_of_stream()) is FeedLost
        last = await Reader(feed).end_of_stream()
        assert (type(last), last.code) == (LoginRefused, "login_expired")
        assert harness.peer.refusals == 2

    run_with_vendor(work)


def test_one_sign_in_serves_all_and_a_token_is_renewed_in_time() -> None:
    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        readers = [Reader(feed, contract) for contract in (ES, NQ)]
        for reader in readers:
            await reader.caught_up()
        assert (harness.peer.logins, len(harness.peer.lines)) == (1, 1)
        harness.peer.now_ns += 721 * SECOND  # four fifths of a quarter of an hour
        await harness.peer.drop()
        for reader in readers:
            await reader.end_of_stream()
        again = [Reader(feed, contract) for contract in (ES, NQ)]
        for reader in again:
            await reader.caught_up()
        assert (harness.peer.logins, harness.peer.refusals, len(harness.peer.lines)) == (2, 0, 1)

    run_with_vendor(work)


def test_an_access_token_refused_before_its_time_is_renewed_once() -> None:
    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        await Reader(feed).caught_up()
        harness.peer.access_tokens.clear()
        await Reader(feed, NQ).caught_up()
        assert (harness.peer.logins, harness.peer.refusals) == (2, 0)

    run_with_vendor(work)


@pytest.mark.parametrize(
    ("level", "code"), [("demo", "not_entitled"), ("delayed", "not_entitled"), ("none", "not_entitled")]
)
def test_a_login_without_real_time_data(level: str, code: str) -> None:
    async def work(harness: TastytradeHarness) -> None:
        harness.peer.level = level
        problem = await Reader(harness.feed()).end_of_stream()
        assert (type(problem), problem.code) == (FeedRefused, code)

    run_with_vendor(work)


def test_a_contract_it_may_not_see_or_does_not_have_ends_its_own_stream() -> None:
    async def work(harness: TastytradeHarness) -> None:
        harness.peer.forbidden.add("/NQZ26:XCME")
        feed = harness.feed()
        reader = Reader(feed)
        await reader.caught_up()
        forbidden, unknown = await Reader(feed, NQ).end_of_stream(), await Reader(feed, ZN).end_of_stream()
        assert (type(forbidden), forbidden.code) == (FeedRefused, "not_entitled")
        assert (type(unknown), unknown.code) == (FeedRefused, "unknown_contract")
        nowhere = await Reader(feed, Contract("XX", 2026, 12)).end_of_stream()
        assert nowhere.code == "unknown_contract"
        assert reader.problem is None

    run_with_vendor(work)


@pytest.mark.parametrize(
    "url",
    [
        "ws://169.254.169.254/latest", "wss://dxfeed.com.example.org/realtime", "wss://evil.org/?a=.dxfeed.com",
        "wss://tasty-openapi-ws.dxfeed.com:8443/realtime", "ws://tasty-openapi-ws.dxfeed.com/realtime",
        "https://127.0.0.1/", "wss://[bad", "",
    ],
)  # fmt: skip
def test_an_address_that_is_not_the_vendors_is_not_followed(url: str) -> None:
    async def work(harness: TastytradeHarness) -> None:
        harness.peer.dxlink_url = url
        problem = await Reader(harness.feed()).end_of_stream()
        assert problem.code == "protocol"
        assert harness.peer.lines == []

    run_with_vendor(work)


@pytest.mark.parametrize("url", ["wss://tasty-openapi-ws.dxfeed.com/realtime", "wss://x.tastyworks.com/y"])
def test_the_vendors_own_addresses_are(url: str) -> None:
    """Believed, that is: there is no such name here, so that it is not reached."""

    async def work(harness: TastytradeHarness) -> None:
        harness.peer.dxlink_url = url
        problem = await Reader(harness.feed()).end_of_stream()
        assert problem.code == "unreachable"
        assert url not in str(problem)

    run_with_vendor(work)


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "code"),
    [
        (429, b"", {}, FeedLost, "rate_limited"),
        (503, b"<html>", {}, FeedLost, "vendor_error"),
        (403, b'{"error":{"code":"not_permitted"}}', {}, FeedRefused, "not_allowed"),
        (200, b"nonsense", {}, FeedLost, "protocol"),
        (200, b'{"data":[]}', {}, FeedLost, "protocol"),
        (200, b'{"data":{"token":1}}', {}, FeedLost, "protocol"),
        (302, b"", {"Location": "http://127.0.0.1:1/elsewhere"}, FeedLost, "protocol"),
    ],
)
def test_what_the_vendor_may_answer(
    status: int, body: bytes, headers: dict[str, str], kind: type, code: str
) -> None:
    async def work(harness: TastytradeHarness) -> None:
        token = web.Response(status=200, body=b'{"access_token":"tt-access-1","expires_in":900}')
        quote = web.Response(status=status, body=body, headers=headers)
        runner, base = await answers({"/oauth/token": token, "/api-quote-tokens": quote})
        context = AdapterContext(universe(), PeerClock(harness.peer), lambda: (ES,), {"api": base}, 20.0)
        feed = ADAPTER.feed(harness.peer.given, context)
        problem = await Reader(feed).end_of_stream()
        assert (type(problem), problem.code) == (kind, code)
        await feed.close()
        await runner.cleanup()

    run_with_vendor(work)


def test_a_vendor_that_is_not_there() -> None:
    async def work(harness: TastytradeHarness) -> None:
        context = AdapterContext(
            universe(), PeerClock(harness.peer), lambda: (ES,), {"api": "http://127.0.0.1:1"}, 20.0
        )
        feed = ADAPTER.feed(harness.peer.given, context)
        problem = await Reader(feed).end_of_stream()
        assert (type(problem), problem.code) == (FeedLost, "unreachable")
        await feed.close()

    run_with_vendor(work)


def test_secrets_are_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []

    async def work(harness: TastytradeHarness) -> None:
        feed = harness.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await harness.peer.drop()
        texts.append(repr(await reader.end_of_stream()))
        await harness.peer.expire(on=True)
        texts.extend([repr(await Reader(feed).end_of_stream()) for _ in range(3)])
        texts.append(repr(vars(feed)) + str(feed.contracts))

    run_with_vendor(work)
    assert len(texts) == 5
    for secret in SECRETS:
        assert secret not in caplog.text
        assert not [text for text in texts if secret in text]
