"""The live engine: trades per second through feed, log, fold and registry; delay of answers; memory over a week.

The engine runs as in production: a log on disk, alerts recorded in the database, snapshots and syncs. For comparison, a
loop only decodes the same rows and writes them to files, and the core's fold runs alone.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import uvloop
from bench import latency, week
from bench.measurement import Figure, Size, within
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
from outcry.trades.feed import LIVE_TRADE
from outcry.trades.records import Rows
from outcry.trades.reference_tables import load_reference

BATCH = 256
LIMIT_S = 120.0
_TARGETS = {BATCH: 0.5, 1: 0.05}


@dataclass(frozen=True, slots=True)
class Played:
    """One run of the engine: trades, seconds by the clock and of the processor, bytes logged, alerts, openings."""

    trades: int
    wall_s: float
    cpu_s: float
    log_bytes: int
    alerts: int
    openings: dict[Contract, Opening]


def run(size: Size) -> Iterator[Figure]:
    """Measure throughput, latency and memory, each with its limiting factor."""
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        folder = Path(place)
        lay_out(folder / "laid")
        yield from _throughput(folder, size)
        yield from latency.run(folder / "laid", folder, size)
    yield from week.run(size)


def _throughput(folder: Path, size: Size) -> Iterator[Figure]:
    reference, quick = load_reference(), size is not Size.WHOLE
    whole = {c: regular_hours(reference, c, 1 if quick else DENSITY) for c in contracts(reference)}
    if size is Size.SMOKE:
        whole = {c: rows[: first_hour(rows) + 1_000] for c, rows in whole.items()}
    few = {c: rows[: first_hour(rows) + size.of(4_000, 500, 50)] for c, rows in whole.items()}
    for batch, rows, title in ((BATCH, whole, f"{BATCH} a batch"), (1, few, "one at a time")):
        runs: list[Played] = []
        others: dict[str, list[float]] = {"bare": [], "core": []}
        for number in range(1 if quick else 4):
            played = play(folder, rows, batch)
            events = _in_turn(rows, batch)
            bare, core = _bare_s(folder, events), _core_s(events, rows, played.openings)
            if number or quick:  # the first round is a warm-up
                runs.append(played)
                others["bare"].append(bare)
                others["core"].append(core)
        yield from _figures(title, batch, runs, others)


def _figures(title: str, batch: int, runs: list[Played], others: dict[str, list[float]]) -> Iterator[Figure]:
    """Yield rates by processor time, which other processes distort least; rates by the clock are in brackets."""
    count = runs[0].trades
    best = min(each.cpu_s for each in runs)
    more = "rounds " + ", ".join(f"{count / each.cpu_s / 1e6:.3f}" for each in runs)
    more += f"; by the clock {count / min(each.wall_s for each in runs) / 1e6:.3f}; {count:,} trades, "
    more += f"{runs[0].log_bytes / 1e6:.0f} MB logged, {runs[0].alerts} alerts"
    yield Figure(f"{STREAMS} streams, {title}", count / best / 1e6, "M trades/CPU-s", more, _TARGETS[batch])
    for name, said in (("bare", "bare loop: decode and write to a file"), ("core", "core's fold alone")):
        least = min(others[name])
        yield Figure(f"{title}: {said}", count / least / 1e6, "M trades/CPU-s", f"{len(runs)} rounds")
        yield Figure(f"{title}: share of it", 100 * least / best, "%")


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


def _bare_s(folder: Path, events: Sequence[tuple[int, Contract, Rows]]) -> float:
    """Return the seconds to decode the rows of every event, find the newest, and write them to the stream's file."""
    raw = [(number, rows.tobytes()) for number, _, rows in events]
    handles = [
        os.open(folder / f"bare{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for number in range(STREAMS)
    ]
    newest = [0] * STREAMS
    began = process_time()
    for number, data in raw:
        rows = np.frombuffer(data, LIVE_TRADE)
        newest[number] = int(rows["ts_event"][-1])
        os.write(handles[number], data)
    taken = process_time() - began
    for number, handle in enumerate(handles):
        os.close(handle)
        (folder / f"bare{number}").unlink()
    return taken


def _core_s(
    events: Sequence[tuple[int, Contract, Rows]],
    rows: dict[Contract, Rows],
    openings: dict[Contract, Opening],
) -> float:
    """Return the seconds to fold the same trades with all alerts armed; each event's columns are lists already."""
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
