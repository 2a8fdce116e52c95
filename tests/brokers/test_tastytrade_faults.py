"""What a connection to tastytrade survives, where the server keeps a past of sales."""

from tests.brokers.suite import FaultSuite
from tests.brokers.tastytrade_peer import BarsOnlyPeer, TastytradePeer


class TestTastytradeFaults(FaultSuite):
    peer = TastytradePeer


class TestTastytradeOfBarsFaults(FaultSuite):
    """Where it keeps candles only."""

    peer = BarsOnlyPeer
