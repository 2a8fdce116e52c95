"""The event stream in the OpenAPI document.

OpenAPI cannot describe events, so the text names them and the schemas are listed with the others.
"""

from typing import Any

from outcry.api.stream import STREAM, TICKET
from outcry.api.tickets import LIFETIME_S
from outcry.wire.stream import Quote, Snapshot, State, Ticket

STREAM_SCHEMAS = (Snapshot, Quote, State, Ticket)
STREAM_ERRORS = ("unknown_symbol",)

_EVENTS = """Server-sent events; `data` is one line of JSON:

- `snapshot` (`Snapshot`): the first event; the current state of all requested symbols. Has an `id`.
- `levels` (`LevelsAnswer`): something other than the last price changed.
- `quote` (`Quote`): only the last price and values derived from it changed.
- `alert` (`AlertEntry`): a new alert; alerts arrive in order. Has an `id`.
- `state` (`State`): the data source of a symbol changed, or the reason why it is not live.
- `error` (`{"code": "unauthorized"}`): the key is revoked or expired, or its user is disabled; the stream ends.

The server sends `levels` and `quote` at most four times a second for each symbol, always with the newest values. After
15 seconds without an event it sends a comment. To resume, reconnect with the `id` of the last event received: the
server sends every alert since then, followed by a `snapshot` without those alerts."""


def stream_paths(
    headers: dict[str, Any], refusals: dict[str, Any], counted: dict[str, Any]
) -> dict[str, Any]:
    """Return the OpenAPI operations of the event stream and of its ticket.

    `headers`: of all responses; `refusals`, `counted`: errors of stream and ticket.
    """
    return {
        STREAM: {"get": _stream_operation(headers, refusals)},
        TICKET: {"post": _ticket_operation(headers, counted)},
    }


def _stream_operation(headers: dict[str, Any], refusals: dict[str, Any]) -> dict[str, Any]:
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": "getStream",
        "tags": ["Stream"],
        "summary": "Stream levels and alerts as they change.",
        "description": _EVENTS,
        "security": [{"ApiKey": []}, {"Ticket": []}],
        "parameters": [
            _text("symbols", "query", "Comma-separated symbols; default: all symbols this key can see."),
            _text("symbol", "query", "Alias of `symbols`; send only one of the two."),
            _text(
                "lastEventId",
                "query",
                "Same as the header `Last-Event-ID`, for clients that cannot set headers.",
            ),
            _text("Last-Event-ID", "header", "The `id` of the last event received."),
        ],
        "responses": {
            "200": {"description": "The event stream.", "headers": headers, "content": stream},
            **refusals,
        },
    }


def _ticket_operation(headers: dict[str, Any], refusals: dict[str, Any]) -> dict[str, Any]:
    ticket = {"application/json": {"schema": {"$ref": f"#/components/schemas/{Ticket.__name__}"}}}
    return {
        "operationId": "postStreamTicket",
        "tags": ["Stream"],
        "summary": f"Create a ticket that opens one stream from a web page within {LIFETIME_S} seconds.",
        "responses": {
            "200": {
                "description": "The ticket: send it as the parameter `ticket` instead of a key.",
                "headers": headers,
                "content": ticket,
            },
            **refusals,
        },
    }


TICKET_SCHEME = {
    "type": "apiKey",
    "in": "query",
    "name": "ticket",
    "description": "A ticket from `POST /api/stream/ticket`, instead of a key. Valid once, for `/api/stream` only.",
}


def _text(name: str, place: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": place, "description": text, "schema": {"type": "string"}}
