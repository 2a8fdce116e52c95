"""The suite of faults where no protocol is in the way: engine, supervisor, store and recording alone."""

from tests.brokers.memory_peer import MemoryPeer
from tests.brokers.suite import FaultSuite


class TestMemoryFaults(FaultSuite):
    peer = MemoryPeer
