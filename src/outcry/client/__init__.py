"""A typed client for the HTTP API, the event stream and webhooks. It needs msgspec only, and imports no server code."""

from outcry.client.async_client import AsyncClient
from outcry.client.errors import (
    ERRORS,
    ApiError,
    Forbidden,
    InternalError,
    InvalidParameter,
    InvalidRequest,
    MethodNotAllowed,
    MissingSymbol,
    NoLicensedSource,
    NotFound,
    RateLimited,
    Starting,
    Unauthorized,
    UnknownSymbol,
    Unreachable,
    UpstreamUnavailable,
)
from outcry.client.stream import Snapshot, StreamEvent
from outcry.client.sync_client import Client
from outcry.client.webhooks import InvalidWebhook, verify_webhook
from outcry.wire.alerts import AlertEntry
from outcry.wire.stream import Quote, State

__all__ = [
    "ERRORS",
    "AlertEntry",
    "ApiError",
    "AsyncClient",
    "Client",
    "Forbidden",
    "InternalError",
    "InvalidParameter",
    "InvalidRequest",
    "InvalidWebhook",
    "MethodNotAllowed",
    "MissingSymbol",
    "NoLicensedSource",
    "NotFound",
    "Quote",
    "RateLimited",
    "Snapshot",
    "Starting",
    "State",
    "StreamEvent",
    "Unauthorized",
    "UnknownSymbol",
    "Unreachable",
    "UpstreamUnavailable",
    "verify_webhook",
]
