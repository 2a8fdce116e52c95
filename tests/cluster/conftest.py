"""Real servers, as the contract suites have them."""

from tests.contract.conftest import jetstream, jetstream_server

__all__ = ["jetstream", "jetstream_server"]
