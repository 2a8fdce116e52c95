"""Interactive Brokers through the whole house, with a TWS that misbehaves."""

from tests.brokers.ibkr_peer import IbkrPeer
from tests.brokers.suite import FaultSuite


class TestIbkrFaults(FaultSuite):
    peer = IbkrPeer
