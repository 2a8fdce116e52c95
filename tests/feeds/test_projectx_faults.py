"""ProjectX through the whole house, misbehaving."""

from support.vendors.projectx_peer import ProjectXPeer
from tests.feeds.fault_suite import FaultSuite


class TestProjectXFaults(FaultSuite):
    peer = ProjectXPeer
