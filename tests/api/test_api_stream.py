"""The event stream over real sockets: which events, to whom, in which order, and what happens to slow readers."""

import asyncio
import http.client
import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.harness import SECOND, known, served
from tests.api.live_harness import DAY, LIVE, Event, Market, StreamReader, make_alert
from tests.api.sample_answers import ANSWERS
from tests.timeouts import wait_until, within

from outcry.access.tiers import STREAMS_ALLOWED
from outcry.api import hub as hub_module
from outcry.api import stream_writer
from outcry.live.registry import Availability

CLOSED = Availability(live=False, reason="closed", market_ns=0, trade_date=DAY)


CL_STATE = {
    "symbol": "CL", "dataSource": "delayed", "live": False, "asOf": "2026-01-02", "reason": "no_connection",
    "invented": None,
}  # fmt: skip


@pytest.fixture
def market() -> Iterator[Market]:
    market = Market()
    market.grant("ES", "NQ")
    with served(market.harness):
        yield market


def counted_ticks(market: Market, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows by an entry at each tick of the event streams."""
    sources, ticks = market.harness.app.hub.sources, list[None]()
    refresh = sources.refresh

    async def counting() -> Any:
        ticks.append(None)
        return await refresh()

    monkeypatch.setattr(sources, "refresh", counting)
    return ticks


def open_streams(market: Market) -> int:
    """Return the number of streams whose first events are prepared."""
    return sum(not reader.opening for reader in list(market.harness.app.hub.readers))


# -- events


def test_a_stream_begins_with_everything_as_it_stands(market: Market) -> None:
    """ES is live and shared, CL has only a completed session, and the snapshot reports that GC has no data."""
    market.feed("ES")
    fired = market.alert("ES")
    key = market.harness.key()
    with market.stream(key, "/api/stream?symbols=mes,CL,GC") as stream:
        first = stream.next()
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["x-ratelimit-limit"] == "600"
        assert stream.headers["x-ratelimit-remaining"] == "599"
        assert stream.headers["x-api-tier"] == "admin"
        assert stream.headers["x-content-type-options"] == "nosniff"
        assert stream.headers["x-request-id"]
        assert stream.retry == "2000"
    assert (first.name, first.seq) == ("snapshot", fired.seq)
    assert first.data["updatedAt"] == "2026-01-02T15:04:05.123Z"
    assert (first.data["resumed"], first.data["missed"]) == (False, False)
    assert [(each["symbol"], each["dataSource"]) for each in first.data["levels"]] == [
        ("ES", "shared"),
        ("CL", "delayed"),
    ]
    assert first.data["states"] == [
        {"symbol": "ES", "dataSource": "shared", "live": True, "asOf": None, "reason": "live", "invented": True},
        CL_STATE,
        {"symbol": "GC", "dataSource": None, "live": False, "asOf": None, "reason": "no_connection", "invented": None},
    ]  # fmt: skip
    (alert,) = first.data["alerts"]
    assert {name: alert[name] for name in ("symbol", "type", "severity", "price", "ref", "key")} == {
        "symbol": "ES", "type": "ib-break-up", "severity": "critical", "price": 6900.25, "ref": "IBH",
        "key": fired.key,
    }  # fmt: skip
    assert (alert["at"], alert["session"], alert["contract"]) == (
        "2026-01-02T15:04:06.000Z",
        "rth",
        "ESH2026",
    )
    assert alert["params"] == {"ibHigh": 6900.0, "rule": "v1"}


def test_symbol_is_another_name_for_symbols(market: Market) -> None:
    """Other endpoints use `symbol`; ignoring it would open a stream of everything."""
    market.feed("NQ")
    with market.stream(market.harness.key(), "/api/stream?symbol=mes,CL") as stream:
        assert [each["symbol"] for each in stream.next().data["states"]] == ["ES", "CL"]


def test_without_symbols_everything_that_is_visible_is_told(market: Market) -> None:
    """The stream has live NQ and completed CL and ES; the operator's GC is granted to nobody."""
    market.feed("NQ")
    market.feed("GC")
    with market.stream(market.harness.key()) as stream:
        states = stream.next().data["states"]
    assert [(each["symbol"], each["dataSource"]) for each in states] == [
        ("CL", "delayed"),
        ("ES", "delayed"),
        ("NQ", "shared"),
    ]


def test_a_product_that_comes_to_be_visible_is_told_of(market: Market) -> None:
    with market.stream(market.harness.key()) as stream:
        stream.next()
        market.feed("NQ")
        state, levels = stream.next(), stream.next()
    assert (state.name, state.data["symbol"], state.data["dataSource"]) == ("state", "NQ", "shared")
    assert (levels.name, levels.data["symbol"]) == ("levels", "NQ")


def test_a_price_alone_is_a_quote_and_all_else_an_answer(market: Market) -> None:
    """The answer's `distanceTicks` depends on the price alone, so its change sends no new answer."""
    feed = market.feed("ES")
    with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
        before = stream.next().data["levels"][0]
        feed.move(price=6901.25)
        quote = stream.next()
        feed.move(poc=6895.5)
        levels = stream.next()
        feed.move(price=6902.0)
        again = stream.next()
    assert before["nakedPocs"][0]["price"] == 6890
    assert (quote.name, quote.id) == ("quote", None)
    assert quote.data == {"symbol": "ES", "lastPrice": 6901.25, "updatedAt": "2026-01-02T15:00:00.001Z"}
    assert levels.name == "levels"
    assert (levels.data["lastPrice"], levels.data["nakedPocs"][0]["price"]) == (6901.25, 6895.5)
    assert (again.name, again.data["lastPrice"]) == ("quote", 6902.0)


def test_many_trades_are_one_quote_a_tick_at_most_and_the_newest_wins(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 trades over several ticks cause at most one quote a tick, in order, and the last one is the newest."""
    assert hub_module.TICK_S == 0.25
    feed, ticks = market.feed("ES"), counted_ticks(market, monkeypatch)
    with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
        stream.next()
        before = len(ticks)
        for number in range(200):
            feed.move(price=7000.0 + number)
            time.sleep(0.005)
        prices = [stream.until("quote").data["lastPrice"]]
        while prices[-1] != 7199:
            prices.append(stream.until("quote").data["lastPrice"])
        assert len(prices) <= len(ticks) - before + 1
    assert prices == sorted(prices)


def test_alerts_are_sent_in_order_without_waiting_for_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only tick is the one at the start."""
    monkeypatch.setattr(hub_module, "TICK_S", 3600.0)
    market = Market()
    market.grant("ES")
    with served(market.harness):
        market.feed("ES")
        with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
            assert stream.next().seq == 0
            for number in range(1, 21):
                market.alert("ES")
                alert = stream.next()
                assert (alert.name, alert.seq, alert.data["seq"]) == ("alert", number, number)


def test_only_alerts_of_the_symbols_asked_for_are_told(market: Market) -> None:
    market.feed("ES")
    market.feed("NQ")
    with market.stream(market.harness.key(), "/api/stream?symbols=NQ") as stream:
        stream.next()
        market.alert("ES")
        expected = market.alert("NQ")
        assert stream.until("alert").seq == expected.seq


def test_a_feed_that_stops_answering_live_and_comes_back(market: Market) -> None:
    """States and answers are live, then closed with the completed session, then live again."""
    feed = market.feed("ES")
    with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
        stream.next()
        feed.stand(CLOSED)
        assert [stream.next(), stream.next()] == [
            Event("state", {**CL_STATE, "symbol": "ES", "reason": "closed"}, None),
            Event("levels", msgspec.to_builtins(ANSWERS["LevelsAnswer"]), None),
        ]
        feed.stand(LIVE)
        state, levels = stream.next(), stream.next()
        assert (state.data["live"], state.data["reason"], levels.data["live"]) == (True, "live", True)
        feed.stand(CLOSED)
        assert [stream.next().name, stream.next().name] == ["state", "levels"]


def test_a_new_completed_session_is_told(market: Market) -> None:
    with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
        assert stream.next().data["levels"][0]["prior"]["poc"] == 6900.25
        market.harness.query.poc = 6911.5
        market.harness.accounts.moves += 1  # the store's revision
        levels = stream.next()
    assert (levels.name, levels.data["prior"]["poc"]) == ("levels", 6911.5)


# -- reconnecting


@pytest.mark.parametrize("where", ["header", "address"])
def test_coming_back_tells_what_was_missed_and_nothing_twice(market: Market, where: str) -> None:
    """The reader knows two of five alerts: it receives 3, 4 and 5, then a snapshot."""
    market.feed("ES")
    for _ in range(5):
        market.alert("ES")
    key = market.harness.key()
    stream = (
        market.stream(key, Last_Event_ID="2")
        if where == "header"
        else market.stream(key, "/api/stream?lastEventId=2")
    )
    with stream:
        told = [stream.next() for _ in range(4)]
        market.alert("ES")
        after = stream.next()
    assert [(event.name, event.seq) for event in told] == [
        ("alert", 3),
        ("alert", 4),
        ("alert", 5),
        ("snapshot", 5),
    ]
    assert told[3].data["alerts"] == []
    assert (told[3].data["resumed"], told[3].data["missed"]) == (True, False)
    assert (after.name, after.seq) == ("alert", 6)


@pytest.mark.parametrize(
    "given_id", ["", "x", "-1", "1.5", "99999999999999999999", "٣", " ", "7", "1, 2", "0x1"]
)
def test_an_id_that_is_none_is_taken_for_none(market: Market, given_id: str) -> None:
    """This includes 7 when only two alerts were ever recorded."""
    market.feed("ES")
    market.alert("ES")
    market.alert("ES")
    sent = given_id.encode().decode("latin-1")
    with market.stream(market.harness.key(), Last_Event_ID=sent) as stream:
        first = stream.next()
    assert (first.name, first.data["resumed"], len(first.data["alerts"])) == ("snapshot", False, 2)


def test_random_disconnects_lose_and_repeat_nothing(market: Market) -> None:
    """A reader of the ES alerts among 300 disconnects repeatedly."""
    market.feed("ES")
    market.feed("NQ")
    key = market.harness.key()
    chance = random.Random(20260102)
    wanted: list[int] = []

    def post() -> None:
        for number in range(301):
            row = market.alert("ES" if number == 300 else chance.choice(["ES", "ES", "NQ"]), ref=str(number))
            if row.symbol == "ES":
                wanted.append(row.seq)
            time.sleep(chance.random() * 0.01)

    poster = threading.Thread(target=post)
    received: list[int] = []
    last: dict[str, str] = {}
    picky = random.Random(7)
    poster.start()
    over = False
    while not over:
        with market.stream(key, "/api/stream?symbols=ES", **last) as stream:
            for _ in range(picky.randrange(1, 12)):
                event = stream.next()
                fired = {"alert": [event.data], "snapshot": event.data.get("alerts", [])[::-1]}[event.name]
                received += [alert["seq"] for alert in fired]
                last = {"Last_Event_ID": event.id or ""}
                if over := "300" in [alert["ref"] for alert in fired]:
                    break
    poster.join()
    assert received == wanted


def test_what_the_registry_forgot_is_told_from_the_store() -> None:
    """A restarted service has only alert 8 in its registry; 1 to 7 are in the store, and 4 is another user's."""
    market = Market()
    market.grant("ES")
    market.feed("ES")
    market.archive.rows += [make_alert("ES", seq, owner=9 if seq == 4 else 0) for seq in range(1, 8)]
    market.alert("ES")
    with served(market.harness), market.stream(market.harness.key(), Last_Event_ID="2") as stream:
        events = [stream.next() for _ in range(6)]
        market.alert("ES")
        assert stream.next().seq == 9
    assert [(event.name, event.seq) for event in events] == [
        *(("alert", seq) for seq in (3, 5, 6, 7, 8)),
        ("snapshot", 8),
    ]


def test_a_registry_without_any_alert_asks_the_store_too() -> None:
    market = Market()
    market.grant("ES")
    market.feed("ES")
    market.archive.rows += [make_alert("ES", seq) for seq in range(1, 6)]
    with served(market.harness), market.stream(market.harness.key(), Last_Event_ID="3") as stream:
        assert [stream.next().seq for _ in range(3)] == [4, 5, 5]
        market.alert("ES")
        assert stream.next().seq == 6


@pytest.mark.parametrize("stored", [False, True])
def test_of_too_many_the_newest_thousand_are_told(stored: bool) -> None:
    """Of 1,205 missed alerts, 206 to 1,205 are sent, and the snapshot reports that some were missed.

    Its list contains today's alerts that were not sent separately: the first 205.
    """
    market = Market()
    market.grant("ES")
    market.feed("ES")
    rows = [make_alert("ES", seq) for seq in range(1, 1206)]
    market.archive.rows += rows
    market.registry.post(rows[1000:] if stored else rows)
    with served(market.harness), market.stream(market.harness.key(), Last_Event_ID="0") as stream:
        events = [stream.next() for _ in range(1001)]
    assert [event.seq for event in events[:1000]] == list(range(206, 1206))
    assert (events[1000].name, events[1000].seq, events[1000].data["missed"]) == ("snapshot", 1205, True)
    left = [alert["seq"] for alert in events[1000].data["alerts"]]
    assert left == ([] if stored else list(range(205, 0, -1)))


# -- visibility


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 3]), st.sampled_from(["ES", "NQ", "CL"])), min_size=1, max_size=30
    ),
    granted=st.sets(st.sampled_from(["ES", "NQ", "CL"]), min_size=1),
)
def test_another_users_alerts_never_arrive(rows: list[tuple[int, str]], granted: set[str]) -> None:
    """User 2 receives alerts only of its own feeds and of the operator's granted ones.

    This applies live, after reconnecting and in a snapshot.
    """
    market = Market()
    market.grant(*granted)
    key = [market.harness.key(email=f"user{number}@example.com") for number in (1, 2, 3)][1]
    for owner, root in set(rows):
        market.feed(root, owner=owner, feed=f"feed{owner}")
    with served(market.harness):
        with market.stream(key) as stream:
            stream.next()
            sent = [market.alert(root, owner=owner, feed=f"feed{owner}") for owner, root in rows]
            allowed = [r.seq for r in sent if r.owner == 2 or (r.owner == 0 and r.symbol in granted)]
            last = market.alert("ES", owner=2, feed="feed2").seq
            told: list[int] = []
            while not told or told[-1] != last:
                told.append(stream.until("alert").seq)
        assert told == [*allowed, last]
        with market.stream(key, Last_Event_ID="0") as stream:
            assert [stream.until("alert").seq for _ in told] == told
        with market.stream(key) as stream:
            shown = [alert["seq"] for alert in stream.next().data["alerts"]]
        assert set(shown) <= set(told)
        assert len(shown) >= len(allowed)


