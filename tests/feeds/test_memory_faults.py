"""The suite of faults where no protocol is in the way: engine, supervisor, store and recording alone."""

from tests.feeds.fault_suite import FaultSuite
from tests.feeds.memory_vendor import MemoryPeer


class TestMemoryFaults(FaultSuite):
    peer = MemoryPeer
