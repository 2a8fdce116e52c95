"""The agent with feeds that break, repeat, refuse and send wrong data, and a service on a real socket."""

import asyncio
import errno
import io
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.e2e.test_replay_command import Service, serving
from tests.timeouts import until

from outcry.agent.agent import Agent, Source
from outcry.agent.feed_runner import MarketContext
from outcry.agent.http_transport import HttpTransport, ServiceEndpoint
from outcry.agent.spool import Spool
from outcry.agent.spooled_queue import SpooledQueue
from outcry.cli.agent_words import table
from outcry.live.file_log import FileLog
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    OVERLAP_NS,
    Backfill,
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    LoginRefused,
    Resume,
    Status,
    Trades,
)
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

REFERENCE = load_reference()
SECOND = 1_000_000_000
NOW_NS = 1_795_186_800_000_000_000  # Friday 2026-11-20 15:00 UTC: the regular session is open
#: When Thursday's overnight session opened: Wednesday's regular close, 21:15 UTC.
THURSDAY_BEGINS_NS = 1_795_036_500_000_000_000
ES, NQ = Contract("ES", 2026, 12), Contract("NQ", 2026, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 2**62, Resume.BY_TIME, False)
#: A run of a feed: its events, and the error that ends it; a run without an error stays open and idle.
Opening = Sequence[Event | Exception]


class Stopped:
    def now_ns(self) -> int:
        return NOW_NS


class Scripted:
    """Feed that sends one script each time it is opened; `asked`: the cursors it was opened with."""

    run = ""

    def __init__(self, script: dict[Contract, list[Opening]], caps: FeedCaps = CAPS) -> None:
        self.name, self.caps, self._script = "scripted", caps, script
        self.asked: list[int] = []
        self.closed = False

    async def contracts(self) -> list[Contract]:
        return list(self._script)

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        self.asked.append(since.since_ns)
        openings = self._script[contract]
        for what in openings.pop(0) if openings else ():
            if isinstance(what, Exception):
                raise what
            yield what
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True


def trades(*seconds: float, price: int = 6000, caps_ns: int = 0) -> Trades:
    """Return a trade at each of these numbers of seconds before the current time."""
    rows = np.zeros(len(seconds), LIVE_TRADE)
    rows["ts_event"] = rows["ts_recv"] = [NOW_NS - round(ago * SECOND) + caps_ns for ago in seconds]
    rows["price"], rows["size"], rows["side"] = price * SECOND, 1, b"N"
    return Trades(rows)


class Play:
    """An agent with its feeds, and the events that the service received from each."""

    def __init__(self, service: Service, folder: Path, key: str, feeds: dict[str, Scripted]) -> None:
        self.service, self.feeds = service, feeds
        self._log = FileLog(folder)
        market = MarketContext(REFERENCE.universe, REFERENCE.calendar, Stopped())
        self.log_lines: list[tuple[str, dict[str, object]]] = []
        self.agent = Agent(
            [Source(name, feed) for name, feed in feeds.items()], Spool(self._log, folder, 1 << 30),
            HttpTransport(ServiceEndpoint(service.url, key)), market,
            lambda event, **more: self.log_lines.append((event, more)), speedup=20.0,
        )  # fmt: skip

    def events(self, name: str, contract: Contract = ES) -> list[Event]:
        return list(self.service.got.get((1, name, contract), []))

    async def __aenter__(self) -> "Play":
        self._log_lock = self._log.exclusively()
        self._log_lock.__enter__()
        self._running = asyncio.create_task(self.agent.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        self._log_lock.__exit__(None, None, None)


def played(
    folder: Path, feeds: dict[str, Scripted], test: Callable[[Play], Coroutine[Any, Any, None]]
) -> None:
    async def work(service: Service, key: str) -> None:
        async with Play(service, folder / "spool", key, feeds) as play:
            await test(play)
        assert all(feed.closed for feed in feeds.values())
        assert len(asyncio.all_tasks()) == 1

    with serving(folder / "data") as service:
        key = service.installation.keys.create("ann@example.com", "free", 0, role="ingest")
        asyncio.run(work(service, key))


def ages(events: list[Event]) -> list[float]:
    """Return the seconds before the current time of every trade received."""
    rows = [event.rows["ts_event"].tolist() for event in events if isinstance(event, Trades)]
    return [(NOW_NS - at_ns) / SECOND for some in rows for at_ns in some]


CAUGHT_UP = CaughtUp(NOW_NS, Quality.TICKS)
STANDS = Status(subscribed=True, code="subscribed")


def test_repeats_are_sent_once_and_a_repaired_stream_is_reported(
    tmp_path: Path,
) -> None:
    """Repeated trades are sent once, and a third identical trade counts.

    The feed sends two equal trades before the break. Afterwards it repeats its last two seconds, with one more
    identical trade. It is reopened two seconds before the newest trade; older rows are omitted.
    """
    early = CaughtUp(NOW_NS - 9 * SECOND, Quality.TICKS)
    feed = Scripted(
        {
            ES: [
                [STANDS, trades(20), early, trades(5, 4, 4), FeedLost("link_silent", "nothing came")],
                [STANDS, Heartbeat(NOW_NS), trades(9, 5, 4, 4, 4, 3), CAUGHT_UP, trades(1)],
            ]
        }
    )

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("mine"))[-1:] == [1])
        await until(lambda: play.agent.followers[StreamKey(0, "mine", ES)].queue.waiting == 0)
        events = play.events("mine")
        assert ages(events) == [20, 5, 4, 4, 4, 3, 1]
        # The contract that the session is compared with is requested too.
        assert feed.asked[0] == THURSDAY_BEGINS_NS
        assert feed.asked[1] == NOW_NS - 4 * SECOND - OVERLAP_NS
        statuses = [event for event in events if isinstance(event, Status)]
        assert statuses == [STANDS, Status(subscribed=False, code="link_silent", text="nothing came"), STANDS]
        assert events.index(CAUGHT_UP) < max(at for at, event in enumerate(events) if event == STANDS)
        assert Heartbeat(NOW_NS) not in events  # history was still pending then
        assert not any(isinstance(event, Gap) for event in events)

    played(tmp_path, {"mine": feed}, test)


