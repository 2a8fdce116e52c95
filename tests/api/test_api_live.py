"""Live answers over real sockets follow the feed, end with it, and are computed once for all callers; and alerts."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.api.harness import START_NS, Harness, MemoryAccounts, build_harness, known, served
from tests.api.test_api_fastpath import cached, masked
from tests.api.wire import Wire, plain
from tests.sample_live_session import LIVE, REFERENCE, VIEW, MemoryAlerts, MemorySessions, Shown, alert_row
from tests.timeouts import wait_until

from outcry.access.model import GrantRow
from outcry.answers.query import Query
from outcry.live.registry import Registry

LEVELS = "/api/levels?symbol=ES"
PAUSE_S = 0.01  # five times the maximum age of an answer


class Sessions(MemorySessions):
    """Sessions whose revision is that of the accounts, as in one store."""

    def __init__(self, accounts: MemoryAccounts) -> None:
        super().__init__(0)
        self._accounts = accounts

    def revision(self) -> int:
        return self._accounts.revision()


class Market:
    """A service with a registry, in which all users are granted the operator's feed."""

    def __init__(self, **options: Any) -> None:
        self.registry, self.alerts = Registry(), MemoryAlerts()
        self.queries: list[Query] = []

        def make(accounts: MemoryAccounts) -> Query:
            sessions: Any = Sessions(accounts)
            alerts: Any = self.alerts
            return Query(sessions, REFERENCE.universe, REFERENCE.calendar, self.registry, alerts)

        self.harness: Harness = build_harness(make, self.registry, **options)
        self.harness.clock.at_ns = START_NS + 4 * 86_400 * 10**9  # Tuesday 2026-01-06
        for scope in ("completed", "live"):
            self.harness.accounts.add_grant(GrantRow(0, "everyone", scope, (), None, None, 0, None), 0)  # type: ignore[arg-type]

    def levels(self, key: str, path: str = LEVELS) -> Any:
        reply = self.harness.get(path, key)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def key(self, name: str = "ann") -> str:
        return self.harness.key(email=f"{name}@example.com")


@contextmanager
def open_market(*, fastpath: bool = True, **options: Any) -> Iterator[Market]:
    market = Market(**options)
    with served(market.harness, fastpath=fastpath):
        yield market


@pytest.fixture
def market() -> Iterator[Market]:
    with open_market() as running:
        yield running


def price(response: bytes) -> float:
    return json.loads(response.partition(b"\r\n\r\n")[2])["lastPrice"]


# -- freshness


def test_the_next_request_sees_the_trade(market: Market) -> None:
    shown, key = Shown(market.registry), market.key()
    assert (market.levels(key)["live"], market.levels(key)["lastPrice"]) == (True, 6913.0)
    for ticks in range(27653, 27663):
        shown.trade(ticks)
        time.sleep(PAUSE_S)
        assert market.levels(key)["lastPrice"] == ticks * 0.25


def test_a_feed_that_comes_or_stops_changes_the_answer_at_once(market: Market) -> None:
    """The answer changes at once, not at the next poll of the store, up to 200 ms later."""
    key = market.key()
    with Wire(market.harness) as wire:
        for _ in range(2):
            assert b'"dataSource":"delayed"' in wire.ask(plain(key))
        shown = Shown(market.registry)
        for _ in range(5):
            assert b'"dataSource":"shared"' in wire.ask(plain(key))
            assert b'"dataSource":"shared"' in wire.ask(plain(key))
            shown.stop("stale_link")
            after_stop = wire.ask(plain(key))
            assert b'"dataSource":"delayed"' in after_stop
            assert b'"lastPrice":null' in after_stop
            market.registry.set_availability(shown.channel, LIVE)
        market.registry.drop(shown.channel.key)
        assert b'"dataSource":"delayed"' in wire.ask(plain(key))


def test_symbols_and_context_follow_at_once_too(market: Market) -> None:
    shown, key = Shown(market.registry), market.key()
    for path, live in (("/api/symbols", b'"live":true'), ("/api/context?symbol=ES", b'"state":"live"')):
        assert live in market.harness.get(path, key).body
        shown.stop("catching_up")
        reply = market.harness.get(path, key).body
        assert live not in reply
        assert b'"catching_up"' in reply
        market.registry.set_availability(shown.channel, LIVE)


