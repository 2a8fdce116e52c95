"""tastytrade's adapter against the vendor on loopback: what goes wrong is said, and secrets are in none of it."""

import logging

import pytest
from aiohttp import web
from tests.feeds.tastytrade_harness import (
    ES,
    NQ,
    SECOND,
    SECRETS,
    ZN,
    Desk,
    PeerClock,
    Reader,
    answers,
    played,
    universe,
)

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.tastytrade.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.trades.feed import FeedLost, FeedRefused, LoginRefused

# -- what goes wrong


def test_a_wrong_secret_is_tried_twice_and_not_again() -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed(client_secret="another")
        first, second = await Reader(feed).lost(), await Reader(feed).lost()
        assert (type(first), first.code) == (FeedLost, "login_refused")
        assert (type(second), second.code) == (LoginRefused, "login_refused")
        assert (await Reader(feed, NQ).lost()).code == "login_refused"
        assert (desk.peer.logins, desk.peer.refusals) == (2, 2)

    played(work)


def test_a_grant_that_has_ended_is_told_as_such() -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await desk.peer.expire(on=True)
        assert (await reader.lost()).code == "login_expired"
        assert type(await Reader(feed).lost()) is FeedLost
        last = await Reader(feed).lost()
        assert (type(last), last.code) == (LoginRefused, "login_expired")
        assert desk.peer.refusals == 2

    played(work)


def test_one_sign_in_serves_all_and_a_token_is_renewed_in_time() -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed()
        readers = [Reader(feed, contract) for contract in (ES, NQ)]
        for reader in readers:
            await reader.caught_up()
        assert (desk.peer.logins, len(desk.peer.lines)) == (1, 1)
        desk.peer.now_ns += 721 * SECOND  # four fifths of a quarter of an hour
        await desk.peer.drop()
        for reader in readers:
            await reader.lost()
        again = [Reader(feed, contract) for contract in (ES, NQ)]
        for reader in again:
            await reader.caught_up()
        assert (desk.peer.logins, desk.peer.refusals, len(desk.peer.lines)) == (2, 0, 1)

    played(work)


def test_an_access_token_refused_before_its_time_is_renewed_once() -> None:
    async def work(desk: Desk) -> None:
        feed = desk.feed()
        await Reader(feed).caught_up()
        desk.peer.access_tokens.clear()
        await Reader(feed, NQ).caught_up()
        assert (desk.peer.logins, desk.peer.refusals) == (2, 0)

    played(work)


@pytest.mark.parametrize(
    ("level", "code"), [("demo", "not_entitled"), ("delayed", "not_entitled"), ("none", "not_entitled")]
)
def test_a_login_without_real_time_data(level: str, code: str) -> None:
    async def work(desk: Desk) -> None:
        desk.peer.level = level
        problem = await Reader(desk.feed()).lost()
        assert (type(problem), problem.code) == (FeedRefused, code)

    played(work)


def test_a_contract_it_may_not_see_or_does_not_have_ends_its_own_stream() -> None:
    async def work(desk: Desk) -> None:
        desk.peer.forbidden.add("/NQZ26:XCME")
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        forbidden, unknown = await Reader(feed, NQ).lost(), await Reader(feed, ZN).lost()
        assert (type(forbidden), forbidden.code) == (FeedRefused, "not_entitled")
        assert (type(unknown), unknown.code) == (FeedRefused, "unknown_contract")
        nowhere = await Reader(feed, Contract("XX", 2026, 12)).lost()
        assert nowhere.code == "unknown_contract"
        assert reader.problem is None

    played(work)


@pytest.mark.parametrize(
    "url",
    [
        "ws://169.254.169.254/latest", "wss://dxfeed.com.example.org/realtime", "wss://evil.org/?a=.dxfeed.com",
        "wss://tasty-openapi-ws.dxfeed.com:8443/realtime", "ws://tasty-openapi-ws.dxfeed.com/realtime",
        "https://127.0.0.1/", "wss://[bad", "",
    ],
)  # fmt: skip
def test_an_address_that_is_not_the_vendors_is_not_followed(url: str) -> None:
    async def work(desk: Desk) -> None:
        desk.peer.dxlink_url = url
        problem = await Reader(desk.feed()).lost()
        assert problem.code == "protocol"
        assert desk.peer.lines == []

    played(work)


@pytest.mark.parametrize("url", ["wss://tasty-openapi-ws.dxfeed.com/realtime", "wss://x.tastyworks.com/y"])
def test_the_vendors_own_addresses_are(url: str) -> None:
    """Believed, that is: there is no such name here, so that it is not reached."""

    async def work(desk: Desk) -> None:
        desk.peer.dxlink_url = url
        problem = await Reader(desk.feed()).lost()
        assert problem.code == "unreachable"
        assert url not in str(problem)

    played(work)


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
    async def work(desk: Desk) -> None:
        token = web.Response(status=200, body=b'{"access_token":"tt-access-1","expires_in":900}')
        quote = web.Response(status=status, body=body, headers=headers)
        runner, base = await answers({"/oauth/token": token, "/api-quote-tokens": quote})
        context = AdapterContext(universe(), PeerClock(desk.peer), lambda: (ES,), {"api": base}, 20.0)
        feed = ADAPTER.feed(desk.peer.given, context)
        problem = await Reader(feed).lost()
        assert (type(problem), problem.code) == (kind, code)
        await feed.close()
        await runner.cleanup()

    played(work)


def test_a_vendor_that_is_not_there() -> None:
    async def work(desk: Desk) -> None:
        context = AdapterContext(
            universe(), PeerClock(desk.peer), lambda: (ES,), {"api": "http://127.0.0.1:1"}, 20.0
        )
        feed = ADAPTER.feed(desk.peer.given, context)
        problem = await Reader(feed).lost()
        assert (type(problem), problem.code) == (FeedLost, "unreachable")
        await feed.close()

    played(work)


def test_secrets_are_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []

    async def work(desk: Desk) -> None:
        feed = desk.feed()
        reader = Reader(feed)
        await reader.caught_up()
        await desk.peer.drop()
        told.append(repr(await reader.lost()))
        await desk.peer.expire(on=True)
        told.extend([repr(await Reader(feed).lost()) for _ in range(3)])
        told.append(repr(vars(feed)) + str(feed.contracts))

    played(work)
    assert len(told) == 5
    for secret in SECRETS:
        assert secret not in caplog.text
        assert not [text for text in told if secret in text]
