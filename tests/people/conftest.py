"""The certificate authority and event loops of the delivery tests, for the OpenID tests."""

from tests.delivery.conftest import authority, context, run

__all__ = ["authority", "context", "run"]
