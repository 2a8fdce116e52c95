"""ProjectX: the fault suite."""

from support.vendors.projectx_peer import ProjectXPeer
from tests.feeds.fault_suite import FaultSuite


class TestProjectXFaults(FaultSuite):
    peer = ProjectXPeer
