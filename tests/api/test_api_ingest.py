"""Pushing a feed over HTTP: permissions, acknowledgement, refusals, and failures on the way."""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tests.api.harness import Harness, Reply, build_harness, served
from tests.timeouts import wait_until

from outcry.access.licences import Licences
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.agent import pusher
from outcry.agent.pusher import Pusher
from outcry.agent.sender import Sender
from outcry.api.app import Options, Services, create_app
from outcry.client import ApiError, Unreachable
from outcry.feeds import push_queue, pushed
from outcry.feeds.pushed import PushedFeed, PushedFeeds
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Backfill,
    CaughtUp,
    Cursor,
    Ended,
    Event,
    FeedCaps,
    FeedLost,
    Heartbeat,
    Resume,
    Trades,
)
from outcry.trades.push_format import MEDIA_TYPE, MOST_BODY_BYTES, Push, write_push
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

UNIVERSE = load_reference().universe
ES, NQ = Contract("ES", 2013, 12), Contract("NQ", 2013, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False, own_clock=True)
START_NS = 1_381_239_000_000_000_000
MS = 1_000_000
PATH = "/api/ingest?feed=replay"


def trades(first: int, count: int = 1) -> Trades:
    """Generate trades from `first` on: the `n`-th at price `n`, `n` milliseconds after the start."""
    rows = np.zeros(count, LIVE_TRADE)
    numbers = np.arange(first, first + count)
    rows["price"], rows["size"], rows["side"] = numbers, 1, b"N"
    rows["ts_event"] = rows["ts_recv"] = START_NS + numbers * MS
    return Trades(rows)


def push(first: int, *events: Event, contract: Contract = ES, session: str = "a" * 20) -> bytes:
    return write_push(Push(session, contract, CAPS, first, events))


@dataclass
class Reader:
    """Reads pushed feeds to their end as the service does, and resumes after a lost connection."""

    feeds: PushedFeeds = field(default_factory=lambda: PushedFeeds(UNIVERSE))
    reply: dict[tuple[int, str, Contract], list[Event]] = field(default_factory=dict)
    paused: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.feeds.subscribe(self._begin)

    def _begin(self, owner: int, feed: PushedFeed, contract: Contract) -> None:
        events = self.reply.setdefault((owner, feed.name, contract), [])
        if not self.paused:
            task = asyncio.get_running_loop().create_task(self._read(feed, contract, events))
            self.tasks.add(task)

    async def _read(self, feed: PushedFeed, contract: Contract, events: list[Event]) -> None:
        lost = True
        while lost:
            try:
                async for event in feed.open(contract, Cursor(0)):
                    events.append(event)  # noqa: PERF401 - seen while it goes on
                lost = False
            except FeedLost as problem:
                lost = problem.retry

    def numbers(self, owner: int, contract: Contract = ES) -> list[int]:
        events = self.reply[owner, "replay", contract]
        return [n for event in events if isinstance(event, Trades) for n in event.rows["price"].tolist()]


def taking(harness: Harness, reader: Reader | None) -> Harness:
    """Start the service with a reader of pushed feeds."""
    services = Services(
        harness.query, harness.keys, Licences(harness.accounts), SlidingWindowLimiter(harness.steady.now_ns),
        harness.clock, pushes=reader.feeds if reader else None,
    )  # fmt: skip
    harness.app = create_app(services, Options(log=harness.log))
    return harness


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def harness(reader: Reader) -> Iterator[Harness]:
    with served(taking(build_harness(), reader)) as running:
        yield running
        reader.feeds.close()


def ingest_key(harness: Harness, email: str = "ann@example.com") -> str:
    return harness.keys.create(email, "free", 0, role="ingest")


def post(harness: Harness, key: str | None, body: bytes, path: str = PATH, media: str = MEDIA_TYPE) -> Reply:
    return harness.get(path, key, "POST", {"content-type": media}, body)


def refusal(reply: Reply) -> tuple[int, str, str]:
    body = json.loads(reply.body)
    return reply.status, body.get("code", ""), body.get("reason", "")


def test_a_pusher_cannot_say_that_its_trades_are_invented(harness: Harness, reader: Reader) -> None:
    """Only the service's own simulator may mark trades as simulated."""
    caps = replace(CAPS, invented=True)
    body = write_push(Push("a" * 20, ES, caps, 0, (trades(1),)))
    assert refusal(post(harness, ingest_key(harness), body)) == (422, "invalid_request", "caps")
    assert not reader.reply


