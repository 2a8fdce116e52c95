"""Hyperliquid: the fault suite. It has no login; instead the vendor may refuse an IP address."""

from pathlib import Path

from support.vendors.hyperliquid_peer import HyperliquidPeer
from tests.feeds.broker_harness import BEGIN_NS, MINUTE, SECOND, BrokerHarness
from tests.feeds.fault_suite import HEALING, LIVE, FaultSuite, finish, live


class TestHyperliquidFaults(FaultSuite):
    peer = HyperliquidPeer

    def test_a_refused_login(self, tmp_path: Path) -> None:
        """A refused IP address is tried again, with growing pauses, until the vendor accepts it."""

        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE)
            harness.forget()
            await harness.peer.expire(on=True)
            await harness.until(lambda: harness.row.phase is not LIVE, "a phase that shows it")
            await harness.until(lambda: not harness.live, "delayed answers")
            assert harness.row.phase in HEALING
            await harness.play(BEGIN_NS + 2 * MINUTE)
            await harness.peer.expire(on=False)
            await harness.until_phase(LIVE)
            await finish(harness)

        self.run(tmp_path, work)

    def test_requests_refused_for_their_number(self, tmp_path: Path) -> None:
        """After an interruption the vendor refuses the first requests with HTTP 429."""

        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + MINUTE)
            harness.forget()
            assert isinstance(harness.peer, HyperliquidPeer)
            harness.peer.busy = 3
            await harness.peer.drop()
            await harness.until(lambda: harness.row.phase is not LIVE, "a phase that shows it")
            await harness.until_phase(LIVE)
            assert set(harness.phases) <= HEALING
            assert harness.peer.busy == 0
            await finish(harness)

        self.run(tmp_path, work)

    def test_no_trades_over_a_healthy_connection(self, tmp_path: Path) -> None:
        """The vendor answers pings but sends no trades for 3 minutes, and then all of them."""

        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            await harness.play(BEGIN_NS + 2 * MINUTE)
            await harness.caught()
            assert isinstance(harness.peer, HyperliquidPeer)
            with harness.peer.holding_trades():
                await harness.play(BEGIN_NS + 5 * MINUTE)
                assert harness.row.phase in HEALING
            await finish(harness)

        self.run(tmp_path, work)

    def test_our_clock_jumps_by_an_hour_and_back(self, tmp_path: Path) -> None:
        """Brackets and sessions follow the times of trades, not our clock."""

        async def work(harness: BrokerHarness) -> None:
            await live(harness)
            for off_ns in (3_600 * SECOND, -3_600 * SECOND, 0):
                harness.clock.off_ns = off_ns
                await harness.play(harness.peer.now_ns + MINUTE)
            await harness.until_phase(LIVE)
            await harness.until(lambda: harness.live, "a live answer")
            await finish(harness)

        self.run(tmp_path, work)
