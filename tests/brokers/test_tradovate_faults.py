"""Tradovate survives what every adapter must."""

from tests.brokers.suite import FaultSuite
from tests.brokers.tradovate_peer import TradovatePeer


class TestTradovateFaults(FaultSuite):
    peer = TradovatePeer
