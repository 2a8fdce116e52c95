"""What every adapter must survive, through the whole house: the session that is stored in the end equals the tape, and
what is shown of the connection is right at each moment.

Each test connects as a person does, at three quarters of the regular session's first hour, has the vendor misbehave,
and plays to the close.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

from support.vendors.peer import FakePeer
from tests.feeds.broker_harness import BEGIN_NS, MINUTE, SECOND, Stage, staged
from tests.timeouts import within

from outcry.connections.model import CheckStep, ConnectionPhase

CONNECTING, CATCHING_UP = ConnectionPhase.CONNECTING, ConnectionPhase.CATCHING_UP
LIVE, DEGRADED = ConnectionPhase.LIVE, ConnectionPhase.DEGRADED
NEEDS_SIGN_IN, PAUSED = ConnectionPhase.NEEDS_SIGN_IN, ConnectionPhase.PAUSED
#: What a connection goes through while it is tried again: none of these stands for a state that needs a person.
HEALING = {CONNECTING, CATCHING_UP, DEGRADED, LIVE}


class FaultSuite:
    """Base of the tests of one adapter. `peer`: makes its vendor."""

    peer: ClassVar[Callable[[], FakePeer]]

    def run(self, folder: Path, work: Callable[[Stage], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with staged(folder, type(self).peer) as stage:
                await within(work(stage), 240)

        asyncio.run(whole())

    def test_from_connecting_to_the_close(self, tmp_path: Path) -> None:
        """No fault at all: 409 before, live after, the session stored; after disconnecting it is the delayed answer."""

        async def work(stage: Stage) -> None:
            assert stage.levels() == "no_connection"
            await live(stage)
            assert set(stage.phases) <= {CONNECTING, CATCHING_UP, LIVE}, (stage.seen, stage.told)
            assert (stage.row.phase, stage.row.code) == (LIVE, "live")
            await stage.play(BEGIN_NS + 5 * MINUTE)
            await stage.caught()
            await stage.close_the_day()
            stage.equals_the_tape()
            await stage.until(
                lambda: stage.row.code == "no_trades", "the evening's session, as yet without a trade"
            )
            assert stage.row.phase is LIVE
            assert stage.connections.disconnect(stage.user, stage.id, stage.clock.now_ns())
            stage.id = 0
            await stage.until(lambda: not stage.engine._feeds.followed, "the streams ended")
            after = stage.levels()
            assert not isinstance(after, str)
            assert (after.data_source, after.live, after.as_of) == ("delayed", False, "2026-11-18")
            assert after.developing is None

        self.run(tmp_path, work)

    def test_a_link_cut_in_the_middle_of_a_record(self, tmp_path: Path) -> None:
        async def work(stage: Stage) -> None:
            await live(stage)
            for minute in (1, 2, 3):
                await stage.play(BEGIN_NS + minute * MINUTE)
                stage.forget()
                await stage.peer.drop()
                await stage.until(lambda: set(stage.phases) != {LIVE}, "a phase that shows it")
                await stage.until_phase(LIVE)
                assert False in stage.answered, "what broke was answered live all the time"
                assert set(stage.phases) <= HEALING
            await finish(stage)

        self.run(tmp_path, work)

    def test_a_socket_that_stays_open_and_says_nothing(self, tmp_path: Path) -> None:
        async def work(stage: Stage) -> None:
            await live(stage)
            await stage.play(BEGIN_NS + MINUTE)
            stage.forget()
            said = len(stage.told)
            stage.peer.freeze(on=True)
            await stage.play(BEGIN_NS + MINUTE + 40 * SECOND)
            await stage.until(lambda: stage.row.phase is not LIVE, "a phase that shows it")
            await stage.until(lambda: not stage.live, "delayed answers")
            await stage.until(lambda: stage.row.phase is CONNECTING, "the link given up", 30)
            lost = [told for told in stage.told[said:] if told.startswith("feed_lost")]
            assert "'code': 'link_silent'" in lost[0], lost
            stage.peer.freeze(on=False)
            await stage.until_phase(LIVE, 40)
            assert set(stage.phases) <= HEALING
            await finish(stage)

        self.run(tmp_path, work)

    def test_what_was_sent_before_comes_again(self, tmp_path: Path) -> None:
        async def work(stage: Stage) -> None:
            await live(stage)
            for minute in (1, 2):
                await stage.play(BEGIN_NS + minute * MINUTE)
                await stage.caught()
                stage.peer.repeat(30)
                stage.forget()
                await stage.peer.drop()
                await stage.until(lambda: set(stage.phases) != {LIVE}, "a phase that shows it")
                await stage.until_phase(LIVE)
            await finish(stage)
            assert stage.peer.repeated > 0

        self.run(tmp_path, work)

    def test_a_login_that_ends(self, tmp_path: Path) -> None:
        """After two refusals nobody tries again until the person has entered what is right; then nothing is missing."""

        async def work(stage: Stage) -> None:
            await live(stage)
            await stage.play(BEGIN_NS + MINUTE)
            refused = stage.peer.refusals
            stage.forget()
            await stage.peer.expire(on=True)
            await stage.until_phase(NEEDS_SIGN_IN, 30)
            assert stage.row.code in {"login_refused", "login_expired"}
            assert not stage.live
            answer = stage.levels()
            assert not isinstance(answer, str)
            assert (answer.data_source, answer.live, answer.as_of) == ("delayed", False, "2026-11-17")
            assert stage.peer.refusals - refused == 2
            await asyncio.sleep(0.5)  # ten pauses of the first kind
            assert stage.peer.refusals - refused == 2, "a login that was refused twice was tried again"
            await stage.play(BEGIN_NS + 2 * MINUTE)
            await stage.peer.expire(on=False)
            assert stage.connections.renew(stage.user, stage.id, stage.peer.given, stage.clock.now_ns())
            await stage.until_phase(LIVE)
            assert stage.live
            await finish(stage)

        self.run(tmp_path, work)

    def test_a_burst_out_of_order(self, tmp_path: Path) -> None:
        async def work(stage: Stage) -> None:
            await live(stage)
            await stage.play(BEGIN_NS + MINUTE)
            await stage.caught()
            late = stage.engine.counted()["late"]
            stage.peer.shuffle(40)
            await stage.play(BEGIN_NS + 3 * MINUTE, 30 * SECOND)
            await stage.caught()
            assert stage.engine.counted()["late"] > late, "it came in order"
            assert stage.live
            assert stage.row.phase is LIVE
            await finish(stage)

        self.run(tmp_path, work)

    def test_three_minutes_without_a_vendor(self, tmp_path: Path) -> None:
        async def work(stage: Stage) -> None:
            await live(stage)
            await stage.play(BEGIN_NS + MINUTE + 20 * SECOND)
            stage.forget()
            stage.peer.freeze(on=True)
            await stage.peer.drop()
            await stage.until(lambda: stage.row.phase is CONNECTING, "the loss shown")
            await stage.play(BEGIN_NS + 4 * MINUTE + 20 * SECOND)
            assert not stage.live
            assert stage.row.phase is not LIVE
            stage.peer.freeze(on=False)
            await stage.until_phase(LIVE, 40)
            assert stage.live
            await finish(stage)

        self.run(tmp_path, work)

    def test_a_clock_that_is_off(self, tmp_path: Path) -> None:
        """Ours is three seconds behind, then three ahead of the exchange's: brackets go by the exchange's."""

        async def work(stage: Stage) -> None:
            stage.clock.off_ns = -3 * SECOND
            await live(stage)
            await stage.play(BEGIN_NS + 2 * MINUTE)
            await stage.until(lambda: any(map(apart, stage.told)), "being told of it")
            stage.clock.off_ns = 3 * SECOND
            await stage.play(BEGIN_NS + 4 * MINUTE)
            await stage.caught()
            assert stage.row.phase is LIVE
            assert stage.live
            await finish(stage)

        self.run(tmp_path, work)

    def test_pausing_checking_and_going_on(self, tmp_path: Path) -> None:
        async def work(stage: Stage) -> None:
            await live(stage)
            found = await stage.connections.check(stage.user, stage.id)
            assert found is not None
            assert {(f.step, f.passed) for f in found} == {(step, True) for step in CheckStep}, found
            assert stage.connections.pause(stage.user, stage.id, stage.clock.now_ns())
            await stage.until(lambda: not stage.engine._feeds.followed, "the streams ended")
            assert (stage.row.phase, stage.row.code) == (PAUSED, "paused")
            assert not stage.live
            found = await stage.connections.check(stage.user, stage.id)
            assert found is not None
            tried = {(f.step, f.passed) for f in found if f.step is not CheckStep.LIVE}
            assert tried == {(step, True) for step in CheckStep if step is not CheckStep.LIVE}, found
            await stage.play(BEGIN_NS + MINUTE)
            assert stage.row.phase is PAUSED
            assert stage.connections.resume(stage.user, stage.id, stage.clock.now_ns())
            await stage.until_phase(LIVE)
            await finish(stage)

        self.run(tmp_path, work)


async def live(stage: Stage) -> None:
    """Connect, and wait until both products are answered live."""
    stage.connect()
    await stage.until_phase(LIVE, 40)
    await stage.until(lambda: stage.live, "a live answer")


def apart(told: str) -> bool:
    """Whether this says that the vendor's clock is seconds ahead of ours."""
    return told.startswith("clock_drift") and "'drift_ms': -2" in told


async def finish(stage: Stage) -> None:
    """Play a few minutes more and to the close: what is stored equals the tape."""
    await stage.play(stage.peer.now_ns + 3 * MINUTE)
    await stage.caught()
    assert stage.row.phase is LIVE
    assert stage.live
    await stage.close_the_day()
    stage.equals_the_tape()
