"""Damage of a log or snapshot while the service is stopped: the next start uses the rest and reports the damage."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.live.engine_harness import MINUTE, EngineHarness, ScriptFeed, run
from tests.live.test_bars import (
    CLOSE,
    KEY,
    OPEN,
    PRESENT,
    SettableClock,
    followed_for_two_hours,
    stored,
    trades,
)
from tests.timeouts import until

from outcry.app.installation import Installation
from outcry.database.database import DATABASE_FILE
from outcry.live.background_log import BackgroundLog
from outcry.market.instruments import Contract
from outcry.market.live_session import LiveView
from outcry.trades.feed import CaughtUp, Cursor, Event, Heartbeat
from outcry.trades.records import Quality

CAUGHT = CaughtUp(OPEN, Quality.TICKS)
MORNING = [CAUGHT, *(trades(n, n + 30) for n in (0, 30, 60, 90)), Heartbeat(OPEN + 120 * MINUTE), 60.0]


@dataclass
class FrameByFrameFeed(ScriptFeed):
    """Feed that waits until each event is written, because the log combines waiting trades in one frame."""

    log: BackgroundLog | None = None

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        assert self.log is not None
        async for event in super().open(contract, since):
            yield event
            written = self.log.pending_write(KEY)
            if written is not None:
                await written


def log_of(installation: Installation) -> Path:
    return max(
        (installation.settings.folder / "live" / KEY).glob("*.log"), key=lambda path: path.stat().st_size
    )


def two_hours(installation: Installation) -> None:
    """Log 120 trades of seven lots, and take a snapshot of them all."""

    async def work(harness: EngineHarness) -> None:
        feed = FrameByFrameFeed([MORNING], caps=PRESENT, log=harness.log)
        await followed_for_two_hours(harness, feed)

    run(installation, work)


def lots(installation: Installation) -> tuple[int, list[str]]:
    """Return the lots that a start restores, and its reports."""

    async def work(harness: EngineHarness) -> tuple[int, list[str]]:
        await until(lambda: KEY in harness.engine.runners)
        view = harness.channel().view()
        assert isinstance(view, LiveView)
        return sum(view.ladder.volume), [
            line for line in harness.reports if "log" in line or "snapshot" in line
        ]

    return run(installation, work)


@pytest.fixture
def noon(installation: Installation) -> Installation:
    standing = replace(installation, clock=SettableClock(OPEN + 120 * MINUTE))
    two_hours(standing)
    assert lots(standing) == (840, [])
    return standing


def test_a_damaged_last_frame_keeps_the_state_of_the_snapshot(noon: Installation) -> None:
    """The last frame was cut, so the log was shorter than its snapshot. A former version deleted all of it."""
    path = log_of(noon)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    volume, reports = lots(noon)
    assert volume == 840
    assert any("bytes were moved to" in line for line in reports)
    assert any("has lost entries" in line for line in reports)
    moved = b"".join(p.read_bytes() for p in path.parent.glob("*.damaged*"))
    assert moved
    assert bytes(damaged).endswith(moved)
    assert lots(noon) == (840, [])


def test_damage_in_the_middle_keeps_the_snapshot_and_completes_no_session(
    noon: Installation,
) -> None:
    path = log_of(noon)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) * 3 // 8] ^= 16
    path.write_bytes(damaged)
    volume, reports = lots(noon)
    assert volume == 840
    assert any("is damaged: it was renamed" in line for line in reports)
    assert path.with_name(path.name + ".damaged").read_bytes() == damaged
    clock = noon.clock
    assert isinstance(clock, SettableClock)

    async def work(harness: EngineHarness) -> None:
        feed = ScriptFeed([[CAUGHT, trades(120, 405), Heartbeat(CLOSE + 7 * MINUTE), 60.0]], caps=PRESENT)
        task = harness.engine.attach(0, feed)
        await until(lambda: harness.engine.runners[KEY].stream.latest_ns > OPEN + 400 * MINUTE)
        clock.at_ns = CLOSE + 7 * MINUTE
        await until(lambda: bool(noon.store.sessions([0], "ES")))
        task.cancel()
        await asyncio.wait([task])

    run(noon, work)
    assert not stored(noon).complete


def test_a_damaged_log_without_a_snapshot_is_read_up_to_the_damage(noon: Installation) -> None:
    with closing(sqlite3.connect(noon.settings.folder / DATABASE_FILE)) as database:
        database.execute("DELETE FROM snapshots")
        database.commit()
    path = log_of(noon)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) * 5 // 8] ^= 16
    path.write_bytes(damaged)
    volume, reports = lots(noon)
    assert volume == 420  # two of four batches
    assert any("continues from entry" in line for line in reports)
    assert path.with_name(path.name + ".damaged").read_bytes() == damaged


@pytest.mark.parametrize("at", [0, 9, 300, -1])
def test_a_damaged_snapshot_is_reported_and_the_log_is_read_instead(noon: Installation, at: int) -> None:
    """A snapshot in the database has one flipped bit. Without a checksum, 196 of 600 cases restored a wrong state."""
    with closing(sqlite3.connect(noon.settings.folder / DATABASE_FILE)) as database:
        data = bytearray(database.execute("SELECT data FROM snapshots").fetchone()[0])
        data[at] ^= 2
        database.execute("UPDATE snapshots SET data = ?", (bytes(data),))
        database.commit()
    volume, reports = lots(noon)
    assert volume == 840
    assert ["snapshot_damaged" in line for line in reports] == [True]


def test_a_snapshot_of_another_stream_or_position_is_ignored(noon: Installation) -> None:
    with closing(sqlite3.connect(noon.settings.folder / DATABASE_FILE)) as database:
        database.execute("UPDATE snapshots SET position = position - 1")
        database.commit()
    volume, reports = lots(noon)
    assert (volume, len(reports)) == (840, 1)
