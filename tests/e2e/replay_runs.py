"""Replay recordings in a live engine on a data folder, and return the comparable result.

The recordings are real GC trades of 2013-10-07, real minute bars of ES (three sessions of four contracts), the same of
one contract with a day missing, and three trade dates of a simulated CL, after twenty earlier ones, with many alerts.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from support.recordings import MemoryRecording

from outcry.access.licences import Grant, Scope, resolve
from outcry.answers.live_answers import MIN_RENDER_INTERVAL_NS
from outcry.app.installation import Installation, open_installation
from outcry.app.live import stores_of
from outcry.app.settings import Settings
from outcry.base.errors import ServiceError
from outcry.feeds.replay import ReplayFeed, readings_of
from outcry.feeds.replay_pacing import FreePacer
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.live.engine import Engine, Market
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.sessions.demo_history import write_history
from outcry.trades.feed import Cursor, Event, Feed, FeedCaps, Heartbeat
from outcry.trades.records import TRADE, Batch, Quality
from outcry.trades.reference_tables import Reference, load_reference

ALL = Scope(
    user_id=1, grants=(Grant("everyone", "completed", (), None, None), Grant("everyone", "live", (), None, None))
)  # fmt: skip
FIRST_DAY, LAST_DAY = date(2026, 3, 10), date(2026, 3, 12)
SEED = 3
#: Saves a snapshot about every twentieth of a second.
SPEEDUP = 50.0


@dataclass(frozen=True)
class ReplayRecording:
    """The recording of one feed."""

    name: str
    contract: Contract
    readings: Sequence[MemoryRecording]


def replay_recordings(shared: Path, reference: Reference) -> dict[str, ReplayRecording]:
    """Read all recordings into memory."""
    made = simulated_recording(reference)
    return {
        "gc": _recorded("gc", shared / "data/lean/comex/tick/gc", "GCZ2013", reference),
        "es": _recorded("es", shared / "data/lean/cme/minute/es", "ESZ2013", reference, one=False),
        "torn": _recorded(
            "torn", shared / "data/lean/cme/minute/es", "ESZ2013", reference, "20131008_trade.zip"
        ),
        made.name: made,
    }


def _recorded(
    name: str, folder: Path, contract: str, reference: Reference, without: str = "", *, one: bool = True
) -> ReplayRecording:
    """Read a folder of LEAN's files, without one of them: one contract, or all with that one first."""
    paths = [path for path in sorted(folder.glob("*_trade.zip")) if path.name != without]
    readings = readings_of(
        FileLibrary(), reference.universe, paths, ReadOptions(contract=contract if one else None)
    )
    recordings = [
        MemoryRecording(reading.source, list(reading.batches()), reading.path) for reading in readings
    ]
    return ReplayRecording(name, reference.universe.contract(contract), recordings)


def simulated_recording(reference: Reference) -> ReplayRecording:
    """Generate three trade dates of simulated CL trades."""
    contract = reference.universe.front("CL", FIRST_DAY)
    market = SimulatedMarket(SEED, reference.universe.products, reference.calendar)
    batches: list[Batch] = []
    for session in reference.calendar.sessions("CL", FIRST_DAY, LAST_DAY):
        rows = market.trades(contract, session)
        plain = np.zeros(len(rows), TRADE)
        for column in TRADE.names or ():
            plain[column] = rows[column]
        batches.append(Batch(contract, Quality.TICKS, plain, "invented"))
    return ReplayRecording("made", contract, [MemoryRecording("invented", batches)])


def prepare(folder: Path) -> None:
    """Create a data folder with past sessions of the simulated product."""
    with open_installation(Settings(data=str(folder))) as installation:
        reference = installation.reference
        market = SimulatedMarket(SEED, reference.universe.products, reference.calendar)
        write_history(
            installation.store, reference.universe.products, [reference.universe.front("CL", FIRST_DAY)],
            lambda contract: past_sessions(market, contract, reference.calendar, FIRST_DAY),
            source="past", now_ns=1,
        )  # fmt: skip


def engine_of(installation: Installation, report: Callable[..., object], speedup: float = SPEEDUP) -> Engine:
    """Create the live engine of an installation."""
    stores = stores_of(installation, installation.log, installation.alerts)
    universe, calendar = installation.reference.universe, installation.reference.calendar
    market = Market(universe, calendar, installation.clock, lambda user: resolve(user, 0, "free", ()))
    return Engine(stores, market, installation.registry, report, speedup=speedup)


def feed_of(
    piece: ReplayRecording, installation: Installation, batch_rows: int, step_ns: int = NANOS_PER_MINUTE
) -> ReplayFeed:
    """Create a feed that replays the recording at full speed."""
    pace = FreePacer()
    pace.step_ns = step_ns
    return ReplayFeed(
        piece.readings, installation.reference.calendar, pace, name=piece.name, batch_rows=batch_rows
    )


