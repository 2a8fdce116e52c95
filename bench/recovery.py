"""Reading a long log in JetStream: only reading it, and an engine that folds it without a snapshot."""

import asyncio
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop
from bench.cluster_processes import report
from bench.figures import Figure
from bench.measurement import Size
from bench.tape import FEEDS, Gate, TapeFeed, contracts, furnish, regular_hours, sent
from support.engines.jetstream import JetStream

from outcry.app.installation import Installation, open_installation
from outcry.app.live import stores_of
from outcry.app.settings import read_settings
from outcry.cluster.nats.log import JetStreamLog
from outcry.cluster.nats.thread import LinkThread
from outcry.live.engine import Engine, Market

BATCH = 256
_TRADES = 5_000_000


class _NoSnapshots:
    """Stores no snapshots, so that every log is read from its beginning. Implements `Snapshots`."""

    def save_snapshots(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Do nothing."""

    def snapshot(self, key: str) -> tuple[int, bytes] | None:
        """Return None, because no snapshot is stored."""

    def forget_snapshot(self, key: str) -> None:
        """Do nothing."""


def more(size: Size) -> Iterator[Figure]:
    """Fill a log through an engine, then read all of it with another."""
    count = size.of(_TRADES, 200_000, 20_000)
    with TemporaryDirectory(prefix="outcry-bench-") as place, JetStream(1) as server:
        settings = read_settings({}, data=place)
        with open_installation(settings) as installation, LinkThread(server.urls, report) as thread:
            furnish(installation)
            log = JetStreamLog(thread, report)
            fold_s, played, kept = uvloop.run(_filled(_engine(installation, log), installation, count))
            yield Figure(
                "one engine alone, into the log", played / fold_s / 1e6, "M trades/s", f"{played:,} trades"
            )
            log = JetStreamLog(thread, report)
            began = perf_counter()
            read = sum(len(frame.blob) for name in log.keys() for frame in log.read(name, 0))  # noqa: SIM118
            read_s = perf_counter() - began
            yield Figure(
                "the log read, nothing done with it",
                kept / read_s / 1e6,
                "M trades/s",
                f"{read / 1e6:.0f} MB",
            )
        with open_installation(settings) as installation, LinkThread(server.urls, report) as thread:
            engine = _engine(installation, JetStreamLog(thread, report))
            began = perf_counter()
            uvloop.run(_started(engine))
            took_s = perf_counter() - began
            yield Figure(
                "recovery: the log read and folded",
                kept / took_s / 1e6,
                "M trades/s",
                f"{kept:,} trades in {took_s:.1f} s",
            )


def _engine(installation: Installation, log: JetStreamLog) -> Engine:
    stores = stores_of(installation, log, _NoSnapshots())
    market = Market(
        installation.reference.universe,
        installation.reference.calendar,
        installation.clock,
        installation.licences.of_user,
    )
    return Engine(stores, market, installation.registry, report)


async def _filled(engine: Engine, installation: Installation, count: int) -> tuple[float, int, int]:
    """Play at least this many trades; return the seconds, the number of trades, and the number in the log."""
    rows = {c: regular_hours(installation.reference, c) for c in contracts(installation.reference)}
    density = -(-count // (len(FEEDS) * sent(list(rows.values()))))
    rows = {c: regular_hours(installation.reference, c, density) for c in rows}
    gate = Gate(len(FEEDS) * len(rows))
    await engine.start()
    feeds = [engine.attach(0, TapeFeed(name, rows, BATCH, gate)) for name in FEEDS]
    await gate.all_there.wait()
    began = perf_counter()
    gate.opened.set()
    await asyncio.gather(*feeds)
    await engine.drained()
    took_s = perf_counter() - began
    await engine.stop()
    each = list(rows.values())
    return took_s, len(FEEDS) * sent(each), len(FEEDS) * sum(map(len, each))


async def _started(engine: Engine) -> None:
    await engine.start()
    await engine.stop()
