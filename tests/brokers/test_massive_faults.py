"""Massive through the whole house, misbehaving."""

from tests.brokers.massive_peer import MassivePeer
from tests.brokers.suite import FaultSuite


class TestMassiveFaults(FaultSuite):
    peer = MassivePeer
