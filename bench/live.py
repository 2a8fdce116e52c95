"""The live engine: trades through feed, log, fold and registry, compared with the fold alone; delays; memory.

The engine runs as in production: a log on disk, alerts recorded in the database, snapshots and syncs. The fold alone
has the same sessions with the same alerts armed, and each event's columns are lists already.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import uvloop
from bench import latency, week
from bench.figures import Figure, Rounds, at_least, shown
from bench.measurement import Scale, Size, within
from bench.tape import (
    DENSITY,
    FEEDS,
    STREAMS,
    Gate,
    TapeFeed,
    contracts,
    first_hour,
    lay_out,
    regular_hours,
    sent,
)

from outcry.app.installation import Installation, open_installation
from outcry.app.live import live_service
from outcry.app.settings import read_settings
from outcry.market.instruments import Contract
from outcry.market.live_session import LiveSession
from outcry.market.opening import Opening
from outcry.trades.records import Rows
from outcry.trades.reference_tables import load_reference

BATCH = 256
LIMIT_S = 120.0
_SHARES = {1: at_least(0.15), BATCH: at_least(0.7)}


@dataclass(frozen=True, slots=True)
class Played:
    """One run of the engine: trades, seconds by the clock and of the processor, bytes logged, alerts, openings."""

    trades: int
    wall_s: float
    cpu_s: float
    log_bytes: int
    alerts: int
    openings: dict[Contract, Opening]


def goals(size: Size) -> Iterator[Figure]:
    """Measure the processor time of trades in events of one and of 256, and that of the fold alone."""
    reference, smoke = load_reference(), size.scale is Scale.SMOKE
    density = size.of(DENSITY, 1, 1)
    whole = {c: regular_hours(reference, c, density) for c in contracts(reference)}
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        folder = Path(place)
        lay_out(folder / "laid", history=size.of(20, 20, 1))
        for batch, most in ((1, size.of(2_000, 1_000, 50)), (BATCH, 1_000 if smoke else None)):
            rows = (
                whole if most is None else {c: each[: first_hour(each) + most] for c, each in whole.items()}
            )
            runs: list[Played] = []
            folds: list[float] = []
            for number in range(size.rounds + (not smoke)):
                played = play(folder, rows, batch)
                fold_s = _fold_s(_in_turn(rows, batch), rows, played.openings)
                if number or smoke:  # the first round is a warm-up
                    runs.append(played)
                    folds.append(fold_s)
            yield _figure(batch, runs, Rounds.of(folds))


def more(size: Size) -> Iterator[Figure]:
    """Measure delays at a fixed rate, and memory over a week."""
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        folder = Path(place)
        lay_out(folder / "laid", history=size.of(20, 20, 1))
        yield from latency.run(folder / "laid", folder, size)
    yield from week.run(size)


def _figure(batch: int, runs: Sequence[Played], folds: Rounds) -> Figure:
    ours, count, last = Rounds.of([each.cpu_s for each in runs]), runs[0].trades, runs[-1]
    wall = Rounds.of([each.wall_s for each in runs])
    note = f"{ours.rate(count / 1e3)} to {folds.rate(count / 1e3)} k trades/CPU-s, "
    note += f"{wall.rate(count / 1e3)} by the clock; "
    note += f"{count:,} trades, {shown(last.log_bytes / 1e6)} MB logged, {last.alerts} alerts"
    name = f"live, {STREAMS} streams, {f'{batch} trades' if batch > 1 else 'one trade'} an event"
    return Figure.ratio(name, folds, ours, "the fold alone", _SHARES[batch], note)


# -- the engine


def play(
    folder: Path, rows: dict[Contract, Rows], batch: int, around: Callable[[], object] | None = None
) -> Played:
    """Play rows on both feeds into an engine over a new copy of the prepared folder.

    `around`: called when the clock starts and when it stops.
    """
    data = folder / "played"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(folder / "laid", data)
    with open_installation(read_settings({}, data=str(data))) as installation, installation.log.exclusively():
        return uvloop.run(within(_played(installation, rows, batch, around or (lambda: None)), LIMIT_S))


async def _played(
    installation: Installation, rows: dict[Contract, Rows], batch: int, around: Callable[[], object]
) -> Played:
    gate = Gate(len(FEEDS) * len(rows))
    engine = live_service(installation).engine
    said: list[str] = []

    def report(event: str, **details: object) -> None:
        said.append(f"{event} {details}")

    engine.report = report
    await engine.start()
    feeds = [engine.attach(0, TapeFeed(name, rows, batch, gate)) for name in FEEDS]
    await gate.all_there.wait()
    await engine.drained()
    log = installation.settings.folder / "live"
    before, alerts = _size(log), installation.registry.alert_seq
    around()
    began, used = perf_counter(), process_time()
    gate.opened.set()
    await asyncio.gather(*feeds)
    await engine.drained()
    wall_s, cpu_s = perf_counter() - began, process_time() - used
    around()
    lots = len(FEEDS) * sum(int(each["size"].sum()) for each in rows.values())
    sessions = [runner.stream.current for runner in engine.runners.values()]
    folded = [session.ladder() for session in sessions if session is not None]
    if said or sum(sum(ladder.volume) for ladder in folded if ladder) != lots:
        raise RuntimeError(f"the engine lost trades, or complained: {said[:3]}")
    openings = {
        r.key.contract: s.opening for r, s in zip(engine.runners.values(), sessions, strict=True) if s
    }
    logged = _size(log) - before
    await engine.stop()
    count = len(FEEDS) * sent(list(rows.values()))
    return Played(count, wall_s, cpu_s, logged, installation.registry.alert_seq - alerts, openings)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.log"))


# -- the same without the engine


def _in_turn(rows: dict[Contract, Rows], batch: int) -> list[tuple[int, Contract, Rows]]:
    """Return the events of all streams in the order in which they are sent: stream, contract, rows."""
    pieces: list[list[tuple[int, Contract, Rows]]] = []
    for number, (contract, each) in enumerate(list(rows.items()) * len(FEEDS)):
        starts = range(first_hour(each), len(each), batch)
        pieces.append([(number, contract, each[start : start + batch]) for start in starts])
    return [event for turn in zip_longest(*pieces) for event in turn if event is not None]


def _fold_s(
    events: Sequence[tuple[int, Contract, Rows]],
    rows: dict[Contract, Rows],
    openings: dict[Contract, Opening],
) -> float:
    """Return the processor seconds to fold the same trades with all alerts armed."""
    ticks = {c: load_reference().universe.products[c.root].tick_e9 for c in rows}
    sessions = [LiveSession(openings[c]) for c in list(rows) * len(FEEDS)]
    for session, (contract, each) in zip(sessions, list(rows.items()) * len(FEEDS), strict=True):
        session.trades(*_columns(each[: first_hour(each)], ticks[contract]))
    lists = [(number, _columns(each, ticks[contract])) for number, contract, each in events]
    began = process_time()
    for number, columns in lists:
        sessions[number].trades(*columns)
    return process_time() - began


def _columns(rows: Rows, tick_e9: int) -> tuple[list[int], list[int], list[int]]:
    return rows["ts_event"].tolist(), (rows["price"] // tick_e9).tolist(), rows["size"].tolist()
