"""tastytrade: the fault suite, with a server that stores past sales."""

import pytest
from support.vendors.tastytrade_peer import BarsOnlyPeer, TastytradePeer
from tests.feeds.fault_suite import FaultSuite

from outcry.feeds.tastytrade import stream


class TestTastytradeFaults(FaultSuite):
    peer = TastytradePeer

    @pytest.fixture(autouse=True)
    def _patiently(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The suite's speedup leaves a past of sales a seventh of a second to begin, which a busy machine misses."""
        monkeypatch.setattr(stream, "UNKNOWN_HISTORY_S", stream.KNOWN_HISTORY_S)


class TestTastytradeBarsFaults(FaultSuite):
    """Where it keeps candles only."""

    peer = BarsOnlyPeer