def test_ones_own_feed_goes_before_a_shared_one(market: Market) -> None:
    key = market.harness.key(email="bob@example.com")
    shared, own = market.feed("ES"), market.feed("ES", owner=1, feed="own")
    own.move(price=1.0)
    with market.stream(key, "/api/stream?symbols=ES") as stream:
        assert stream.next().data["levels"][0]["dataSource"] == "personal"
        own.stand(CLOSED)
        state = stream.until("state").data
        assert (state["dataSource"], state["reason"]) == ("shared", "live")
        shared.move(price=2.0)
        assert stream.until("quote").data["lastPrice"] == 2.0


def test_a_revoked_key_ends_its_streams(market: Market) -> None:
    key = market.harness.key()
    with market.stream(key) as stream:
        stream.next()
        market.harness.keys.revoke(key[:15], 1)
        assert [(event.name, event.data) for event in stream.rest()] == [("error", {"code": "unauthorized"})]
    wait_until(lambda: open_streams(market) == 0)


def test_a_keys_end_ends_its_streams(market: Market) -> None:
    harness = market.harness

    now_ns = harness.clock.now_ns()
    key = harness.keys.create("ann@example.com", "admin", now_ns, expires_ns=now_ns + SECOND)
    with market.stream(key) as stream:
        stream.next()
        harness.clock.at_ns += SECOND
        assert [(event.name, event.data) for event in stream.rest()] == [("error", {"code": "unauthorized"})]
    wait_until(lambda: open_streams(market) == 0)