def test_a_refused_login_stops_that_feed_and_no_other(tmp_path: Path) -> None:
    refused = LoginRefused("login_refused", "not these")
    bad = Scripted({ES: [[refused]], NQ: [[refused]]})
    good = Scripted({ES: [[STANDS, trades(3), CAUGHT_UP, trades(1)]]})

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("good")) == [3, 1])
        await until(lambda: play.events("bad") and play.events("bad", NQ))
        for contract in (ES, NQ):
            assert play.events("bad", contract) == [
                Status(subscribed=False, code="login_refused", text="not these")
            ]
            seen = play.agent.followers[StreamKey(0, "bad", contract)].status
            assert (seen.phase, seen.code) == ("needs_sign_in", "login_refused")
        await asyncio.sleep(0.3)  # pauses are hundredths of a second
        assert len(bad.asked) == 2
        assert play.agent.followers[StreamKey(0, "good", ES)].status.phase == "live"
        shown = Console(width=200, file=io.StringIO(), record=True)
        shown.print(table(play.agent))
        lines = shown.export_text().splitlines()
        assert [line.split()[:3] for line in lines[1:4]] == [
            ["bad", "ESZ2026", "needs"], ["bad", "NQZ2026", "needs"], ["good", "ESZ2026", "live"],
        ]  # fmt: skip
        assert "Correct them in the file" in lines[1]
        assert "connected" in lines[4]

    played(tmp_path, {"bad": bad, "good": good}, test)


def test_a_contract_that_is_refused_leaves_the_others_alone(tmp_path: Path) -> None:
    feed = Scripted({ES: [[FeedRefused("not_entitled")]], NQ: [[STANDS, CAUGHT_UP, trades(1)]]})

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("mine", NQ)) == [1])
        await until(lambda: play.events("mine"))
        assert [event.code for event in play.events("mine") if isinstance(event, Status)] == ["not_entitled"]

    played(tmp_path, {"mine": feed}, test)


def test_what_a_feed_cannot_bring_again_is_a_gap(tmp_path: Path) -> None:
    caps = FeedCaps(1, False, True, Backfill.NONE, 0, Resume.NONE, False)
    early = CaughtUp(NOW_NS - 60 * SECOND, Quality.TICKS)
    script: list[Opening] = [
        [STANDS, early, trades(50), FeedLost("disconnected")],
        [STANDS, CAUGHT_UP, trades(0)],
    ]
    feed = Scripted({ES: script}, caps)

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("mine")) == [50, 0])
        gaps = [event for event in play.events("mine") if isinstance(event, Gap)]
        assert gaps == [
            Gap(THURSDAY_BEGINS_NS, NOW_NS - 60 * SECOND, "no history"),
            Gap(NOW_NS - 50 * SECOND, NOW_NS, "reconnect"),
        ]
        # Through the agent the feed can resume by time, so a service that restarts records no gap.
        assert {queue.caps.resume for queue in play.agent.spool.queues.values()} == {Resume.BY_TIME}

    played(tmp_path, {"mine": feed}, test)


def test_rows_that_cannot_be_are_set_aside_and_hold_nothing_up(tmp_path: Path) -> None:
    """Rows from 1970, from tomorrow and with an impossible price are rejected; valid rows continue."""
    odd = trades(3, 2, 1, 0.5, 0.25)
    odd.rows["ts_event"][1] = 5
    odd.rows["ts_event"][2] = NOW_NS + 86_400 * SECOND
    odd.rows["price"][3] = 2**62
    feed = Scripted({ES: [[STANDS, CAUGHT_UP, odd, Heartbeat(5), trades(0)]]})

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("mine")) == [3, 0.25, 0])
        assert play.agent.followers[StreamKey(0, "mine", ES)].status.set_aside == 4

    played(tmp_path, {"mine": feed}, test)