def test_a_push_is_taken_as_its_keys_user(harness: Harness, reader: Reader) -> None:
    """Ann is user 1 and Ben user 2; the operator's feeds belong to user 0."""
    keys = [ingest_key(harness), ingest_key(harness, "ben@example.com")]
    keys.append(harness.keys.create("operator", "free", 0, role="ingest-operator"))
    for key in keys:
        reply = post(harness, key, push(0, CaughtUp(START_NS, Quality.TICKS), trades(1, 3)))
        assert (reply.status, json.loads(reply.body)) == (200, {"next": 2})
        assert {"x-ratelimit-limit", "x-api-tier", "x-request-id", "content-security-policy"} <= set(
            reply.headers
        )
    assert {owner for owner, _, _ in reader.reply} == {0, 1, 2}
    assert reader.numbers(1) == [1, 2, 3]


def test_pushes_are_not_counted_but_refused_requests_are(harness: Harness, reader: Reader) -> None:
    key, read = ingest_key(harness), harness.key("free")
    for number in range(60):  # twice the tier's limit per minute
        reply = post(harness, key, push(number, trades(number)))
        assert (reply.status, reply.headers["x-ratelimit-remaining"]) == (200, "30")
    assert reader.numbers(1) == list(range(60))
    for _ in range(30):
        assert refusal(post(harness, read, b""))[:2] == (403, "forbidden")
    assert refusal(post(harness, read, b""))[:2] == (429, "rate_limited")


def test_only_a_key_made_for_it_pushes_and_it_does_nothing_else(harness: Harness, reader: Reader) -> None:
    key = ingest_key(harness)
    body = push(0, trades(1))
    assert refusal(post(harness, None, body)) == (401, "unauthorized", "missing")
    assert refusal(post(harness, key[:-1], body)) == (401, "unauthorized", "malformed")
    assert refusal(post(harness, harness.key("admin"), body))[:2] == (403, "forbidden")
    assert refusal(harness.get("/api/levels?symbol=ES", key))[:2] == (403, "forbidden")
    for method in ("GET", "PUT", "DELETE"):
        reply = harness.get(PATH, key, method)
        assert (reply.status, reply.headers["allow"]) == (405, "POST")
    harness.keys.revoke(key[:15], 0)
    assert refusal(post(harness, key, body))[:3] == (401, "unauthorized", "revoked")
    assert not reader.reply


def test_a_key_made_this_instant_by_another_process_is_known(harness: Harness) -> None:
    """Its row is in the store, but this service was not notified."""
    other = type(harness.keys)(harness.accounts, b"a secret only the tests know", harness.clock)
    key = other.create("ann@example.com", "free", 0, role="ingest")
    assert post(harness, key, push(0, trades(1))).status == 200


@pytest.mark.parametrize(
    ("path", "media", "body", "reason"),
    [
        (PATH, "application/json", push(0), "media_type"),
        (PATH, "", push(0), "media_type"),
        (PATH, MEDIA_TYPE, b"nonsense", "unreadable"),
        (PATH, MEDIA_TYPE, b"", "unreadable"),
        (PATH, MEDIA_TYPE, push(0, Trades(np.zeros(1, LIVE_TRADE))), "times"),
        (PATH, MEDIA_TYPE, push(1, trades(1)), "hole"),
        ("/api/ingest", MEDIA_TYPE, push(0), "feed"),
        ("/api/ingest?feed=simulator", MEDIA_TYPE, push(0), "feed"),
        ("/api/ingest?feed=..%2Fx", MEDIA_TYPE, push(0), "feed"),
    ],
)  # fmt: skip
def test_what_is_not_of_its_form_is_refused_and_nothing_of_it_kept(
    harness: Harness, reader: Reader, path: str, media: str, body: bytes, reason: str
) -> None:
    key = ingest_key(harness)
    assert refusal(post(harness, key, body, path, media)) == (422, "invalid_request", reason)
    assert not reader.reply
    assert post(harness, key, push(0, trades(1))).status == 200


def test_a_hole_says_what_comes_next(harness: Harness) -> None:
    key = ingest_key(harness)
    post(harness, key, push(0, trades(1), trades(2)))
    reply = post(harness, key, push(3, trades(4)))
    body = json.loads(reply.body)
    assert (reply.status, body["reason"], body["next"]) == (422, "hole", 2)
    assert body["message"] == "The server is missing events from before this push. Continue with event 2."


