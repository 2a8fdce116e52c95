"""Interactive Brokers through the whole house, with a TWS that misbehaves."""

from pathlib import Path

from support.vendors.ibkr_peer import IbkrPeer
from tests.feeds.broker_harness import BEGIN_NS, MINUTE, Stage, at
from tests.feeds.fault_suite import LIVE, FaultSuite, finish, live

from outcry.connections.model import ConnectionPhase
from outcry.trades.records import Quality


class TestIbkrFaults(FaultSuite):
    peer = IbkrPeer

    def test_a_login_that_ends(self, tmp_path: Path) -> None:
        """A TWS without its user hangs up, which it does each night too: it is tried until it greets, by itself."""

        async def work(stage: Stage) -> None:
            await live(stage)
            await stage.play(BEGIN_NS + MINUTE)
            refused = stage.peer.refusals
            stage.forget()
            await stage.peer.expire(on=True)
            await stage.until(lambda: stage.peer.refusals - refused > 3, "it was tried again and again")
            assert stage.row.phase is ConnectionPhase.CONNECTING
            assert stage.row.code == "disconnected"
            assert not stage.live
            await stage.play(BEGIN_NS + 2 * MINUTE)
            await stage.peer.expire(on=False)
            await stage.until_phase(LIVE)
            await finish(stage)

        self.run(tmp_path, work)

    def test_bars_stand_until_a_later_feed_brings_the_trades(self, tmp_path: Path) -> None:
        """The trades of half an hour are refused as asked for too fast; the person pauses and resumes, and then they
        come: the session is one of ticks in the end."""

        async def work(stage: Stage) -> None:
            peer = stage.peer
            assert isinstance(peer, IbkrPeer)
            peer.hurried = (at("2026-11-17 23:00:00"), BEGIN_NS - 5 * MINUTE)
            await live(stage)
            await stage.play(BEGIN_NS + MINUTE)
            runners = list(stage.engine.runners.values())
            assert [runner.quality for runner in runners] == [Quality.BARS_1M] * 2
            assert stage.connections.pause(stage.user, stage.id, stage.clock.now_ns())
            await stage.until(lambda: not stage.engine._feeds.followed, "the streams ended")
            peer.hurried = (0, 0)
            assert stage.connections.resume(stage.user, stage.id, stage.clock.now_ns())
            await stage.until_phase(LIVE)
            await finish(stage)

        self.run(tmp_path, work)
