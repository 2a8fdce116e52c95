"""Real servers, shared with the contract suites."""

from tests.contract.conftest import jetstream, jetstream_server, postgres

__all__ = ["jetstream", "jetstream_server", "postgres"]
