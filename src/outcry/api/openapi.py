"""OpenAPI 3.1 document, built from the endpoint table and the answer types.

Tests send allowed and forbidden requests and compare the results with the document. They also compare it with the copy
in the repository.
"""

import sys
from typing import Any

import msgspec

from outcry import __version__
from outcry.api.endpoints import ENDPOINTS, Endpoint, Parameter
from outcry.api.error_document import error_schema, refusal, refusals, refused
from outcry.api.parameters import LONGEST_SYMBOL, MOST_LISTED, SPAN_PATTERN
from outcry.api.recorded_examples import examples_of
from outcry.api.stream_document import STREAM_ERRORS, STREAM_SCHEMAS, TICKET_SCHEME, stream_paths
from outcry.api.webhook_document import webhooks
from outcry.http.errors import JSON_TYPE
from outcry.market.saved_setting import NAME_PATTERN
from outcry.market.units import PRICE_PATTERN
from outcry.wire.answers import DISCLAIMER
from outcry.wire.webhooks import WebhookBody

_REF = "#/components/schemas/{name}"
_TAGS = {
    "Levels": "Key levels of a symbol, and the details behind them.",
    "Alerts": "Market-structure alerts of today and of the past.",
    "Profiles": "Rows, levels and chart data of sessions.",
    "Symbols": "Products and the data that a key can see.",
    "Stream": "Server-sent events.",
    "Webhooks": "Requests that Outcry sends to your endpoint.",
}

HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Api-Tier": (
        "Tier of the key; `anonymous` without a valid key.",
        {"type": "string", "enum": ["anonymous", "free", "pro", "admin"]},
    ),
    "X-RateLimit-Limit": (
        "Maximum number of requests in any 60 seconds.",
        {"type": "integer", "enum": [30, 120, 600]},
    ),
    "X-RateLimit-Remaining": (
        "Requests left in the current 60-second window.",
        {"type": "integer", "minimum": 0},
    ),
    "X-RateLimit-Reset": (
        "Seconds until the full limit is available again.",
        {"type": "integer", "minimum": 0, "maximum": 60},
    ),
    "RateLimit": ("Remaining requests and reset time as an IETF structured field.", {"type": "string"}),
    "RateLimit-Policy": ("Rate limit as an IETF structured field.", {"type": "string"}),
    "X-Request-Id": (
        "Id of this request; include it when you report an error.",
        {"type": "string", "minLength": 1, "maxLength": 64},
    ),
}


def build_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    answers = [*(row.answer for row in ENDPOINTS), *STREAM_SCHEMAS, WebhookBody]
    _, schemas = msgspec.json.schema_components(answers, ref_template=_REF)
    schemas = {name: _with_numbers(_untitled(schema)) for name, schema in sorted(schemas.items())}
    schemas["Error"] = error_schema()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Outcry",
            "version": __version__,
            "summary": "Market profile levels and alerts of futures, computed from trades by published rules.",
            "description": f"{DISCLAIMER} Branch on `code`, never on `message`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"ApiKey": []}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": {row.path: {"get": _operation(row)} for row in ENDPOINTS}
        | stream_paths(_headers(), refused(STREAM_ERRORS), refused(())),
        "webhooks": webhooks(),
        "components": {
            "schemas": schemas,
            "responses": {
                ".".join(codes): refusal(status, codes, _headers())
                for errors in (*(row.errors for row in ENDPOINTS), STREAM_ERRORS, ())
                for status, codes in refusals(errors)
            },
            "headers": {
                name: {"description": text, "required": True, "schema": schema}
                for name, (text, schema) in HEADERS.items()
            },
            "securitySchemes": {
                "ApiKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-api-key",
                    "description": "Send the key in this header only, once. The server refuses a key in the URL.",
                },
                "Ticket": TICKET_SCHEME,
            },
        },
    }


def _operation(row: Endpoint) -> dict[str, Any]:
    responses = {"200": _success(row), "304": _not_modified(), **refused(row.errors)}
    return {
        "operationId": row.operation,
        "tags": [row.tag],
        "summary": row.summary,
        "parameters": [
            *map(_parameter, row.parameters),
            {
                "name": "If-None-Match",
                "in": "header",
                "description": "Entity tags of cached answers; the server returns 304 if one is current.",
                "schema": {"type": "string"},
            },
        ],
        "responses": responses,
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    if parameter.kind == "date":
        schema: dict[str, Any] = {"type": "string", "format": "date"}
    elif parameter.kind == "instant":
        schema = {"type": "string", "format": "date-time"}
    elif parameter.kind == "edge":
        schema = {"type": "string", "anyOf": [{"format": "date"}, {"format": "date-time"}]}
    elif parameter.kind == "spans":
        schema = _listed(
            {"type": "string", "pattern": f"^{SPAN_PATTERN}$"}, "2026-01-05", "2026-01-07/2026-01-09"
        )
    elif parameter.kind == "instants":
        schema = _listed({"type": "string", "format": "date-time"}, "2026-01-06T16:00:00Z")
    elif parameter.kind == "number":
        schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
    elif parameter.kind == "choice":
        kind = "integer" if isinstance(parameter.choices[0], int) else "string"
        schema = {"type": kind, "enum": list(parameter.choices)}
    elif parameter.kind == "price":
        schema = {"type": "string", "pattern": f"^{PRICE_PATTERN}$", "examples": ["6650.25"]}
    elif parameter.kind == "method":
        schema = {"type": "string", "pattern": f"^{NAME_PATTERN}$", "examples": ["cbot_1row"]}
    elif parameter.kind == "any":
        schema = {"type": "string", "examples": ["ES"]}
    else:
        schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_SYMBOL, "examples": ["ES"]}
    found = {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.text,
        "schema": schema,
    }
    if schema["type"] == "array":  # separated by commas
        found |= {"style": "form", "explode": False}
    return found


def _listed(items: dict[str, Any], *examples: str) -> dict[str, Any]:
    return {"type": "array", "maxItems": MOST_LISTED, "items": items, "examples": [list(examples)]}


def _headers(**more: dict[str, Any]) -> dict[str, Any]:
    return {**{name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}, **more}


def _success(row: Endpoint) -> dict[str, Any]:
    etag = {
        "description": "Strong entity tag of the response body.",
        "required": True,
        "schema": {"type": "string"},
    }
    return {
        "description": "The answer.",
        "headers": _headers(ETag=etag),
        "content": {
            JSON_TYPE: {
                "schema": {"$ref": _REF.format(name=row.answer.__name__)},
                "examples": examples_of(row.operation),
            }
        },
    }


def _not_modified() -> dict[str, Any]:
    return {
        "description": "The cached answer with an entity tag in `If-None-Match` is current.",
        "headers": _headers(),
    }


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the titles in a JSON schema that only repeat a field's name."""
    return {key: value for key, value in schema.items() if key != "title"}


def _with_numbers(schema: Any) -> Any:
    """Write a union of integers and other numbers as `number`, which includes integers."""
    match schema:
        case {"anyOf": [{"type": "integer"}, {"type": "number"}], **rest}:
            return rest | {"type": "number"}
        case dict():
            return {key: _with_numbers(value) for key, value in schema.items()}
        case list():
            return [_with_numbers(value) for value in schema]
        case _:
            return schema


def page() -> bytes:
    """Return the OpenAPI document as JSON with one member per line, so that changes are readable in a diff."""
    return msgspec.json.format(msgspec.json.encode(build_document()), indent=2) + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(page())
