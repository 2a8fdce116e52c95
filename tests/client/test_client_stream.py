"""The client's event stream against a scripted server that hangs up, and against the service."""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.api.sample_answers import ANSWERS
from tests.client.scripted_stream import LEVELS, Script, alert, open_stream, server, snapshot

from outcry.cli.reading import unique_alerts
from outcry.client import AlertEntry, ApiError, AsyncClient, Client, Snapshot, Unreachable
from outcry.client.stream import Position, StreamEvent, follow, read_events
from outcry.wire.answers import LevelsAnswer
from outcry.wire.stream import Quote, State


def refused(status: int, code: str, **more: Any) -> tuple[int, dict[str, Any]]:
    return status, {"code": code, "message": "No.", "status": status, "request_id": "1", **more}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the requested pauses of the client, which are not waited for."""
    found: list[float] = []
    monkeypatch.setattr(
        "outcry.client.sync_client.follow",
        lambda connect, reconnects, _sleep: follow(connect, reconnects, found.append),
    )
    return found


def take(events: Iterator[StreamEvent], count: int) -> list[StreamEvent]:
    return list(itertools.islice(events, count))


def test_each_event_has_its_type(waits: list[float]) -> None:
    quote = (
        b'event: quote\ndata: {"symbol":"ES","lastPrice":6900.25,"updatedAt":"2026-01-05T15:00:00.000Z"}\n\n'
    )
    state = b'event: state\ndata: {"symbol":"ES","dataSource":"shared","live":true,"asOf":null,"reason":"live"}\n\n'
    said = (
        b"retry: 2000\n\n: keep-alive\n\n" + snapshot(3) + b"event: levels\ndata: " + LEVELS + b"\n\n" + quote
    )
    with server(Script(said + state + b"event: news\ndata: 1\n\n" + alert(4))) as url:
        found = take(Client(url, "a key").stream("ES", "NQ"), 5)
    assert [type(event) for event in found] == [Snapshot, LevelsAnswer, Quote, State, AlertEntry]
    assert isinstance(found[0], Snapshot)
    assert isinstance(found[4], AlertEntry)
    assert (found[0].alerts[0].seq, found[0].levels[0].symbol, found[4].seq) == (3, "ES", 4)
    assert waits == []


def test_the_key_goes_in_the_header_and_symbols_in_the_address(waits: list[float]) -> None:
    script = Script(snapshot())
    with server(script) as url:
        take(Client(url, "a key").stream("ES", "/NQ"), 1)
    assert script.paths == ["/api/stream?symbols=ES%2C%2FNQ"]
    assert (script.asked[0]["x-api-key"], script.asked[0]["accept"]) == ("a key", "text/event-stream")
    assert "last-event-id" not in script.asked[0]


def test_it_comes_back_where_it_stopped(waits: list[float]) -> None:
    """After a complete, truncated or closed stream, the client sends the id of the last complete event."""
    script = Script(
        snapshot(mark=5) + alert(6), alert(7) + alert(8)[:-20] + b"cut", None, refused(503, "starting"),
        snapshot(mark=8, resumed=True) + alert(9),
    )  # fmt: skip
    with server(script) as url:
        found = take(Client(url, "a key").stream(), 5)
    assert [getattr(event, "seq", "snapshot") for event in found] == ["snapshot", 6, 7, "snapshot", 9]
    assert [asked.get("last-event-id") for asked in script.asked] == [None, "6", "7", "7", "7"]


def test_it_waits_longer_each_time_and_forgets_that_once_it_is_served(waits: list[float]) -> None:
    passing = [refused(502, "upstream_unavailable")] * 8
    script = Script(b"retry: 1000\n\n" + snapshot(), *passing, snapshot(), None, snapshot())
    with server(script) as url:
        take(Client(url, "a key").stream(), 3)
    most = [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2]  # at most this, and at least half of it
    assert len(waits) == len(most)
    for waited, limit in zip(waits, most, strict=True):
        assert limit / 2 <= waited <= limit


def test_the_services_own_advice_on_waiting_goes_first(waits: list[float]) -> None:
    script = Script(snapshot(), refused(429, "rate_limited", retry_after_ms=45_000), snapshot())
    with server(script) as url:
        take(Client(url, "a key").stream(), 2)
    assert waits[1] == 45.0


@pytest.mark.parametrize(
    "turn", [refused(401, "unauthorized"), refused(404, "unknown_symbol"), refused(403, "forbidden")]
)
@pytest.mark.parametrize("first", [(), (snapshot(),)])
def test_what_cannot_pass_ends_it(waits: list[float], turn: Any, first: tuple[bytes, ...]) -> None:
    with server(Script(*first, turn)) as url, pytest.raises(ApiError) as caught:
        take(Client(url, "a key").stream(), 9)
    assert caught.value.code == turn[1]["code"]


def test_a_key_revoked_while_it_listens_ends_it(waits: list[float]) -> None:
    with server(Script(snapshot() + b'event: error\ndata: {"code":"unauthorized"}\n\n')) as url:
        events = Client(url, "a key").stream()
        take(events, 1)
        with pytest.raises(ApiError) as caught:
            next(events)
    assert (caught.value.code, caught.value.status) == ("unauthorized", 401)


@pytest.mark.parametrize(
    "turn",
    [None, refused(429, "rate_limited"), b"event: snapshot\ndata: {}\n\n", b"event: alert\ndata: x\n\n"],
)
def test_at_the_start_anything_wrong_is_said_at_once(waits: list[float], turn: Any) -> None:
    with server(Script(turn)) as url, pytest.raises((ApiError, Unreachable)):
        take(Client(url, "a key").stream(), 1)
    assert waits == []


def test_an_unavailable_service() -> None:
    with pytest.raises(Unreachable):
        take(Client("http://127.0.0.1:1", "a key").stream(), 1)


class Lines:
    """In-memory file for `read_events`."""

    def __init__(self, data: bytes) -> None:
        self.lines = data.splitlines(keepends=True)

    def readline(self, _most: int) -> bytes:
        return self.lines.pop(0) if self.lines else b""


@pytest.mark.parametrize(
    ("data", "marks", "count"),
    [
        (b"\n\n: comment\n\n", "", 0),
        (b"id: 4\n\n", "", 0),
        (b"event: news\nid: 4\ndata: 1\n\n", "4", 0),
        (alert(6).replace(b"\n", b"\r\n"), "6", 1),
        (alert(6).replace(b": ", b":", 2), "6", 1),
        (alert(6).replace(b'"ref"', b'\ndata: "ref"'), "6", 1),
        (alert(6)[:-1], "", 0),
        (b"nonsense\n" + alert(6), "6", 1),
        (b"\xff\xfe: \xff\n" + alert(6), "6", 1),
    ],
)
def test_lines_into_events(data: bytes, marks: str, count: int) -> None:
    position = Position()
    lines: Any = Lines(data)
    assert len(list(read_events(lines, position))) == count
    assert position.last_id == marks


def test_follow_tells_each_alert_once_oldest_first(capsys: pytest.CaptureFixture[str]) -> None:
    """A restarted service repeats today's alerts; a service that cannot repeat all reports it."""

    def events() -> Iterator[StreamEvent]:
        yield msgspec.json.decode(snapshot(3, 2, 1).split(b"data: ")[1], type=Snapshot)
        yield msgspec.json.decode(alert(4).split(b"data: ")[1], type=AlertEntry)
        yield msgspec.json.decode(snapshot(5, 4, 3, missed=True).split(b"data: ")[1], type=Snapshot)

    assert [found.seq for found in unique_alerts(events())] == [1, 2, 3, 4, 5]
    assert "alerts are missing" in capsys.readouterr().err


