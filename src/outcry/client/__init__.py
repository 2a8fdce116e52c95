"""A typed client for the HTTP API and the event stream, on the standard library's HTTP. It imports no server code."""

from outcry.client.errors import ApiError, Unreachable
from outcry.client.reader import Client
from outcry.client.stream import Snapshot, StreamEvent
from outcry.wire.alerts import AlertEntry

__all__ = ["AlertEntry", "ApiError", "Client", "Snapshot", "StreamEvent", "Unreachable"]
