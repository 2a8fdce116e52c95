"""Databento: the fault suite."""

from support.vendors.databento_peer import DatabentoPeer
from tests.feeds.fault_suite import FaultSuite


class TestDatabentoFaults(FaultSuite):
    peer = DatabentoPeer
