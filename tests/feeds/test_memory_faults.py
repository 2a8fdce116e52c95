"""In-memory vendor: the fault suite without a protocol, for engine, supervisor, store and recording."""

from tests.feeds.fault_suite import FaultSuite
from tests.feeds.memory_vendor import MemoryPeer


class TestMemoryFaults(FaultSuite):
    peer = MemoryPeer
