"""What the OpenAPI document says of the event stream. OpenAPI has no words for events: they are named in the text, and
their schemas stand with the others."""

from typing import Any

from outcry.api.stream import STREAM, TICKET, Ticket
from outcry.api.tickets import LIFETIME_S
from outcry.services.streaming import Quote, Snapshot, State

STREAM_SCHEMAS = (Snapshot, Quote, State, Ticket)
STREAM_ERRORS = ("unknown_symbol",)

_EVENTS = """Server-sent events; `data` is one line of JSON:

- `snapshot` (`Snapshot`): first of all; everything as it stands. With an `id`.
- `levels` (`LevelsAnswer`): something other than the last price changed.
- `quote` (`Quote`): only the last price did, and what follows from it.
- `alert` (`AlertEntry`): each one, in order. With an `id`.
- `state` (`State`): a symbol is answered from another source, or why it is not live has changed.
- `error` (`{"code": "unauthorized"}`): the key was revoked, its time is over or its user is disabled; the stream ends.

A symbol's `levels` and `quote` come four times a second at most, the newest always. 15 seconds of silence are broken by
a comment. Coming back with the `id` of the last event seen, a reader is told every alert since, then a `snapshot` that
repeats none."""


def stream_paths(
    headers: dict[str, Any], refusals: dict[str, Any], counted: dict[str, Any]
) -> dict[str, Any]:
    """The two operations. `headers` of every response; `refusals` of the stream, `counted` of the ticket."""
    return {
        STREAM: {"get": _stream_operation(headers, refusals)},
        TICKET: {"post": _ticket_operation(headers, counted)},
    }


def _stream_operation(headers: dict[str, Any], refusals: dict[str, Any]) -> dict[str, Any]:
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": "getStream",
        "summary": "Levels and alerts as they happen.",
        "description": _EVENTS,
        "security": [{"ApiKey": []}, {"Ticket": []}],
        "parameters": [
            _text("symbols", "query", "Symbols between commas; everything that can be seen if absent."),
            _text("symbol", "query", "Another name for `symbols`; not beside it."),
            _text("lastEventId", "query", "As the header `Last-Event-ID`, for clients that cannot set it."),
            _text("Last-Event-ID", "header", "The `id` of the last event seen."),
        ],
        "responses": {
            "200": {"description": "The stream.", "headers": headers, "content": stream},
            **refusals,
        },
    }


def _ticket_operation(headers: dict[str, Any], refusals: dict[str, Any]) -> dict[str, Any]:
    ticket = {"application/json": {"schema": {"$ref": f"#/components/schemas/{Ticket.__name__}"}}}
    return {
        "operationId": "postStreamTicket",
        "summary": f"A ticket that opens one stream within {LIFETIME_S} seconds, for pages.",
        "responses": {
            "200": {
                "description": "The ticket: give it as the parameter `ticket` instead of a key.",
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
    "description": "For `/api/stream` only, once, in place of the key.",
}


def _text(name: str, place: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": place, "description": text, "schema": {"type": "string"}}