def test_a_grant_taken_back_ends_the_live_answers_and_the_alerts(market: Market) -> None:
    """The grant for NQ is revoked: its answers and alerts end. ES continues."""
    grant = market.grant("CL")
    known(market.harness)
    feed, other = market.feed("CL"), market.feed("ES")
    with market.stream(market.harness.key(), "/api/stream?symbols=CL,ES") as stream:
        assert stream.next().data["states"][0]["live"]
        market.harness.accounts.revoke_grant(grant, 0)
        state = stream.until("state").data
        assert (state["symbol"], state["dataSource"], state["reason"]) == ("CL", "delayed", "no_connection")
        assert stream.next().data["dataSource"] == "delayed"
        feed.move(price=1.0)
        market.alert("CL")
        told = market.alert("ES")
        assert stream.next().seq == told.seq
        other.move(price=3.0)
        assert stream.next().data == {
            "symbol": "ES", "lastPrice": 3.0, "updatedAt": "2026-01-02T15:00:00.001Z"
        }  # fmt: skip


def test_while_the_database_is_unavailable_streams_send_nothing(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second without the database no key can be verified. Streams send the events once it is available."""
    feed, ticks = market.feed("ES"), counted_ticks(market, monkeypatch)

    def wait_for_ticks(count: int) -> None:
        due = len(ticks) + count
        wait_until(lambda: len(ticks) >= due)

    with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
        stream.next()
        market.harness.accounts.busy = True
        wait_until(lambda: not market.harness.app.edge.poller.fresh)
        feed.move(price=5.0)
        row = market.alert("ES")
        wait_for_ticks(2)
        feed.move(price=6.0)
        wait_for_ticks(2)
        sent = dict(market.harness.app.hub.sent)
        market.harness.accounts.busy = False
        assert "quote" not in sent
        assert "alert" not in sent
        assert stream.next().seq == row.seq
        assert stream.next().data["lastPrice"] == 6.0


# -- refusals, caps, tickets


def test_what_is_refused(market: Market) -> None:
    harness = market.harness
    key = harness.key()

    def said(path: str, method: str = "GET", key: str | None = key) -> tuple[int, str]:
        reply = harness.get(path, key, method)
        return reply.status, json.loads(reply.body)["code"]

    assert said("/api/stream", key=None) == (401, "unauthorized")
    assert said("/api/stream?symbols=ES,XXX") == (404, "unknown_symbol")
    assert said("/api/stream?symbols=ES,E%00S") == (404, "unknown_symbol")
    assert said("/api/stream?symbols=ESH6,ESM6") == (400, "invalid_parameter")
    assert said("/api/stream?symbols=ES&symbols=NQ") == (400, "invalid_parameter")
    assert said("/api/stream?symbol=ES&symbols=NQ") == (400, "invalid_parameter")
    assert said("/api/stream?symbol=ES&symbols=") == (400, "invalid_parameter")
    assert said("/api/stream?symbol=XXX") == (404, "unknown_symbol")
    assert said(f"/api/stream?symbols={','.join(f'E{n}' for n in range(201))}") == (400, "invalid_parameter")
    assert said(f"/api/stream?key={key}") == (401, "unauthorized")
    assert said("/api/stream", "POST") == (405, "method_not_allowed")
    assert said("/api/stream/ticket") == (405, "method_not_allowed")
    assert said("/api/stream/ticket", "POST", None) == (401, "unauthorized")
    ingest = harness.key(role="ingest")
    assert said("/api/stream", key=ingest) == (403, "forbidden")
    assert said("/api/stream/ticket", "POST", ingest) == (403, "forbidden")
    harness.query.failure = RuntimeError("a secret of the house")
    assert said("/api/stream?symbols=ES") == (500, "internal_error")
    assert open_streams(market) == 0


def test_head_is_the_head_alone(market: Market) -> None:
    reply = market.harness.get("/api/stream?symbols=ES", market.harness.key(), "HEAD")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"", "text/event-stream")
    assert reply.headers["x-ratelimit-remaining"] == "599"
    assert open_streams(market) == 0


def test_a_key_has_so_many_streams_and_a_refused_one_is_not_counted(market: Market) -> None:
    assert [STREAMS_ALLOWED[tier] for tier in ("free", "pro", "admin")] == [2, 10, 50]
    key, other = market.harness.key("free"), market.harness.key("free")
    ears = [market.stream(key) for _ in range(2)]
    with market.stream(key) as third:
        assert (third.status, third.headers["x-ratelimit-remaining"]) == (429, "28")
        assert third.headers["retry-after"] == "5"
        refusal = third.refusal()
    assert (refusal["code"], refusal["retry_after_ms"]) == ("rate_limited", 5000)
    with market.stream(other) as free:
        assert free.status == 200
    ears[0].close()
    wait_until(lambda: open_streams(market) == 1)
    with market.stream(key) as fourth:
        assert (fourth.status, fourth.headers["x-ratelimit-remaining"]) == (200, "27")
    ears[1].close()


def ticket(market: Market, key: str) -> str:
    reply = market.harness.get("/api/stream/ticket", key, "POST")
    said = json.loads(reply.body)
    assert (reply.status, said["expiresInSeconds"], reply.headers["cache-control"]) == (200, 30, "no-store")
    assert re.fullmatch(r"[\w-]{100,400}", said["ticket"], re.ASCII)
    return str(said["ticket"])


def refused(stream: StreamReader) -> tuple[int, str]:
    with stream:
        return stream.status, stream.refusal()["reason"]


def test_a_ticket_opens_one_stream_of_its_key(market: Market) -> None:
    market.feed("ES", owner=1, feed="own")
    key = market.harness.key("pro")
    paper = ticket(market, key)
    with market.stream(None, f"/api/stream?symbols=ES&ticket={paper}") as stream:
        assert (stream.status, stream.headers["x-api-tier"], stream.headers["x-ratelimit-remaining"]) == (
            200, "pro", "118",
        )  # fmt: skip
        assert stream.next().data["levels"][0]["dataSource"] == "personal"
        assert refused(market.stream(None, f"/api/stream?ticket={paper}")) == (401, "ticket")
    hidden = ticket(market, key)
    with market.stream(None, f"/api/stream?%74icket={hidden}") as stream:
        assert stream.status == 200
    market.harness.app.edge.access_log.flush()
    log = market.harness.log.getvalue()
    assert paper.encode() not in log
    assert hidden.encode() not in log
    assert log.count(b'"query":"[redacted]"') == 3


def test_a_ticket_grows_old_and_dies_with_its_key(market: Market) -> None:
    key = market.harness.key()
    young, old = ticket(market, key), ticket(market, key)
    market.harness.clock.at_ns += 30 * SECOND - 1
    with market.stream(None, f"/api/stream?ticket={young}") as stream:
        assert stream.status == 200
    market.harness.clock.at_ns += 1
    assert refused(market.stream(None, f"/api/stream?ticket={old}")) == (401, "ticket")
    dead = ticket(market, key)
    market.harness.keys.revoke(key[:15], 1)
    assert refused(market.stream(None, f"/api/stream?ticket={dead}")) == (401, "ticket")
    assert refused(market.stream(None, "/api/stream?ticket=made-up")) == (401, "ticket")
    tampered = ticket(market, market.harness.key())
    tampered = tampered[:-2] + ("A" if tampered[-2] != "A" else "B") + tampered[-1]
    assert refused(market.stream(None, f"/api/stream?ticket={tampered}")) == (401, "ticket")


def test_a_ticket_is_good_for_streams_only(market: Market) -> None:
    paper = ticket(market, market.harness.key())
    assert market.harness.get(f"/api/levels?symbol=ES&ticket={paper}").status == 401
    assert market.harness.get(f"/api/stream/ticket?ticket={paper}", method="POST").status == 401
    with market.stream(None, f"/api/stream?ticket={paper}") as stream:
        assert stream.status == 200


def test_a_stream_opened_with_a_ticket_ends_with_its_key(market: Market) -> None:
    key = market.harness.key()
    with market.stream(None, f"/api/stream?ticket={ticket(market, key)}") as stream:
        stream.next()
        market.harness.keys.revoke(key[:15], 1)
        assert [event.data for event in stream.rest()] == [{"code": "unauthorized"}]


# -- slow readers, many readers, the end


class Stalled:
    """Client that sends a request and does not read; the kernel buffers little for it."""

    def __init__(self, market: Market, key: str, path: str) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        # As on a real network: with loopback's 64 KB segments so small a window would open only when probed.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        self.socket.connect(("127.0.0.1", market.harness.port))
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: outcry\r\nx-api-key: {key}\r\n\r\n".encode())


def unchunked(received: bytes) -> bytes:
    """Return the body of a chunked response, as far as it is complete."""
    left, body = received.split(b"\r\n\r\n", 1)[1], b""
    while b"\r\n" in left:
        length, left = left.split(b"\r\n", 1)
        size = int(length, 16)
        body, left = body + left[:size], left[size + 2 :]
    return body


class ClosedTransport:
    """The transport of a connection that has just closed, whose stream has not noticed yet."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        raise RuntimeError("the handler is closed")


def test_a_closed_connection_does_not_delay_other_streams(market: Market) -> None:
    feed, key = market.feed("ES"), market.harness.key()
    paths = ["/api/stream?symbols=ES"] * 2
    with market.stream(key, paths[0]) as one, market.stream(key, paths[1]) as other:
        assert [stream.next().name for stream in (one, other)] == ["snapshot", "snapshot"]
        readers = market.harness.app.hub.readers
        wait_until(lambda: len(readers) == 2 and all(reader.waits for reader in readers))
        closed: Any = ClosedTransport()
        next(iter(readers)).transport = closed
        feed.move(price=6901.25)
        assert [stream.next().data["lastPrice"] for stream in (one, other)] == [6901.25, 6901.25]


def test_a_stalled_reader_costs_little_and_then_hears_the_newest(market: Market) -> None:
    """A stalled reader uses bounded memory, and then receives every alert and the newest answer.

    Answers of 40 KB change twenty times a second for three seconds, and 400 alerts follow: 2.4 MB and more in a queue.
    The process buffers less than three chunks.
    """
    feed = market.feed("ES")
    feed.pocs = 1000
    stalled = Stalled(market, market.harness.key(), "/api/stream?symbols=ES")
    wait_until(lambda: open_streams(market) == 1)
    reader = next(iter(market.harness.app.hub.readers))
    waiting: list[int] = []
    for number in range(1, 61):
        feed.move(poc=float(number))
        for _ in range(7):
            market.alert("ES")
        if reader.transport is not None:
            waiting.append(reader.transport.get_write_buffer_size())
        time.sleep(0.05)
    assert max(waiting) <= 3 * stream_writer.CHUNK_BYTES
    time.sleep(0.3)
    received = b""
    stalled.socket.settimeout(30)
    while b'"seq":420,' not in received or b'"price":60.0' not in received:
        received += stalled.socket.recv(65536)
    stalled.socket.close()
    answers = received.count(b"event: levels")
    assert answers <= 6, "old answers were kept for it"
    begun, *alerts = [int(seq) for seq in re.findall(rb"\nid: (\d+)\n", unchunked(received))]
    assert alerts == list(range(begun + 1, 421)), "the first may have come in the snapshot"


def test_a_reader_that_does_not_read_is_cut_off(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "WRITE_TIMEOUT_S", 1.0)
    feed = market.feed("ES")
    feed.pocs = 1000
    stalled = Stalled(market, market.harness.key(), "/api/stream?symbols=ES")
    wait_until(lambda: open_streams(market) == 1)
    for number in range(1200):
        feed.move(poc=float(number))
        time.sleep(0.05)
        if not open_streams(market):
            break
    assert open_streams(market) == 0
    stalled.socket.close()


def test_a_reader_far_behind_is_sent_away_to_come_back(market: Market) -> None:
    """More alerts than are kept encoded, while it does not read: the stream ends, and with its last id it goes on."""
    feed = market.feed("ES")
    feed.pocs = 1000
    key = market.harness.key()
    stalled = Stalled(market, key, "/api/stream?symbols=ES")
    wait_until(lambda: open_streams(market) == 1)
    reader = next(iter(market.harness.app.hub.readers))
    for number in range(1200):
        feed.move(poc=float(number))
        time.sleep(0.05)
        if reader.blocked_since_s and time.monotonic() - reader.blocked_since_s > 0.5:
            break
    assert reader.blocked_since_s
    for _ in range(1100):
        market.alert("ES")
    wait_until(lambda: market.harness.app.hub._seq == 1100)
    stalled.socket.settimeout(30)
    received = b""
    while part := stalled.socket.recv(65536):
        received += part
    assert reader.ended == "behind"
    assert received.endswith(b"0\r\n\r\n")
    stalled.socket.close()
    with market.stream(key, "/api/stream?symbols=ES", Last_Event_ID=str(reader.alert_cursor)) as stream:
        assert stream.next().seq > reader.alert_cursor


def test_silence_is_broken_by_comments(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hub_module, stream_writer):
        monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.4)
    assert stream_writer.KEEP_ALIVE_S != 15
    market.feed("ES")
    ticks = counted_ticks(market, monkeypatch)
    with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
        stream.next()
        wait_until(lambda: len(ticks) >= 8)  # two keep-alives are due by then
        market.alert("ES")
        stream.next()
        assert 2 <= len(stream.comments) <= len(ticks)
    assert set(stream.comments) == {": keep-alive"}