def test_a_large_push_is_taken_and_one_too_large_is_not(harness: Harness, reader: Reader) -> None:
    """90,000 trades of 42 bytes are 3.8 million bytes; 4 MiB are 4.2 million."""
    key = ingest_key(harness)
    assert json.loads(post(harness, key, push(0, trades(0, 90_000))).body) == {"next": 1}
    assert reader.numbers(1) == list(range(90_000))
    connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=60)
    headers = {"x-api-key": key, "content-type": MEDIA_TYPE, "content-length": str(MOST_BODY_BYTES + 1)}
    connection.request("POST", PATH, headers=headers)  # the head alone suffices for a refusal
    assert json.loads(connection.getresponse().read())["reason"] == "too_large"
    connection.close()
    assert post(harness, key, push(1, trades(90_000))).status == 200


@pytest.mark.parametrize("at_once", [1, 8, 100])
def test_a_chunked_push_without_end_is_refused_as_too_large(
    harness: Harness, reader: Reader, at_once: int
) -> None:
    """100 chunks of 64 KiB, `at_once` of them per write, so that the service reads them in small or large blocks."""
    key = ingest_key(harness)
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\ncontent-type: {MEDIA_TYPE}\r\n"
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", harness.port), timeout=60) as client:
        client.sendall(head.encode() + b"transfer-encoding: chunked\r\n\r\n")
        # The service answers and closes before the last chunk.
        with suppress(BrokenPipeError, ConnectionResetError):
            for first in range(0, 100, at_once):
                client.sendall(chunk * min(at_once, 100 - first))
        try:
            response = client.recv(65_536)
        except ConnectionResetError:  # closed with chunks unread, which discards the response
            response = b""
    assert not response or b"too_large" in response
    assert not reader.reply


def test_without_live_feeds_there_is_no_such_address() -> None:
    with served(taking(build_harness(), None)) as harness:
        assert refusal(post(harness, harness.key(), push(0)))[:2] == (404, "not_found")
        assert refusal(post(harness, ingest_key(harness), push(0)))[:2] == (404, "not_found")


def test_an_answer_waits_until_the_events_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unread push waits and a second one is refused as retryable.

    After the first disconnects, the same push may be repeated at once; a stopping service ends waiting pushes.
    """
    monkeypatch.setattr(pushed, "WAIT_S", 3600.0)
    reader = Reader(paused=True)
    with served(taking(build_harness(), reader)) as harness:
        key = ingest_key(harness)
        body = push(0, trades(1))
        wire = socket.create_connection(("127.0.0.1", harness.port), timeout=60)
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        wire.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: reader.reply)
        reply = post(harness, key, body)
        assert refusal(reply)[:2] == (429, "rate_limited")
        assert (reply.headers["retry-after"], json.loads(reply.body)["retry_after_ms"]) == ("1", 500)
        wire.close()
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(post, harness, key, body)
            while wait([waiting], 0.5).done:  # the service may not have noticed the disconnection yet
                assert refusal(waiting.result())[:2] == (429, "rate_limited")
                waiting = thread.submit(post, harness, key, body)
            reader.feeds.close()  # a waiting push does not last until its limit of an hour
            assert refusal(waiting.result())[:2] == (502, "upstream_unavailable")


# -- the pusher


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pusher, "FIRST_PAUSE_S", 0.005)
    monkeypatch.setattr(pusher, "LONGEST_PAUSE_S", 0.05)


class Cutter:
    """Proxy between a pusher and its service that cuts each connection after some bytes in either direction."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        self._port, self._cuts = port, cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            left = self._cuts.pop(0) if self._cuts else 10**9
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self._port))
            budget = [left]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(a, b, budget), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket, budget: list[int]) -> None:
        try:
            while data := source.recv(4096):
                data = data[: max(budget[0], 0)]
                target.sendall(data)
                budget[0] -= len(data)
                if budget[0] <= 0:  # negative if both directions used up the rest at once
                    break
        except OSError:
            pass
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def close(self) -> None:
        self._listener.close()


@contextmanager
def pushing(port: int, key: str, **more: float) -> Iterator[Pusher]:
    one = Pusher(f"http://127.0.0.1:{port}", key, "replay", CAPS, **more)
    try:
        yield one
    finally:
        one.close()


