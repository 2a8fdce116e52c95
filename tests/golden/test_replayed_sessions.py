"""Real days replayed through the service: every minute has the levels of all trades so far."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outcry.access.licences import Grant, Scope
from outcry.app.installation import Installation, open_installation
from outcry.app.live import live_service
from outcry.app.settings import Settings
from outcry.feeds.replay import ReplayFeed, readings_of
from outcry.feeds.replay_pacing import StepPacer, pacer_for_speed
from outcry.live.engine import Engine
from outcry.live.file_log import FileLog
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.market.kernels import BulkFold
from outcry.market.ladder import IB_BRACKETS, bracket_windows
from outcry.market.profile import SessionProfile, profile_of
from outcry.market.units import NANOS_PER_MINUTE
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import fold_rows, on_tick
from outcry.wire.answers import Developing

ALL = Scope(
    user_id=1, grants=(Grant("everyone", "completed", (), None, None), Grant("everyone", "live", (), None, None))
)  # fmt: skip
ES, GC = Contract("ES", 2013, 12), Contract("GC", 2013, 12)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with open_installation(Settings(data=str(tmp_path / "data"))) as opened:
        yield opened


def readings(installation: Installation, shared: Path, folder: str) -> Sequence[Any]:
    paths = sorted((shared / "data" / "lean" / folder).glob("*_trade.zip"))
    return readings_of(FileLibrary(), installation.reference.universe, paths, ReadOptions())


def recorded(
    installation: Installation, shared: Path, folder: str, contract: Contract
) -> tuple[Rows, Quality]:
    """Return all rows of a contract from the files."""
    batches = [
        b
        for reading in readings(installation, shared, folder)
        for b in reading.batches()
        if b.contract == contract
    ]
    return np.concatenate([b.rows for b in batches]), batches[0].quality


def so_far(
    installation: Installation, rows: Rows, quality: Quality, contract: Contract, now_ns: int
) -> SessionProfile | None:
    """Return the bulk kernel's levels of the session open at a time, from the rows up to then."""
    session = installation.reference.calendar.session_at(contract.root, now_ns)
    if session is None:
        return None
    ends = rows["ts_event"] + (NANOS_PER_MINUTE if quality is Quality.BARS_1M else 1)
    mine = rows[(rows["ts_event"] >= session.open_ns) & (ends <= now_ns)]
    if not len(mine):
        return None
    fold = BulkFold(bracket_windows(session.segments, 30))
    good, ticks, _ = on_tick(mine, installation.reference.universe.products[contract.root].tick_e9, quality)
    fold_rows(fold, good, ticks, quality)
    ladder = fold.ladder()
    assert ladder is not None
    return profile_of(ladder, IB_BRACKETS)


def as_answered(profile: SessionProfile, tick: float) -> Developing:
    names = {"poc": "poc", "vah": "vah", "val": "val", "vpoc": "vpoc", "ib_high": "ib_high", "ib_low": "ib_low",
             "high": "high", "low": "low"}  # fmt: skip
    return Developing(**{name: round(getattr(profile, field) * tick, 9) for name, field in names.items()})


async def live(installation: Installation, feed: ReplayFeed) -> tuple[Engine, Any, FileLog]:
    service = live_service(installation)
    engine = service.engine
    await engine.start()
    return engine, engine.attach(0, feed), installation.log


async def begun(stepper: StepPacer) -> None:
    """Wait until the files have been read and the engine waits for their first rows."""
    while not stepper._held:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("folder", "contract", "tick", "at_least"),
    [
        ("cme/minute/es", ES, 0.25, 2700),
        pytest.param("comex/minute/gc", GC, 0.1, 1000, marks=pytest.mark.soak),
    ],
)
def test_every_minute_has_the_levels_of_all_trades_so_far(
    installation: Installation, shared: Path, folder: str, contract: Contract, tick: float, at_least: int
) -> None:
    """Replay all recorded days with nothing imported.

    The prior session of each day is the one completed just before."""
    rows, quality = recorded(installation, shared, folder, contract)
    first, last = int(rows["ts_event"].min()), int(rows["ts_event"].max())

    async def work() -> int:
        stepper, compared = StepPacer(), 0
        engine, playing, _ = await live(
            installation,
            ReplayFeed(readings(installation, shared, folder), installation.reference.calendar, stepper),
        )
        await begun(stepper)
        for now_ns in range(first + NANOS_PER_MINUTE, last + 2 * NANOS_PER_MINUTE, NANOS_PER_MINUTE):
            await stepper.advance(now_ns + 1)
            expected = so_far(installation, rows, quality, contract, now_ns)
            seen = installation.registry.find(ALL, contract.root, None)
            if seen is None:
                continue
            answer = installation.query.levels(ALL, contract.root, installation.clock.now_ns()).answer
            assert expected is not None
            assert (answer.live, answer.data_source, answer.as_of) == (True, "shared", None)
            assert answer.developing == as_answered(expected, tick), now_ns
            assert answer.last_price == round(expected.close * tick, 9)
            compared += 1
        playing.cancel()
        await engine.stop()
        return compared

    with installation.log.exclusively():
        assert asyncio.run(work()) >= at_least


