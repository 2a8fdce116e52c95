"""Disk of the live log that hangs, fills up or fails: the process continues, and nothing is lost."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.live.engine_harness import ES, MINUTE, SECOND, EngineHarness, ScriptFeed, rows, run
from tests.timeouts import until

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.live.background_log import BackgroundLog
from outcry.live.entries import Began, Day, TradeRows, decode
from outcry.live.file_log import FileLog
from outcry.live.model import Frame
from outcry.live.pending_writes import TradeBatch
from outcry.market.alerts.machine import AlertType
from outcry.trades.feed import LIVE_TRADE, CaughtUp, Event, Heartbeat, Trades
from outcry.trades.records import Quality

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
CLOSE = OPEN + 405 * MINUTE
NEXT = OPEN + 24 * 60 * MINUTE
CAUGHT = CaughtUp(OPEN, Quality.TICKS)
KEY = f"0/script/{ES.key}"
#: A regular session between 22,000 and 22,010; the first hour of the next between 22,000 and 22,008, and a trade above
#: it a minute later.
DAY = [Trades(rows((OPEN + n * 5 * MINUTE, 22_000 + n % 11, 10))) for n in range(81)]
HOUR = [Trades(rows((NEXT + n * 5 * MINUTE, 22_000 + n % 9, 5))) for n in range(12)]
BREAK = Trades(rows((NEXT + 61 * MINUTE, 22_009, 5)))
AFTER = Trades(rows((NEXT + 62 * MINUTE, 22_009, 5)))
#: Far longer than any test needs: a write that waits so long on the event loop fails the test.
PATIENCE_S = 20.0


class Disk(FileLog):
    """A log whose writes wait while the disk is frozen, and fail while it refuses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.thawed = threading.Event()
        self.thawed.set()
        self.waiting = threading.Event()
        self.refuses = 0

    def append_all(self, key: str, frames: Sequence[Frame | TradeBatch]) -> None:
        if not self.thawed.is_set():
            self.waiting.set()
            assert self.thawed.wait(PATIENCE_S), "nobody thawed the disk: the event loop waits for it"
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        super().append_all(key, frames)


class Seconds:
    """A monotonic clock that a test moves."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Gated(ScriptFeed):
    """A script in which `GATE` waits until the test opens it."""

    gate: asyncio.Event

    async def open(self, contract, since):  # type: ignore[no-untyped-def]
        async for event in super().open(contract, since):
            if isinstance(event, Heartbeat) and event.at_ns == 0:
                await self.gate.wait()
            else:
                yield event


GATE = Heartbeat(0)


def reason(harness: EngineHarness) -> str:
    runner = harness.engine.runners[KEY]
    runner.update_availability(asyncio.get_running_loop().time())
    return harness.channel().availability.reason


def frames(log: BackgroundLog) -> list[tuple[int, int, bytes]]:
    return [(frame.first, frame.count, frame.blob) for frame in log.read(KEY, 0)]


def newest_entries(log: BackgroundLog) -> list[object]:
    """Return the entries of the newest file as single trades, because batches depend on when the log was written."""
    found: list[object] = []
    for frame in log.read(KEY, 0):
        entry = decode(frame)
        if isinstance(entry, Began):
            found.clear()
        found += entry.rows.tolist() if isinstance(entry, TradeRows) else [entry]
    return found


def whole(harness: EngineHarness) -> tuple[int, list[object], list[str]]:
    """Return the session's lots, the log's entries of its trade date, and the keys of its alerts.

    The previous day's entries may have been dropped."""
    found = harness.channel().view()
    assert found is not None
    return (
        sum(found.ladder.volume),
        newest_entries(harness.log),
        [row.key for row in harness.live.alerts([0])],
    )


async def follow(harness: EngineHarness, script: Sequence[Event | Exception | float]) -> Gated:
    feed = Gated([script])
    feed.gate = asyncio.Event()
    harness.engine.attach(0, feed)
    await until(lambda: KEY in harness.engine.runners)
    return feed


async def reached(harness: EngineHarness, at_ns: int) -> None:
    await until(lambda: harness.engine.runners[KEY].stream.latest_ns >= at_ns)


@pytest.fixture
def second_house(tmp_path: Path) -> Iterator[Installation]:
    with open_installation(Settings(data=str(tmp_path / "second"))) as opened:
        yield opened


def undisturbed(installation: Installation) -> tuple[int, list[object], list[str]]:
    async def work(harness: EngineHarness) -> tuple[int, list[object], list[str]]:
        await follow(harness, [CAUGHT, *DAY, Heartbeat(CLOSE + 6 * MINUTE), *HOUR, BREAK, AFTER, 1e9])
        await reached(harness, NEXT + 62 * MINUTE)
        await harness.engine.drained()
        return whole(harness)

    return run(installation, work)


