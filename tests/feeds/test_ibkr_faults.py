"""Interactive Brokers: the fault suite, with a misbehaving fake TWS."""

from pathlib import Path

from support.vendors.ibkr_peer import IbkrPeer
from tests.feeds.broker_harness import BEGIN_NS, MINUTE, BrokerHarness, at
from tests.feeds.fault_suite import LIVE, FaultSuite, finish, live

from outcry.connections.model import ConnectionPhase
from outcry.trades.records import Quality


class TestIbkrFaults(FaultSuite):
    peer = IbkrPeer

    def test_a_refused_login(self, tmp_path: Path) -> None:
        """A TWS without its user hangs up, which it does each night too: it is tried until it greets, by itself."""

        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE)
            refused = harness.peer.refusals
            harness.forget()
            await harness.peer.expire(on=True)
            await harness.until(lambda: harness.peer.refusals - refused > 3, "it was tried again and again")
            assert harness.row.phase is ConnectionPhase.CONNECTING
            assert harness.row.code == "disconnected"
            assert not harness.live
            await harness.play(BEGIN_NS + 2 * MINUTE)
            await harness.peer.expire(on=False)
            await harness.until_phase(LIVE)
            await finish(harness)

        self.run(tmp_path, work)

    def test_bars_remain_until_a_later_feed_provides_the_trades(self, tmp_path: Path) -> None:
        """The trades of half an hour are refused as asked for too fast; the person pauses and resumes, and then they
        come: the session is one of ticks in the end."""

        async def work(harness: BrokerHarness) -> None:
            peer = harness.peer
            assert isinstance(peer, IbkrPeer)
            peer.hurried = (at("2026-11-17 23:00:00"), BEGIN_NS - 5 * MINUTE)
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE)
            runners = list(harness.engine.runners.values())
            assert [runner.quality for runner in runners] == [Quality.BARS_1M] * 2
            assert harness.connections.pause(harness.user, harness.id, harness.clock.now_ns())
            await harness.until(lambda: not harness.engine._feeds.followed, "the streams ended")
            peer.hurried = (0, 0)
            assert harness.connections.resume(harness.user, harness.id, harness.clock.now_ns())
            await harness.until_phase(LIVE)
            await finish(harness)

        self.run(tmp_path, work)
