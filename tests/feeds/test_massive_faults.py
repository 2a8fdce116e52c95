"""Massive: the fault suite."""

from support.vendors.massive_peer import MassivePeer
from tests.feeds.fault_suite import FaultSuite


class TestMassiveFaults(FaultSuite):
    peer = MassivePeer