def test_tags_tell_versions_apart(market: Market) -> None:
    shown, key = Shown(market.registry), market.key()
    tag = market.harness.get(LEVELS, key).headers["etag"]
    assert market.harness.get(LEVELS, key, headers={"If-None-Match": tag}).status == 304
    shown.trade(27000)
    time.sleep(PAUSE_S)
    reply = market.harness.get(LEVELS, key, headers={"If-None-Match": tag})
    assert (reply.status, reply.headers["etag"] == tag) == (200, False)


def test_a_view_that_ends_before_anyone_was_told_is_answered_by_the_past(market: Market) -> None:
    shown, key = Shown(market.registry), market.key()
    with Wire(market.harness) as wire:
        for _ in range(3):
            assert b'"live":true' in wire.ask(plain(key))
        shown.view = None
        shown.channel.version += 1  # and the status is live
        time.sleep(PAUSE_S)
        for _ in range(3):
            assert b'"dataSource":"delayed"' in wire.ask(plain(key))


def test_a_grant_taken_back_ends_the_live_answer_within_a_second(market: Market) -> None:
    Shown(market.registry)
    key = market.key()
    with Wire(market.harness) as wire:
        assert b'"dataSource":"shared"' in wire.ask(plain(key))
        assert b'"dataSource":"shared"' in wire.ask(plain(key))
        market.harness.accounts.revoke_grant(2, 0)
        known(market.harness)
        assert b'"dataSource":"delayed"' in wire.ask(plain(key))
        market.harness.accounts.add_grant(GrantRow(0, "everyone", "live", (), None, None, 0, None), 0)
        known(market.harness)
        assert b'"dataSource":"shared"' in wire.ask(plain(key))


# -- computed once


def test_a_version_is_made_once_however_many_ask(market: Market) -> None:
    shown = Shown(market.registry)
    keys = [market.key(f"user{number}") for number in range(20)]
    for ticks in (27652, 27653, 27654):
        shown.trade(ticks)
        time.sleep(PAUSE_S)
        before = shown.peeks
        for key in keys:
            assert market.levels(key)["lastPrice"] == ticks * 0.25
        assert shown.peeks == before + 1


def test_the_fast_path_gives_the_newest_form_whoever_it_was_made_for(hot: list[bool], market: Market) -> None:
    """Ann's request is cached. After each trade Bob's request computes the answer, and Ann receives it from memory."""
    shown = Shown(market.registry)
    ann, bob = market.key("ann"), market.key("bob")
    with Wire(market.harness) as wire, Wire(market.harness) as other:
        for _ in range(2):  # computed, then answered from memory, from which the fast path learns
            wire.ask(plain(ann))
        hot.clear()
        for ticks in (27700, 27701, 27702):
            shown.trade(ticks)
            time.sleep(PAUSE_S)
            assert price(other.ask(plain(bob, "/api/levels?symbol=esh6"))) == ticks * 0.25
            assert price(wire.ask(plain(ann))) == ticks * 0.25
        assert hot == [False, True] * 3
        assert cached(market.harness) == 2, "the caller and the question stay known while the answer moves"


@pytest.mark.parametrize("path", [LEVELS, "/api/alerts", "/api/context?symbol=ES", "/api/profile?symbol=ES"])
@pytest.mark.parametrize("tier", ["free", "admin"])
def test_byte_for_byte_what_the_application_sends(path: str, tier: str) -> None:
    answers: dict[bool, list[bytes]] = {}
    for fastpath in (True, False):
        with open_market(fastpath=fastpath) as market, Wire(market.harness) as wire:
            shown = Shown(market.registry)
            market.registry.post([alert_row(1)])
            request = plain(market.harness.key(tier), path)  # type: ignore[arg-type]
            responses: list[bytes] = []
            for ticks in (27652, 27653, 27654):
                shown.trade(ticks)
                time.sleep(PAUSE_S)
                responses += [masked(wire.ask(request)) for _ in range(3)]
            answers[fastpath] = responses
            assert cached(market.harness) == (2 if fastpath else 0)
    assert answers[True] == answers[False]
    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers[True])


