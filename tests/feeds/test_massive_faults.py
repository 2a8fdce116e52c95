"""Massive through the whole house, misbehaving."""

from support.vendors.massive_peer import MassivePeer
from tests.feeds.fault_suite import FaultSuite


class TestMassiveFaults(FaultSuite):
    peer = MassivePeer
