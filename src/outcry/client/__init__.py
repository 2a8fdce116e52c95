"""A typed client of a running service, on the standard library's HTTP and the service's own answers."""

from outcry.answers.alerts import AlertEntry
from outcry.client.errors import ApiError, Unreachable
from outcry.client.reader import Client
from outcry.client.stream import Snapshot, StreamEvent

__all__ = ["AlertEntry", "ApiError", "Client", "Snapshot", "StreamEvent", "Unreachable"]