@pytest.mark.parametrize("refuses", [0, errno.ENOSPC, errno.EIO])
def test_a_stalled_or_failing_disk_delays_answers_and_loses_nothing(
    refuses: int, installation: Installation, second_house: Installation, tmp_path: Path
) -> None:
    """The disk fails before the trade that breaks the initial balance.

    The event loop continues, after two seconds the stream is `log_stalled`, and no alert is published. When the disk
    works again, the stream is live without intervention, the alert is published once, and log, levels and keys equal
    those of an undisturbed run."""
    disk, clock = Disk(tmp_path / "log"), Seconds()
    log = BackgroundLog(disk, now_s=clock)

    async def work(harness: EngineHarness) -> tuple[int, list[object], list[str]]:
        feed = await follow(
            harness, [CAUGHT, *DAY, Heartbeat(CLOSE + 6 * MINUTE), *HOUR, GATE, BREAK, AFTER, 1e9]
        )
        await reached(harness, NEXT + 55 * MINUTE)
        await harness.engine.persisted(harness.engine.runners[KEY].key)
        await harness.engine.drained()
        assert reason(harness) == "live"
        before = [row.key for row in harness.live.alerts([0])]
        disk.refuses = refuses
        if not refuses:
            disk.thawed.clear()
        feed.gate.set()
        await reached(harness, NEXT + 62 * MINUTE)
        clock.now_s += 1.9
        assert reason(harness) == "live"
        clock.now_s += 0.2
        assert reason(harness) == "log_stalled"
        assert log.stuck
        await until(lambda: any("log_stalled" in report for report in harness.reports))
        assert harness.registry.alert_seq == len(before)
        assert [row.key for row in harness.live.alerts([0])] == before
        disk.refuses = 0
        disk.thawed.set()
        await harness.engine.persisted(harness.engine.runners[KEY].key)
        assert reason(harness) == "live"
        await until(lambda: any("log_resumed" in report for report in harness.reports))
        await harness.engine.drained()
        return whole(harness)

    disturbed = run(installation, work, log=log)
    assert disturbed == undisturbed(second_house)
    assert disturbed[0] == 13 * 5 + 5
    assert [key.split(":")[1] for key in disturbed[2]].count(AlertType.IB_BREAK_UP) == 1


def test_entries_logged_while_the_disk_stalled_are_written_on_close(
    installation: Installation, tmp_path: Path
) -> None:
    """Entries wait in memory and are in the file after the log is closed."""
    disk = Disk(tmp_path / "log")
    log = BackgroundLog(disk)
    with log.exclusively():
        log.append(KEY, 0, 1, b"a")
        disk.thawed.clear()
        log.append(KEY, 1, 2, b"b")
        log.cut(KEY)
        log.append(KEY, 3, 1, b"c")
        assert frames(log) == [(0, 1, b"a"), (1, 2, b"b"), (3, 1, b"c")]
        threading.Timer(0.05, disk.thawed.set).start()
    with FileLog(tmp_path / "log").exclusively():
        pass
    names = sorted(path.name for path in (tmp_path / "log" / KEY).iterdir())
    assert names == ["00000000000000000000.log", "00000000000000000003.log"]
    again = FileLog(tmp_path / "log")
    with again.exclusively():
        assert [(frame.first, frame.blob) for frame in again.read(KEY, 0)] == [
            (0, b"a"),
            (1, b"b"),
            (3, b"c"),
        ]


def test_trades_waiting_for_the_disk_are_written_as_one_frame(tmp_path: Path) -> None:
    """The first trade is being written to the disk while the next three wait."""
    disk, day = Disk(tmp_path / "log"), Day("2024-07-01", 1)
    log = BackgroundLog(disk)
    with log.exclusively():
        assert log.last(KEY) == 0
        disk.thawed.clear()
        log.append_trades(KEY, 0, day, 1, bytes(LIVE_TRADE.itemsize), continues=True)
        assert disk.waiting.wait(PATIENCE_S)
        for first in range(1, 4):
            log.append_trades(KEY, first, day, 1, bytes(LIVE_TRADE.itemsize), continues=True)
        disk.thawed.set()
    assert [frame[:2] for frame in _reopened(tmp_path)] == [(0, 1), (1, 3)]


def test_memory_for_waiting_entries_is_bounded(tmp_path: Path) -> None:
    """An entry counts 20 bytes more than its blob: two of 80 bytes fit in 200, a third does not and changes nothing."""
    disk = Disk(tmp_path / "log")
    log = BackgroundLog(disk, most_unwritten_bytes=200)
    with log.exclusively():
        assert log.last(KEY) == 0
        disk.thawed.clear()
        log.append(KEY, 0, 1, b"x" * 80)
        log.append(KEY, 1, 1, b"x" * 80)
        with pytest.raises(OSError, match="the disk does not respond") as problem:
            log.append(KEY, 2, 1, b"")
        assert problem.value.errno == errno.ENOBUFS
        disk.thawed.set()
        assert log.last(KEY) == 2
        log.append(KEY, 2, 1, b"x" * 80)
    assert [frame[0] for frame in _reopened(tmp_path)] == [0, 1, 2]


def _reopened(folder: Path) -> list[tuple[int, int, bytes]]:
    log = BackgroundLog(FileLog(folder / "log"))
    with log.exclusively():
        return frames(log)