def test_alerts_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from outcry.cli.reading import alerts

    monkeypatch.setenv("OUTCRY_KEY", "a key")
    body = json.loads(msgspec.json.encode(ANSWERS["AlertsAnswer"]))
    script = Script((200, body), snapshot(2, 1) + alert(3), refused(401, "unauthorized"))
    monkeypatch.setattr(
        "outcry.client.sync_client.follow",
        lambda connect, reconnects, _sleep: follow(connect, reconnects, lambda _: None),
    )
    with server(script) as url:
        assert alerts("ES", url=url) == 0
        assert json.loads(capsys.readouterr().out) == body
        assert alerts(follow=True, url=url) == 1
    printed = capsys.readouterr()
    assert [json.loads(line)["seq"] for line in printed.out.splitlines()] == [1, 2, 3]
    assert "unauthorized" in printed.err
    assert script.paths == ["/api/alerts?symbol=ES", "/api/stream", "/api/stream"]


def test_alerts_command_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from outcry.cli.reading import alerts

    monkeypatch.delenv("OUTCRY_KEY", raising=False)
    assert alerts() == 2


def in_time(work: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the result of a call that may not end, within a time limit."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "nothing came in time"
    return found[0]


def test_the_service_itself() -> None:
    from tests.api.harness import served
    from tests.api.live_harness import Market

    market = Market()
    market.grant()
    feed = market.feed("ES")
    market.alert("ES")
    with served(market.harness):
        events = Client(f"http://127.0.0.1:{market.harness.port}", market.harness.key()).stream("ES")
        first = in_time(lambda: next(events))
        assert isinstance(first, Snapshot)
        assert ([a.seq for a in first.alerts], [answer.symbol for answer in first.levels]) == ([1], ["ES"])
        market.alert("ES")
        first_alert = in_time(lambda: next(event for event in events if isinstance(event, AlertEntry)))
        assert (first_alert.seq, first_alert.params["ibHigh"]) == (2, 6900.0)
        feed.move(price=6901.5)
        quote = in_time(lambda: next(event for event in events if isinstance(event, Quote)))
        assert quote.last_price == 6901.5


def take_async(url: str, count: int, **options: Any) -> list[StreamEvent]:
    """Take events of an asynchronous stream, and close it."""

    async def work() -> list[StreamEvent]:
        found: list[StreamEvent] = []
        async with AsyncClient(url, "a key") as client:
            events = client.stream("ES", **options)
            async for event in events:
                found.append(event)
                if len(found) == count:
                    break
            await events.aclose()
        return found

    return asyncio.run(work())


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.client.stream._FIRST_DELAY_S", 0.001)


@pytest.mark.usefixtures("no_pauses")
def test_an_asynchronous_stream_comes_back_where_it_stopped() -> None:
    """After a truncated or closed stream and a restart of the service, it sends the id of the last complete event."""
    script = Script(
        snapshot(mark=5) + alert(6) + alert(7)[:-20] + b"cut", None,
        refused(429, "rate_limited", retry_after_ms=1), refused(503, "starting"),
        snapshot(mark=6, resumed=True) + alert(7),
    )  # fmt: skip
    with server(script) as url:
        found = take_async(url, 4)
    assert [getattr(event, "seq", "snapshot") for event in found] == ["snapshot", 6, "snapshot", 7]
    assert [asked.get("last-event-id") for asked in script.asked] == [None, "6", "6", "6", "6"]


def test_a_stream_resumes_after_a_given_event() -> None:
    script = Script(snapshot(mark=9, resumed=True), snapshot(mark=9, resumed=True))
    with server(script) as url:
        take_async(url, 1, last_id="9")
        with Client(url, "a key") as client:
            take(client.stream("ES", last_id="9"), 1)
    assert [asked.get("last-event-id") for asked in script.asked] == ["9", "9"]


@pytest.mark.parametrize("turn", [refused(401, "unauthorized"), refused(429, "rate_limited"), None])
def test_an_asynchronous_stream_that_cannot_begin_is_an_error(turn: Any) -> None:
    with server(Script(turn)) as url, pytest.raises((ApiError, Unreachable)):
        take_async(url, 1)


def test_a_cancelled_stream_ends_while_it_waits() -> None:
    """Its thread ends too, although the service sends nothing more."""
    before = threading.active_count()

    async def work(url: str) -> None:
        async with AsyncClient(url, "a key") as client:
            arrived = asyncio.Event()

            async def follow_events() -> None:
                async for _ in client.stream():
                    arrived.set()

            task = asyncio.create_task(follow_events())
            await arrived.wait()
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with open_stream(snapshot()) as url:
        in_time(lambda: asyncio.run(work(url)) or True)
        until = time.monotonic() + 30
        while (
            threading.active_count() > before + 2 and time.monotonic() < until
        ):  # the server has two of its own
            time.sleep(0.01)
        assert threading.active_count() <= before + 2