def outcome(installation: Installation, engine: Engine) -> dict[str, Any]:
    """Return all results that must not depend on faults or timing."""
    alerts: dict[str, list[Any]] = defaultdict(list)
    for row in installation.alerts.alerts([0], limit=10**6):
        # The time of recording differs between runs.
        alerts[f"{row.owner}/{row.feed}/{row.contract}"].append(replace(row, seq=0, recorded_ns=None))
    roots = sorted({runner.key.contract.root for runner in engine.runners.values()})
    sessions = [
        replace(row, received_ns=0) for root in roots for row in installation.store.sessions([0], root)
    ]
    recordings = sorted(
        installation.store.all_recordings(),
        key=lambda row: (row.contract, row.trade_date, row.source, row.quality),
    )
    tape = [
        (
            replace(row, received_ns=0, path=""),
            b"".join(r.tobytes() for r in installation.tape.read(row.file, row.quality)),
        )
        for row in recordings
    ]
    names = {row.path for row in recordings}
    folder = installation.settings.folder / "tape"
    return {
        "alerts": dict(alerts),
        "sessions": sorted(sessions, key=lambda row: (row.root, row.contract, row.open_ns)),
        "tape": tape,
        "left over": sorted(
            str(p.relative_to(folder))
            for p in folder.rglob("*.zst")
            if str(p.relative_to(folder)) not in names
        ),
        "views": {name: runner.channel.view() for name, runner in sorted(engine.runners.items())},
        "streams": {name: runner.stream.dump() for name, runner in sorted(engine.runners.items())},
        "positions": {name: installation.log.last(name) for name in installation.log.keys()},  # noqa: SIM118
        "registry": sorted(row.key for row in installation.registry.alerts(ALL)),
    }


async def play(engine: Engine, feeds: Sequence[Feed]) -> None:
    """Start the engine and play feeds to their end."""
    await engine.start()
    await asyncio.gather(*(engine.attach(0, feed) for feed in feeds))
    await engine.drained()


@dataclass
class QueryingFeed:
    """Feed that requests the service's answers after every processed heartbeat."""

    feed: ReplayFeed
    ask: Callable[[Contract], Awaitable[None]]

    def __post_init__(self) -> None:
        self.name, self.run, self.close = self.feed.name, self.feed.run, self.feed.close
        self.contracts = self.feed.contracts

    @property
    def caps(self) -> FeedCaps:
        return self.feed.caps

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        async for event in self.feed.open(contract, since):
            yield event
            if isinstance(event, Heartbeat):
                await self.ask(contract)


def perform(folder: Path, played: Sequence[ReplayRecording], batch_rows: int, step_ns: int) -> dict[str, Any]:
    """Replay recordings into a prepared folder without faults, and request answers at every step."""
    answers: dict[str, list[str]] = defaultdict(list)

    async def work(installation: Installation) -> dict[str, Any]:
        engine = engine_of(installation, lambda *_args, **_more: None)

        # one render time after all steps: an unchanged answer is cached for a second of any clock
        now_ns = {
            piece.contract.root: int(piece.readings[-1].stored[-1].rows["ts_event"][-1]) for piece in played
        }

        async def ask(contract: Contract) -> None:
            await engine.drained()
            # An answer may be a little older than the newest data.
            await asyncio.sleep(2 * MIN_RENDER_INTERVAL_NS / 1e9)
            for question in (
                installation.query.levels,
                installation.query.context,
                installation.query.alerts,
            ):
                try:
                    answer = msgspec.json.encode(
                        question(ALL, contract.key, now_ns[contract.root]).answer
                    ).decode()
                except ServiceError as problem:
                    answer = problem.code
                answers[contract.key].append(answer)

        await play(
            engine, [QueryingFeed(feed_of(piece, installation, batch_rows, step_ns), ask) for piece in played]
        )
        await engine.stop()
        return outcome(installation, engine) | {"answers": answers}

    with open_installation(Settings(data=str(folder))) as installation, installation.log.exclusively():
        return asyncio.run(work(installation))


def as_bytes(found: dict[str, Any]) -> bytes:
    """Return the results as text, one line each, equal in every process."""
    whole = ("alerts", "positions", "answers", "registry", "left over")
    lines = [f"{part} {json.dumps(found[part], default=_plain, sort_keys=True)}" for part in whole]
    lines += [f"session {json.dumps(row, default=_plain)}" for row in found["sessions"]]
    lines += [f"tape {json.dumps(row, default=_plain)} {rows.hex()}" for row, rows in found["tape"]]
    lines += [f"stream {name} {dumped.hex()}" for name, dumped in found["streams"].items()]
    lines += [f"view {name} {json.dumps(view, default=_plain)}" for name, view in found["views"].items()]
    return "\n".join(lines).encode()


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return value.hex() if isinstance(value, bytes) else str(value)


def main(shared: str, folder: str, target: str, batch_rows: str, step_ns: str) -> None:
    """Replay real and simulated markets together without faults, and write the results."""
    prepare(Path(folder))
    found = replay_recordings(Path(shared), load_reference())
    played = [found[name] for name in ("gc", "es", "made")]
    Path(target).write_bytes(as_bytes(perform(Path(folder), played, int(batch_rows), int(step_ns))))


if __name__ == "__main__":
    main(*sys.argv[1:])
