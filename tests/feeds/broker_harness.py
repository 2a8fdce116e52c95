"""Complete service with one connection to a fake vendor: real engine, store, vault, supervisor; vendor's clock."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from support.vendors.bars import bars_by_hand
from support.vendors.peer import FakePeer
from tests.feeds.feed_harness import PeerClock
from tests.timeouts import until

from outcry.access.licences import Scope
from outcry.app.installation import Installation, open_installation
from outcry.app.live import stores_of
from outcry.app.settings import Settings
from outcry.base.errors import NoLicensedSource
from outcry.connections.feed_factory import ConnectionPolicy, FeedFactory
from outcry.connections.model import ConnectionPhase, ConnectionRow
from outcry.connections.service import BrokerConnections
from outcry.connections.store import SqlConnectionStore
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.live import health
from outcry.live.engine import Engine, Market
from outcry.live.model import FanOut
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.sessions.store_model import SessionRow
from outcry.trades.records import TRADE, Quality, Rows
from outcry.wire.answers import LevelsAnswer

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
ES, NQ = Contract("ES", 2026, 12), Contract("NQ", 2026, 12)
ROOTS = ("ES", "NQ")
DAY = date(2026, 11, 18)
#: Factor by which pauses and time limits are shorter than in production.
SPEEDUP = 20.0


def at(text: str) -> int:
    """Convert a UTC time such as `2026-11-18 15:00:00` to ns."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


#: Regular hours of the day, 9:30 to 16:15 in New York, and the time at which the user connects.
OPEN_NS, CLOSE_NS = at("2026-11-18 14:30:00"), at("2026-11-18 21:15:00")
#: Sessions of the day: overnight, which is over when the user connects, and regular.
SESSIONS = {SessionKind.ETH: (at("2026-11-17 21:15:00"), OPEN_NS), SessionKind.RTH: (OPEN_NS, CLOSE_NS)}
#: The maintenance break within the overnight session, 17:00 to 18:00 in New York.
BREAK = (at("2026-11-17 22:00:00"), at("2026-11-17 23:00:00"))
BEGIN_NS = at("2026-11-18 15:00:00")
#: Trades are denser during this time, in which tests inject faults.
BUSY = (at("2026-11-18 14:55:00"), at("2026-11-18 15:25:00"))