def test_ones_own_live_answer_is_never_anothers(market: Market) -> None:
    Shown(market.registry)
    ann, bob = market.key("ann"), market.key("bob")
    with Wire(market.harness) as wire:
        for _ in range(3):
            assert price(wire.ask(plain(ann))) == price(wire.ask(plain(bob))) == 6913.0
        own = Shown(market.registry, owner=1, feed="hers", view=replace(VIEW, last_ticks=27000))
        for ticks in (27001, 27002, 27003):
            own.trade(ticks)
            time.sleep(PAUSE_S)
            for _ in range(2):
                hers, his = wire.ask(plain(ann)), wire.ask(plain(bob))
                assert b'"dataSource":"personal"' in hers
                assert price(hers) == ticks * 0.25
                assert b'"dataSource":"shared"' in his
                assert price(his) == 6913.0


def test_prices_never_go_back_under_load(market: Market) -> None:
    """A feed trades a thousand times a second while four clients poll: no client sees an older price."""
    shown, key = Shown(market.registry), market.key()
    ended = threading.Event()
    wrong: list[tuple[float, float]] = []
    asked: list[int] = []

    def ask() -> None:
        last, count = 0.0, 0
        with Wire(market.harness) as wire:
            while not ended.is_set():
                market.harness.steady.at_ns += 200_000_000  # so that the limit allows them
                now = price(wire.ask(plain(key)))
                if now < last:
                    wrong.append((last, now))
                last, count = now, count + 1
        asked.append(count)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for ticks in range(27652, 28652):
        shown.trade(ticks)
        time.sleep(0.001)
    time.sleep(PAUSE_S)
    assert market.levels(key)["lastPrice"] == 28651 * 0.25
    ended.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(asked) > 200
    assert shown.peeks < 1000


def test_a_feed_that_hangs_is_a_502_and_holds_up_nobody_else() -> None:
    with open_market(query_timeout_s=0.2) as market:
        shown, key = Shown(market.registry), market.key()
        gate = threading.Event()

        def hang() -> Any:
            gate.wait(30)
            return VIEW

        shown.channel._peek = hang  # pyright: ignore[reportPrivateUsage]
        assert market.harness.get(LEVELS, key).status == 502
        assert market.harness.get("/api/alerts", key).status == 200
        gate.set()
        wait_until(lambda: market.harness.get(LEVELS, key).status == 200)
        assert market.levels(key)["live"]


# -- alerts


def test_an_alert_is_there_as_soon_as_it_is_posted(market: Market) -> None:
    Shown(market.registry)
    key = market.key()
    with Wire(market.harness) as wire:
        request = plain(key, "/api/alerts?symbol=ES")
        for count in range(4):
            body = json.loads(wire.ask(request).partition(b"\r\n\r\n")[2])
            assert list(body) == ["updatedAt", "count", "alerts"]
            assert (body["count"], len(body["alerts"])) == (count, count)
            market.registry.post([alert_row(count + 1)])
            time.sleep(PAUSE_S)
    assert list(body["alerts"][0]) == ["symbol", "type", "severity", "price", "ref", "message"]


def test_an_unknown_symbol_has_no_alerts(market: Market) -> None:
    Shown(market.registry)
    market.registry.post([alert_row(1)])
    for symbol in ("ZZZ", "E%00S", "A" * 3000, "%F0%9F%8C%B5"):
        reply = market.harness.get(f"/api/alerts?symbol={symbol}", market.key())
        assert (reply.status, json.loads(reply.body)["count"]) == (200, 0)
    assert json.loads(market.harness.get("/api/alerts", market.key()).body)["count"] == 1


def test_a_key_without_a_live_feed_gets_an_empty_list(market: Market) -> None:
    Shown(market.registry, owner=7, feed="his")
    market.registry.post([alert_row(1, owner=7, feed="his")])
    assert json.loads(market.harness.get("/api/alerts", market.key()).body)["alerts"] == []


def test_the_past_is_asked_for_anew_each_time(market: Market) -> None:
    key = market.key()
    with Wire(market.harness) as wire:
        request = plain(key, "/api/alerts/history?limit=2")
        for count in range(4):
            body = json.loads(wire.ask(request).partition(b"\r\n\r\n")[2])
            assert body["count"] == min(count, 2)
            market.alerts.rows.append(alert_row(count + 1))
    older = json.loads(market.harness.get("/api/alerts/history?before=2", key).body)
    assert ([alert["seq"] for alert in older["alerts"]], older["nextBefore"]) == ([1], None)