async def listen(port: int, key: str, alerts: int) -> tuple[list[int], float]:
    """Return what one of many readers receives: the alerts' ids, and the last price."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /api/stream?symbols=ES HTTP/1.1\r\nHost: outcry\r\nx-api-key: {key}\r\n\r\n".encode())
    seqs: list[int] = []
    price = 0.0
    name = ""
    while len(seqs) < alerts or price != 9999.0:
        line = (await reader.readline()).decode()
        assert line, (seqs, price)
        line = line.strip()
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("id: ") and name == "alert":
            seqs.append(int(line.removeprefix("id: ")))
        elif line.startswith("data: "):
            price = json.loads(line.removeprefix("data: ")).get("lastPrice", price)
    writer.close()
    await writer.wait_closed()
    return seqs, price


def test_two_hundred_readers_hear_the_same(market: Market) -> None:
    """Four keys with fifty streams each all receive twenty alerts and a hundred trades in order."""
    feed = market.feed("ES")
    keys = [market.harness.key() for _ in range(4)]

    def happen() -> None:
        wait_until(lambda: open_streams(market) == 200)
        for number in range(20):
            market.alert("ES")
            for trade in range(5):
                feed.move(price=7000.0 + number * 5 + trade)
            time.sleep(0.02)
        feed.move(price=9999.0)

    async def all_of_them() -> list[tuple[list[int], float]]:
        readers = [listen(market.harness.port, keys[number % 4], 20) for number in range(200)]
        return await within(asyncio.gather(*readers), 90)

    happening = threading.Thread(target=happen)
    happening.start()
    heard = asyncio.run(all_of_them())
    happening.join()
    assert all(one == (list(range(1, 21)), 9999.0) for one in heard)
    wait_until(lambda: open_streams(market) == 0)


def test_a_stopping_server_ends_streams_at_once() -> None:
    """A stream that is not read also ends; otherwise the server would wait ten minutes."""
    market = Market()
    market.grant("ES")
    feed = market.feed("ES")
    feed.pocs = 1000
    with served(market.harness, shutdown_s=600):
        stream = market.stream(market.harness.key(), "/api/stream?symbols=CL")
        stream.next()
        stalled = Stalled(market, market.harness.key(), "/api/stream")
        wait_until(lambda: open_streams(market) == 2)
        for number in range(40):
            feed.move(poc=float(number))
            time.sleep(0.05)
    assert list(stream.rest()) == []
    stream.close()
    stalled.socket.close()


def test_a_fault_of_ours_cuts_the_stream_and_is_logged(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> None:
        raise RuntimeError("a secret of the house")

    market.feed("ES")
    with market.stream(market.harness.key(), "/api/stream?symbols=ES") as stream:
        stream.next()
        (reader,) = market.harness.app.hub.readers
        monkeypatch.setattr(market.harness.app.hub, "unsent_alerts", broken)
        reader.transport = None  # so that its own task sends the alert
        market.alert("ES")
        with pytest.raises((OSError, http.client.HTTPException, EOFError)):
            stream.next()
    wait_until(lambda: open_streams(market) == 0)
    assert b"a secret of the house" in market.harness.log.getvalue()


def test_streams_are_counted(market: Market) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    market.feed("ES")
    with market.stream(market.harness.key()) as stream:
        stream.next()
        market.alert("ES")
        stream.until("alert")
        families = {
            found.name: found
            for found in text_string_to_metric_families(market.harness.get("/metrics").body.decode())
        }
    assert families["outcry_streams_open"].samples[0].value == 1
    counted = {s.labels["event"]: s.value for s in families["outcry_stream_events"].samples}
    assert (counted["snapshot"], counted["alert"]) == (1, 1)
    requests = {(s.labels["route"], s.labels["status"]) for s in families["outcry_http_requests"].samples}
    assert ("/api/stream", "200") in requests