def tape_of(contract: Contract, resolution_ns: int, seed: int) -> Rows:
    """Generate two sessions and the overnight between: a random walk every 20 s, and every 1.5 s in the busy time.

    Some trades are identical, as in real data. Timestamps are multiples of the vendor's resolution.
    """
    chance = np.random.default_rng(seed)
    times: list[int] = []
    for opened, closed, step_s in (
        (at("2026-11-17 14:30:00"), at("2026-11-17 21:15:00"), 30),
        (SESSIONS[SessionKind.ETH][0], BREAK[0], 60),
        (BREAK[1], OPEN_NS, 60),
        (OPEN_NS, BUSY[0], 20),
        (*BUSY, 1.5),
        (BUSY[1], CLOSE_NS, 20),
    ):
        count = int((closed - opened) / SECOND / step_s)
        drawn = np.sort(chance.integers(opened + SECOND, closed - SECOND, count))
        times += [opened + SECOND // 2, *drawn.tolist(), closed - SECOND]
    rows = np.zeros(len(times), TRADE)
    rows["ts_event"] = np.sort(np.array(times) // resolution_ns * resolution_ns)
    base, tick_e9 = (26_800, 250_000_000) if contract.root == "ES" else (98_000, 250_000_000)
    rows["price"] = (base + np.cumsum(chance.integers(-2, 3, len(rows)))) * tick_e9
    rows["size"] = chance.integers(1, 20, len(rows))
    rows["side"] = chance.choice([b"A", b"B"], len(rows))
    alike = chance.choice(len(rows) - 1, len(rows) // 50, replace=False)
    rows[alike + 1] = rows[alike]
    rows["sequence"] = np.arange(1, len(rows) + 1)
    rows["sequence"][alike + 1] = rows["sequence"][alike]
    return rows[np.argsort(rows["ts_event"], kind="stable")]


def in_window(rows: Rows, from_ns: int, to_ns: int) -> Rows:
    """Return rows of a half-open window."""
    return rows[(rows["ts_event"] >= from_ns) & (rows["ts_event"] < to_ns)]


@dataclass
class BrokerHarness:
    """One user with one connection, and its observed states.

    `seen`: (phase, code) at each change. `answered`: whether both products were live, at each change.
    """

    installation: Installation
    peer: FakePeer
    clock: PeerClock
    engine: Engine
    connections: BrokerConnections
    user: int
    reports: list[str]
    tapes: dict[Contract, Rows]
    id: int = 0
    seen: list[tuple[ConnectionPhase, str]] = field(default_factory=list[tuple[ConnectionPhase, str]])
    answered: list[bool] = field(default_factory=list[bool])

    @property
    def row(self) -> ConnectionRow:
        return next(row for row in self.connections.connections(self.user) if row.id == self.id)

    @property
    def scope(self) -> Scope:
        """Return the scope of a user without grants."""
        return Scope(self.user, ())

    @property
    def phases(self) -> list[str]:
        """Return the observed phases without repetitions."""
        found: list[str] = []
        for phase, _ in self.seen:
            if not found or found[-1] != phase:
                found.append(str(phase))
        return found

    def forget(self) -> None:
        """Discard all observed states but the last."""
        del self.seen[:-1]
        del self.answered[:-1]

    def connect(self, roots: Sequence[str] = ROOTS) -> None:
        """Create the connection as the page does."""
        broker = self.peer.adapter.broker.id
        self.id = self.connections.connect(
            self.user, broker, "mine", self.peer.given, roots, self.clock.now_ns()
        )

    def levels(self, symbol: str = "ES") -> LevelsAnswer | str:
        """Return the answer for the user's key, or the first reason why there is none."""
        try:
            return self.installation.query.levels(self.scope, symbol, self.clock.now_ns()).answer
        except NoLicensedSource as problem:
            return str(problem.details["reasons"][0])

    @property
    def live(self) -> bool:
        """Return whether ES and NQ are answered live from the connection."""
        answers = [self.levels(root) for root in ROOTS]
        return all(not isinstance(one, str) and one.live and one.data_source == "personal" for one in answers)

    async def until(self, met: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Wait until a condition is met; `what` names it in the failure."""

        def details() -> str:
            state = [
                (r.name, r.health.phase, r.channel.availability.reason, r.lost_code)
                for r in self.engine.runners.values()
            ]
            return (
                f"{what}: {self.connections.connections(self.user)} {state}; seen {self.seen}; "
                f"reports {self.reports[-8:]}"
            )

        await until(met, details, seconds, poll_s=0.01)

    async def until_phase(self, phase: ConnectionPhase, seconds: float = 60.0) -> None:
        await self.until(lambda: self.row.phase is phase, phase, seconds)

    async def play(self, to_ns: int, step_ns: int = 10 * SECOND) -> None:
        """Advance the market in steps."""
        while self.peer.now_ns < to_ns:
            await self.peer.advance(min(self.peer.now_ns + step_ns, to_ns))
            await asyncio.sleep(0.002)

    async def caught(self) -> None:
        """Wait until every trade before the current time has arrived."""

        def newest() -> bool:
            for contract, rows in self.tapes.items():
                runner = self.engine.runners.get(f"{self.user}/{self.row.broker}/{contract.key}")
                past = rows["ts_event"][rows["ts_event"] < self.peer.now_ns - 2 * MINUTE]
                if runner is None or runner.stream.latest_ns < int(past[-1]):
                    return False
            return True

        await self.until(newest, "all trades")

    async def refined(self) -> None:
        """Wait until trades have replaced all bars of the day, if the vendor has them."""
        began_ns = SESSIONS[SessionKind.ETH][0]
        runners = list(self.engine.runners.values()) if self.peer.history is Quality.TICKS else []
        loop = asyncio.get_running_loop()
        end_s = loop.time() + 60
        for runner in runners:
            while [at for at in await self.engine._recovery.barred_minutes(runner) if at >= began_ns]:
                assert loop.time() < end_s, f"only bars of {runner.name}"
                await asyncio.sleep(0.01)

    async def close_the_day(self) -> None:
        """Play past the close and wait until the session is stored."""
        await self.refined()
        await self.play(CLOSE_NS + 6 * MINUTE, 2 * MINUTE)
        await self.until(
            lambda: all(self._stored_to_the_close(c) for c in (ES, NQ)), "the session stored", 40
        )

    def _stored_to_the_close(self, contract: Contract) -> bool:
        """Return whether the regular session is stored to its close; a part of it may be stored earlier."""
        session = self.session(contract)
        return session is not None and session.last_ns >= CLOSE_NS - 2 * MINUTE

    def session(self, contract: Contract, kind: SessionKind = SessionKind.RTH) -> SessionRow | None:
        """Return a stored session of the day, in the best quality."""
        rows = self.installation.store.sessions([self.user], contract.root)
        found = [row for row in rows if row.trade_date == DAY and row.kind is kind]
        return found[0] if found else None

    def recorded(self, contract: Contract, kind: SessionKind, quality: Quality) -> Rows:
        """Return the stored rows of a session of the day."""
        parts = [
            chunk
            for row in self.installation.store.all_recordings()
            if (row.owner, row.contract, row.quality) == (self.user, contract.key, quality)
            for chunk in self.installation.tape.read(row.file, row.quality)
        ]
        return in_window(np.concatenate(parts), *SESSIONS[kind])

    def equals_the_tape(self) -> None:
        """Assert that the stored overnight and regular sessions are complete and contain exactly the tape's trades.

        The overnight session may stay in bars. Its first hour belongs to the previous trade date, which is stored as
        soon as it is over, with or without its trades. Trades of the rest then form a session that names this hour as
        its hole.
        """
        for contract in (ES, NQ):
            for kind in SESSIONS:
                self._equals_the_tape(contract, kind)

    def _equals_the_tape(self, contract: Contract, kind: SessionKind) -> None:
        session, quality, which = self.session(contract, kind), self.peer.history, (contract.key, kind)
        assert session is not None, which
        truth = in_window(self.tapes[contract], *SESSIONS[kind])
        if kind is SessionKind.ETH and getattr(self.peer, "bars_first", False) and not session.complete:
            assert session.holes == ((SESSIONS[kind][0], BREAK[0]),), (*which, session.holes)
            got = in_window(self.recorded(contract, kind, Quality.TICKS), BREAK[1], OPEN_NS)
            assert _alike(got) == _alike(in_window(truth, BREAK[1], OPEN_NS)), which
            return
        assert session.complete, (*which, self.engine.runners, self.reports[-5:])
        if kind is SessionKind.ETH and session.quality is Quality.BARS_1M:
            quality = Quality.BARS_1M
        assert session.quality is quality, (*which, session.quality)
        got = self.recorded(contract, kind, quality)
        if quality is Quality.TICKS:
            assert _alike(got) == _alike(truth), which
            return
        names = ("ts_event", "open", "high", "low", "close", "volume")
        bars = [tuple(int(row[name]) for name in names) for row in np.sort(got, order="ts_event")]
        assert bars == bars_by_hand(truth, quality.length_ns), which


def _alike(rows: Rows) -> list[tuple[int, int, int]]:
    return sorted(zip(*(rows[name].tolist() for name in ("ts_event", "price", "size")), strict=True))


@asynccontextmanager
async def opened(
    folder: Path, peer: FakePeer
) -> AsyncIterator[tuple[Installation, PeerClock, dict[Contract, Rows]]]:
    """Open a vendor that plays its tape from `BEGIN_NS` on, and an installation on its clock."""
    tapes = {ES: tape_of(ES, peer.resolution_ns, 7), NQ: tape_of(NQ, peer.resolution_ns, 8)}
    for contract, rows in tapes.items():
        peer.tape(contract, rows)
    peer.now_ns = BEGIN_NS
    clock = PeerClock(peer)
    usual_s, health.LINK_TIMEOUT_S = health.LINK_TIMEOUT_S, health.LINK_TIMEOUT_S / SPEEDUP * 2
    await peer.start()
    try:
        with (
            open_installation(Settings(data=str(folder)), clock) as installation,
            installation.log.exclusively(),
        ):
            yield installation, clock, tapes
    finally:
        await peer.stop()
        health.LINK_TIMEOUT_S = usual_s


@asynccontextmanager
async def running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines concurrently until the block ends."""
    beside = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


@asynccontextmanager
async def open_broker_harness(folder: Path, make: Callable[[], FakePeer]) -> AsyncIterator[BrokerHarness]:
    """Open a vendor that plays its tape from `BEGIN_NS` on, and a service with one user without connections."""
    peer = make()
    async with opened(folder, peer) as (installation, clock, tapes):
        harness, supervisor = _build_harness(installation, peer, clock, tapes)
        await harness.engine.start()
        await supervisor.start()
        try:
            async with running(_beat(harness), _watch(harness)):
                yield harness
        finally:
            await supervisor.stop()
            await harness.engine.stop()


def _build_harness(
    installation: Installation, peer: FakePeer, clock: PeerClock, tapes: dict[Contract, Rows]
) -> tuple[BrokerHarness, ConnectionSupervisor]:
    reports: list[str] = []
    reference = installation.reference
    market = Market(
        reference.universe, reference.calendar, clock, installation.licences.of_user,
        lambda: FanOut(installation.licences.audience, clock.now_ns()),
    )  # fmt: skip
    stores = stores_of(installation, installation.log, installation.alerts)
    engine = Engine(
        stores,
        market,
        installation.registry,
        lambda event, **details: reports.append(f"{event} {details}"),
        speedup=SPEEDUP,
    )
    broker = peer.adapter.broker.id
    parts = FeedFactory(
        SqlConnectionStore(installation.database), installation.vault, {broker: peer.adapter}, reference.universe,
        clock, {broker: peer.places}, ConnectionPolicy(local=True), SPEEDUP,
    )  # fmt: skip
    supervisor = ConnectionSupervisor(engine, parts)
    connections = BrokerConnections(parts, supervisor, installation.registry)
    user = installation.store.ensure_user("ann@example.com", clock.now_ns())
    return BrokerHarness(installation, peer, clock, engine, connections, user, reports, tapes), supervisor


async def _beat(harness: BrokerHarness) -> None:
    """Send the vendor's heartbeats also while nothing trades."""
    while True:
        with suppress(ConnectionError):
            await harness.peer.advance(harness.peer.now_ns)
        await asyncio.sleep(0.1)


async def _watch(harness: BrokerHarness) -> None:
    while True:
        if harness.id:
            row = harness.row
            if not harness.seen or harness.seen[-1] != (row.phase, row.code):
                harness.seen.append((row.phase, row.code))
            runners = list(harness.engine.runners.values())
            all_live = len(runners) > 1 and all(runner.channel.availability.live for runner in runners)
            if not harness.answered or harness.answered[-1] is not all_live:
                harness.answered.append(all_live)
        await asyncio.sleep(0.005)