def test_a_feed_that_the_service_runs_itself_is_refused_and_spooled(tmp_path: Path) -> None:
    feed = Scripted({ES: [[STANDS, CAUGHT_UP, trades(1)]]})

    async def test(play: Play) -> None:
        await until(lambda: play.agent.sender.refused.get(StreamKey(0, "mine", ES)) == "connected")
        assert play.agent.followers[StreamKey(0, "mine", ES)].queue.waiting == 3

    async def work(service: Service, key: str) -> None:
        service.pushes._reserved_of = lambda owner: {"mine"} if owner == 1 else ()
        async with Play(service, tmp_path / "spool", key, {"mine": feed}) as play:
            await test(play)

    with serving(tmp_path / "data") as service:
        key = service.installation.keys.create("ann@example.com", "free", 0, role="ingest")
        asyncio.run(work(service, key))


def test_what_was_left_of_a_feed_that_is_not_run_any_more_is_sent(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "spool")
    with log.exclusively():
        queue = Spool(log, tmp_path / "spool", 1 << 30).queue(StreamKey(0, "former", ES), CAPS)
        queue.add(trades(7))
    feed = Scripted({ES: [[STANDS, CAUGHT_UP]]})

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("former")) == [7])
        await until(lambda: not (tmp_path / "spool" / "0" / "former" / ES.key).exists())

    played(tmp_path, {"mine": feed}, test)


def test_a_feed_that_meets_a_fault_of_its_own_is_opened_again(tmp_path: Path) -> None:
    feed = Scripted({ES: [[STANDS, RuntimeError("a bug")], [STANDS, CAUGHT_UP, trades(1)]]})

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("mine")) == [1])
        assert "stream_failed" in [event for event, _ in play.log_lines]

    played(tmp_path, {"mine": feed}, test)


class Shy(Scripted):
    """Feed that cannot list its contracts at first."""

    faults = 3

    async def contracts(self) -> list[Contract]:
        if self.faults:
            self.faults -= 1
            raise RuntimeError("not now")
        return await super().contracts()


def test_a_feed_that_cannot_say_its_contracts_is_asked_again(tmp_path: Path) -> None:
    """The agent retries the list of contracts, and starts even if events of this feed remain from an earlier start."""
    log = FileLog(tmp_path / "spool")
    with log.exclusively():
        Spool(log, tmp_path / "spool", 1 << 30).queue(StreamKey(0, "mine", NQ), CAPS).add(trades(7))
    feed = Shy({ES: [[STANDS, CAUGHT_UP, trades(1)]]})

    async def test(play: Play) -> None:
        await until(lambda: ages(play.events("mine")) == [1])
        assert [event for event, _ in play.log_lines].count("feed_failed") == 3

    played(tmp_path, {"mine": feed}, test)


def test_a_spool_that_cannot_be_opened_is_opened_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, tries = Spool.queue, []

    def busy(spool: Spool, key: StreamKey, caps: FeedCaps) -> SpooledQueue:
        tries.append(key)
        if len(tries) < 3:
            raise OSError(errno.EMFILE, "too many open files")
        return usual(spool, key, caps)

    async def test(play: Play) -> None:
        await until(lambda: any(isinstance(event, Trades) for event in play.events("mine")))
        assert [event for event, _ in play.log_lines].count("spool_unreadable") == 2

    monkeypatch.setattr(Spool, "queue", busy)
    played(tmp_path, {"mine": Scripted({ES: [[trades(3)]]})}, test)


def test_a_full_disk_is_said_and_held_up_by_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is full, events pass through memory; once there is space, they are written to disk."""
    append, full = FileLog.append, [False]

    def sometimes(log: FileLog, key: str, first: int, count: int, blob: bytes) -> None:
        if full[0] and key.startswith("0/mine"):
            raise OSError(errno.ENOSPC, "no space left")
        append(log, key, first, count, blob)

    more = asyncio.Event()

    class Growing(Scripted):
        async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
            async for event in self._first():
                yield event
            await more.wait()
            yield trades(2, 1)
            await asyncio.Event().wait()

        async def _first(self) -> AsyncIterator[Event]:
            for event in (STANDS, trades(3), CAUGHT_UP):
                yield event

    async def test(play: Play) -> None:
        monkeypatch.setattr(FileLog, "append", sometimes)
        await until(lambda: ages(play.events("mine")) == [3])
        full[0] = True
        more.set()
        await until(lambda: ages(play.events("mine")) == [3, 2, 1])
        await until(lambda: play.agent.disk_problem)
        queue = play.agent.followers[StreamKey(0, "mine", ES)].queue
        assert queue.unsaved
        full[0] = False
        await until(lambda: not queue.unsaved and not play.agent.disk_problem)
        assert play._log.last(f"0/mine/{ES.key}") == queue.end
        spool_events = [event for event, _ in play.log_lines if "spool" in event]
        assert spool_events == ["spool_unwritable", "spool_writable"]

    played(tmp_path, {"mine": Growing({ES: []})}, test)
