"""Faults that every adapter must survive, through the complete service.

The finally stored session equals the tape, and the displayed connection state is right at each moment. Each test
connects as a user does, 45 minutes into the regular session, makes the vendor misbehave, and plays to the close.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

from support.vendors.peer import FakePeer
from tests.feeds.broker_harness import BEGIN_NS, MINUTE, SECOND, BrokerHarness, open_broker_harness
from tests.timeouts import within

from outcry.connections.model import CheckStep, ConnectionPhase

CONNECTING, CATCHING_UP = ConnectionPhase.CONNECTING, ConnectionPhase.CATCHING_UP
LIVE, DEGRADED = ConnectionPhase.LIVE, ConnectionPhase.DEGRADED
NEEDS_SIGN_IN, PAUSED = ConnectionPhase.NEEDS_SIGN_IN, ConnectionPhase.PAUSED
#: Phases of a connection that is retried; none of them requires the user.
HEALING = {CONNECTING, CATCHING_UP, DEGRADED, LIVE}


class FaultSuite:
    """Base class of an adapter's fault tests; `peer` creates its fake vendor."""

    peer: ClassVar[Callable[[], FakePeer]]

    def run(self, folder: Path, work: Callable[[BrokerHarness], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with open_broker_harness(folder, type(self).peer) as harness:
                await within(work(harness), 240)

        asyncio.run(whole())

    def test_from_connecting_to_the_close(self, tmp_path: Path) -> None:
        """Without faults: 409 before, live after, the session stored and answered after the disconnection."""

        async def work(harness: BrokerHarness) -> None:
            assert harness.levels() == "no_connection"
            await live(harness)
            assert set(harness.phases) <= {CONNECTING, CATCHING_UP, LIVE}, (harness.seen, harness.reports)
            assert (harness.row.phase, harness.row.code) == (LIVE, "live")
            await harness.play(BEGIN_NS + 5 * MINUTE)
            await harness.caught()
            await harness.close_the_day()
            harness.equals_the_tape()
            await harness.until(
                lambda: harness.row.code == "no_trades", "the evening's session, as yet without a trade"
            )
            assert harness.row.phase is LIVE
            assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
            harness.id = 0
            await harness.until(lambda: not harness.engine._feeds.followed, "the streams ended")
            after = harness.levels()
            assert not isinstance(after, str)
            assert (after.data_source, after.live, after.as_of) == ("delayed", False, "2026-11-18")
            assert after.developing is None

        self.run(tmp_path, work)

    def test_a_connection_cut_within_a_record(self, tmp_path: Path) -> None:
        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            for minute in (1, 2, 3):
                await harness.play(BEGIN_NS + minute * MINUTE)
                harness.forget()
                await harness.peer.drop()
                await harness.until(lambda: set(harness.phases) != {LIVE}, "a phase that shows it")
                await harness.until_phase(LIVE)
                assert False in harness.answered, "what broke was answered live all the time"
                assert set(harness.phases) <= HEALING
            await finish(harness)

        self.run(tmp_path, work)

    def test_a_stalled_socket(self, tmp_path: Path) -> None:
        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE)
            harness.forget()
            already_reported = len(harness.reports)
            harness.peer.freeze(on=True)
            await harness.play(BEGIN_NS + MINUTE + 40 * SECOND)
            await harness.until(lambda: harness.row.phase is not LIVE, "a phase that shows it")
            await harness.until(lambda: not harness.live, "delayed answers")
            await harness.until(lambda: harness.row.phase is CONNECTING, "the link given up", 30)
            lost = [line for line in harness.reports[already_reported:] if line.startswith("feed_lost")]
            assert "'code': 'link_silent'" in lost[0], lost
            harness.peer.freeze(on=False)
            await harness.until_phase(LIVE, 40)
            assert set(harness.phases) <= HEALING
            await finish(harness)

        self.run(tmp_path, work)

    def test_repeated_events(self, tmp_path: Path) -> None:
        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            for minute in (1, 2):
                await harness.play(BEGIN_NS + minute * MINUTE)
                await harness.caught()
                harness.peer.repeat(30)
                harness.forget()
                await harness.peer.drop()
                await harness.until(lambda: set(harness.phases) != {LIVE}, "a phase that shows it")
                await harness.until_phase(LIVE)
            await finish(harness)
            assert harness.peer.repeated > 0

        self.run(tmp_path, work)

    def test_a_refused_login(self, tmp_path: Path) -> None:
        """After two refusals nothing is retried until the user enters valid credentials; then nothing is missing."""

        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE)
            refused = harness.peer.refusals
            harness.forget()
            await harness.peer.expire(on=True)
            await harness.until_phase(NEEDS_SIGN_IN, 30)
            assert harness.row.code in {"login_refused", "login_expired"}
            assert not harness.live
            answer = harness.levels()
            assert not isinstance(answer, str)
            assert (answer.data_source, answer.live, answer.as_of) == ("delayed", False, "2026-11-17")
            assert harness.peer.refusals - refused == 2
            await asyncio.sleep(0.5)  # ten pauses of the first kind
            assert harness.peer.refusals - refused == 2, "a login that was refused twice was tried again"
            await harness.play(BEGIN_NS + 2 * MINUTE)
            await harness.peer.expire(on=False)
            assert harness.connections.renew(
                harness.user, harness.id, harness.peer.given, harness.clock.now_ns()
            )
            await harness.until_phase(LIVE)
            assert harness.live
            await finish(harness)

        self.run(tmp_path, work)

    def test_a_burst_in_the_wrong_order(self, tmp_path: Path) -> None:
        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE)
            await harness.caught()
            late = harness.engine.counted()["late"]
            harness.peer.shuffle(40)
            await harness.play(BEGIN_NS + 3 * MINUTE, 30 * SECOND)
            await harness.caught()
            assert harness.engine.counted()["late"] > late, "it came in order"
            assert harness.live
            await harness.until_phase(LIVE)  # stored a moment later
            await finish(harness)

        self.run(tmp_path, work)

    def test_a_vendor_that_is_unavailable_for_three_minutes(self, tmp_path: Path) -> None:
        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE + 20 * SECOND)
            harness.forget()
            harness.peer.freeze(on=True)
            await harness.peer.drop()
            await harness.until(lambda: harness.row.phase is CONNECTING, "the loss shown")
            await harness.play(BEGIN_NS + 4 * MINUTE + 20 * SECOND)
            assert not harness.live
            assert harness.row.phase is not LIVE
            harness.peer.freeze(on=False)
            await harness.until_phase(LIVE, 40)
            assert harness.live
            await finish(harness)

        self.run(tmp_path, work)

    def test_a_clock_offset(self, tmp_path: Path) -> None:
        """Our clock is three seconds behind the exchange's, then three ahead; brackets follow the exchange's clock."""

        async def work(harness: BrokerHarness) -> None:
            harness.clock.off_ns = -3 * SECOND
            await live(harness)
            await harness.play(BEGIN_NS + 2 * MINUTE)
            await harness.until(
                lambda: any(map(reports_clock_drift, harness.reports)), "the report of the drift"
            )
            harness.clock.off_ns = 3 * SECOND
            await harness.play(BEGIN_NS + 4 * MINUTE)
            await harness.caught()
            assert harness.row.phase is LIVE
            assert harness.live
            await finish(harness)

        self.run(tmp_path, work)

    def test_pausing_checking_and_resuming(self, tmp_path: Path) -> None:
        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            found = await harness.connections.check(harness.user, harness.id)
            assert found is not None
            assert {(f.step, f.passed) for f in found} == {(step, True) for step in CheckStep}, found
            assert harness.connections.pause(harness.user, harness.id, harness.clock.now_ns())
            await harness.until(lambda: not harness.engine._feeds.followed, "the streams ended")
            assert (harness.row.phase, harness.row.code) == (PAUSED, "paused")
            assert not harness.live
            found = await harness.connections.check(harness.user, harness.id)
            assert found is not None
            tried = {(f.step, f.passed) for f in found if f.step is not CheckStep.LIVE}
            assert tried == {(step, True) for step in CheckStep if step is not CheckStep.LIVE}, found
            await harness.play(BEGIN_NS + MINUTE)
            assert harness.row.phase is PAUSED
            assert harness.connections.resume(harness.user, harness.id, harness.clock.now_ns())
            await harness.until_phase(LIVE)
            await finish(harness)

        self.run(tmp_path, work)


async def live(harness: BrokerHarness) -> None:
    """Connect, and wait until both products are answered live."""
    harness.connect()
    await harness.until_phase(LIVE, 40)
    await harness.until(lambda: harness.live, "a live answer")


def reports_clock_drift(report: str) -> bool:
    """Return whether a report says that the vendor's clock is seconds ahead of ours."""
    return report.startswith("clock_drift") and "'drift_ms': -2" in report


async def finish(harness: BrokerHarness) -> None:
    """Play a few minutes and to the close, and assert that the stored sessions equal the tape."""
    await harness.play(harness.peer.now_ns + 3 * MINUTE)
    await harness.caught()
    assert harness.row.phase is LIVE
    assert harness.live
    await harness.close_the_day()
    harness.equals_the_tape()
