"""Hyperliquid: the fault suite. It has no login; instead the vendor may refuse an IP address."""

from pathlib import Path

from support.vendors.hyperliquid_peer import HyperliquidPeer
from tests.feeds.broker_harness import BEGIN_NS, MINUTE, BrokerHarness
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