@pytest.mark.usefixtures("quick")
def test_whatever_breaks_on_the_way_every_event_arrives_once_and_in_order(
    harness: Harness, reader: Reader
) -> None:
    """40 connections are cut after 40, 140, 240 … bytes: in heads, in bodies, in answers and right after them."""
    cutter = Cutter(harness.port, [40 + 100 * n for n in range(40)])
    with pushing(cutter.port, ingest_key(harness), patience_s=20) as one:
        one.push(ES, [CaughtUp(START_NS, Quality.TICKS)])
        for number in range(0, 300, 3):
            one.push(ES, [trades(number), trades(number + 1), trades(number + 2)])
            if number % 30 == 0:
                one.push(NQ, [trades(number)])
                one.beat(ES)
        one.push(ES, [Ended(START_NS)])
    cutter.close()
    assert cutter.connections > 40
    assert reader.numbers(1) == list(range(300))
    assert reader.numbers(1, NQ) == list(range(0, 300, 30))
    assert sum(isinstance(event, CaughtUp) for event in reader.reply[1, "replay", ES]) == 1


@pytest.mark.usefixtures("quick")
def test_a_service_started_anew_gets_the_last_seconds_again_and_is_told_where_they_end() -> None:
    """After a restart the pusher resends five seconds, then marks history as complete.

    Trades are a millisecond apart and batches have 500, so the last five seconds before trade 10,000 start at trade
    4,999 or up to a batch earlier. Trades 10,000 to 10,499 are new.
    """
    first, second = Reader(), Reader()
    harness = build_harness()
    key = ingest_key(harness)
    with served(taking(harness, first)), pushing(harness.port, key) as one:
        one.push(ES, [CaughtUp(START_NS, Quality.TICKS)])
        for number in range(0, 10_000, 500):
            one.push(ES, [trades(number, 500)])
        assert first.numbers(1) == list(range(10_000))
        first.feeds.close()
        again = taking(build_harness(), second)
        again.keys.create("ann@example.com", "free", 0, role="ingest")
        with served(again):
            one._sender.close()
            one._sender = Sender(f"http://127.0.0.1:{again.port}", ingest_key(again))
            one.push(ES, [trades(10_000, 500), Ended(START_NS)])
        found = second.reply[1, "replay", ES]
        (at,) = (place for place, event in enumerate(found) if isinstance(event, CaughtUp))
        repeated = [
            n for event in found[:at] if isinstance(event, Trades) for n in event.rows["price"].tolist()
        ]
        assert repeated == list(range(repeated[0], 10_000 + (500 if len(found) - at == 2 else 0)))
        assert 4_499 <= repeated[0] <= 4_999
        assert second.numbers(1)[-500:] == list(range(10_000, 10_500))
        second.feeds.close()


@pytest.mark.usefixtures("quick")
def test_a_pusher_gives_up_where_it_is_refused_or_not_answered(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pusher, "FIRST_PATIENCE_S", 0.3)
    with pushing(harness.port, harness.key()) as one, pytest.raises(ApiError) as refused:
        one.push(ES, [trades(1)])
    assert refused.value.code == "forbidden"
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pushing(port, "outcry_x") as one, pytest.raises(Unreachable, match="does not respond"):
        one.push(ES, [trades(1)])
    for url in ("ftp://x", "http://", "http://x/?a=b", "nonsense"):
        with pytest.raises(ValueError, match="not a base URL"):
            Pusher(url, "outcry_x", "replay", CAPS)


@pytest.mark.usefixtures("quick")
def test_a_run_that_was_killed_is_waited_out(
    harness: Harness, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_queue, "SILENCE_S", 3.0)
    key = ingest_key(harness)
    with pushing(harness.port, key) as killed:
        killed.push(ES, [trades(1)])
    refused = post(harness, key, push(0, trades(2), session="b" * 20))
    assert refusal(refused) == (422, "invalid_request", "occupied")  # while the killed run may still push
    with pushing(harness.port, key) as one:
        one.push(ES, [trades(2)])
    assert reader.numbers(1) == [1, 2]


@pytest.mark.usefixtures("quick")
def test_goodbye_ends_what_is_there_and_a_stop_ends_a_push_in_vain() -> None:
    reader = Reader()
    with served(taking(build_harness(), reader)) as harness:
        with pushing(harness.port, ingest_key(harness)) as one:
            one.push(ES, [trades(5)])
            one.push(NQ, [Heartbeat(START_NS), Ended(START_NS)])
            one.bye()
            one.bye()
        assert reader.reply[1, "replay", ES][-1] == Ended(START_NS + 5 * MS)
        assert reader.reply[1, "replay", NQ] == [Heartbeat(START_NS), Ended(START_NS)]
        reader.feeds.close()
        with pushing(harness.port, ingest_key(harness)) as one, ThreadPoolExecutor(1) as thread:
            one._worked = True  # it would retry for two minutes
            vain = thread.submit(one.push, ES, [trades(6)])
            time.sleep(0.1)
            one.stop()
            with pytest.raises(ApiError):
                vain.result(30)
