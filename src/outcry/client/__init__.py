"""A typed client of a running service, on the standard library's HTTP and the service's own answers."""

from outcry.client.errors import ApiError, Unreachable
from outcry.client.reader import Client

__all__ = ["ApiError", "Client", "Unreachable"]