def test_every_minute_of_a_tick_recording(installation: Installation, shared: Path) -> None:
    """Replay GC trade by trade and examine its stream, because a single day has no prior session."""
    rows, quality = recorded(installation, shared, "comex/tick/gc", GC)
    first, last = int(rows["ts_event"].min()), int(rows["ts_event"].max())

    async def work() -> int:
        stepper, compared = StepPacer(), 0
        feed = ReplayFeed(
            readings(installation, shared, "comex/tick/gc"), installation.reference.calendar, stepper
        )
        engine, playing, _ = await live(installation, feed)
        await begun(stepper)
        for now_ns in range(first + NANOS_PER_MINUTE, last + NANOS_PER_MINUTE, NANOS_PER_MINUTE):
            await stepper.advance(now_ns)
            expected = so_far(installation, rows, quality, GC, now_ns)
            (seen,) = [s for s in installation.registry.channels(ALL, "GC") if s.channel.key.contract == GC]
            view = seen.channel.view()
            if expected is None or view is None or view.opening.close_ns <= now_ns:
                continue
            assert view.profile == expected, now_ns
            compared += 1
        playing.cancel()
        await engine.stop()
        return compared

    with installation.log.exclusively():
        assert asyncio.run(work()) > 1000


@pytest.mark.parametrize(
    ("folder", "block", "contract", "days"),
    [
        ("cme/minute/es", "ES_RTH_0930_1615_ET", ES, ["2013-10-07", "2013-10-08", "2013-10-09"]),
        ("comex/minute/gc", "GC_PIT_0820_1330_ET", GC, ["2013-10-08"]),
        ("comex/tick/gc", "GC_PIT_trades_0820_1330_ET", GC, ["2013-10-07"]),
    ],
)
def test_a_replay_ends_with_the_worked_levels(
    installation: Installation, shared: Path, folder: str, block: str, contract: Contract, days: list[str]
) -> None:
    """After a replay at full speed, the store has the levels worked out by hand."""

    async def work() -> None:
        feed = ReplayFeed(
            readings(installation, shared, folder),
            installation.reference.calendar,
            pacer_for_speed(None, installation.clock),
        )
        engine, playing, _ = await live(installation, feed)
        await playing
        await engine.stop()

    with installation.log.exclusively():
        asyncio.run(work())
    vectors = json.loads((shared / "vectors" / "worked_sessions.json").read_text())[block]["sessions"]
    stored = {
        str(row.trade_date): row
        for row in installation.store.sessions([0], contract.root)
        if row.kind is SessionKind.RTH and row.contract == contract.key
    }
    for day in days:
        found = installation.query.history(
            ALL, contract.key, day, day, installation.clock.now_ns()
        ).answer.sessions[0]
        want = vectors[day]
        assert (found.high, found.low, found.close_price) == (want["high"], want["low"], want["close"])
        assert (found.ib_high, found.ib_low, found.data.volume) == (
            want["ib_high"],
            want["ib_low"],
            want["volume"],
        )
        assert found.poc_candidates == want["tpo"]["poc_candidates"]
        if (contract, day) != (ES, "2013-10-09"):  # the tie worked out in test_worked_sessions
            assert (found.poc, found.val, found.vah) == (want["tpo"]["poc"], *want["tpo"]["va_two_row_up"])
        assert stored[day].complete
        assert stored[day].source == "replay"
