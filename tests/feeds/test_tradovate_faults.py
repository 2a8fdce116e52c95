"""Tradovate: the fault suite."""

from support.vendors.tradovate_peer import TradovatePeer
from tests.feeds.fault_suite import FaultSuite


class SmallPagesPeer(TradovatePeer):
    """As on a day when the vendor gives little at a time: history takes a page for every few minutes of trading."""

    def __init__(self) -> None:
        super().__init__()
        self.page = 200


class TestTradovateFaults(FaultSuite):
    peer = SmallPagesPeer
