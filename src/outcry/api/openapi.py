"""The OpenAPI 3.1 document, built from the endpoints' table and the answers' own types.

Rule kept: nothing is stated here that the code does not hold to; the test suite sends what the document
allows and what it forbids, and compares the document with the copy kept in the repository.
"""

import sys
from typing import Any

import msgspec

from outcry import __version__
from outcry.api.endpoints import ENDPOINTS, Endpoint, Parameter
from outcry.api.examples import ANSWERS, ERROR
from outcry.api.parameters import LONGEST_SYMBOL
from outcry.api.stream_document import STREAM_ERRORS, STREAM_SCHEMAS, TICKET_SCHEME, stream_paths
from outcry.http.errors import FIX, JSON_TYPE, PROBLEM_TYPE, STATUS
from outcry.services.accounts import KeyRefusal
from outcry.services.answers import DISCLAIMER, Answer

_REF = "#/components/schemas/{name}"
_COMMON = (
    "invalid_parameter",
    "unauthorized",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "rate_limited",
    "internal_error",
    "upstream_unavailable",
    "starting",
)

_SAID = {
    400: "A parameter is missing or not of its form.",
    401: "No valid key; `reason` says why.",
    403: "The key is for sending trades, not for reading.",
    404: "Unknown symbol, session or address.",
    405: "The address is only read.",
    409: "No completed session is licensed to this key yet; `fix` says where to go.",
    429: "Over the limit; `Retry-After` says when to come back.",
    500: "A fault of ours.",
    502: "The data store does not respond.",
    503: "The service is starting.",
}

HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Api-Tier": (
        "Tier of the key; `anonymous` without a valid one.",
        {"type": "string", "enum": ["anonymous", "free", "pro", "admin"]},
    ),
    "X-RateLimit-Limit": ("Requests allowed in any 60 seconds.", {"type": "integer", "enum": [30, 120, 600]}),
    "X-RateLimit-Remaining": (
        "Requests left in the 60 seconds ending now.",
        {"type": "integer", "minimum": 0},
    ),
    "X-RateLimit-Reset": (
        "Seconds until the window is empty again.",
        {"type": "integer", "minimum": 0, "maximum": 60},
    ),
    "RateLimit": ("The same as an IETF structured field.", {"type": "string"}),
    "RateLimit-Policy": ("The limit as an IETF structured field.", {"type": "string"}),
    "X-Request-Id": (
        "Quote it when you report a fault.",
        {"type": "string", "minLength": 1, "maxLength": 64},
    ),
}


def build_document() -> dict[str, Any]:
    """Return the document."""
    answers = [*(row.answer for row in ENDPOINTS), *STREAM_SCHEMAS]
    _, schemas = msgspec.json.schema_components(answers, ref_template=_REF)
    schemas = {name: _untitled(schema) for name, schema in sorted(schemas.items())}
    schemas["Error"] = _error_schema()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Outcry",
            "version": __version__,
            "summary": "Where the auction stands, computed from trades by stated rules.",
            "description": f"{DISCLAIMER} Branch on `code`, never on `message`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"ApiKey": []}],
        "paths": {row.path: {"get": _operation(row)} for row in ENDPOINTS}
        | stream_paths(_headers(), _refused(STREAM_ERRORS), _refused(())),
        "components": {
            "schemas": schemas,
            "responses": {
                ".".join(codes): _refusal(status, codes)
                for errors in (*(row.errors for row in ENDPOINTS), STREAM_ERRORS, ())
                for status, codes in _refusals(errors)
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
                    "description": "Only in this header, once. A key in the address is refused.",
                },
                "Ticket": TICKET_SCHEME,
            },
        },
    }


def _operation(row: Endpoint) -> dict[str, Any]:
    responses = {"200": _success(row.answer), "304": _not_modified(), **_refused(row.errors)}
    return {
        "operationId": row.operation,
        "summary": row.summary,
        "parameters": [
            *map(_parameter, row.parameters),
            {
                "name": "If-None-Match",
                "in": "header",
                "description": "Entity tags known already; 304 when one is current.",
                "schema": {"type": "string"},
            },
        ],
        "responses": responses,
    }


def _refused(errors: tuple[str, ...]) -> dict[str, Any]:
    return {
        str(status): {"$ref": f"#/components/responses/{'.'.join(codes)}"}
        for status, codes in _refusals(errors)
    }


def _refusals(errors: tuple[str, ...]) -> list[tuple[int, list[str]]]:
    """Return the statuses an endpoint of these codes refuses with, and the codes of each."""
    found: dict[int, list[str]] = {}
    for code in dict.fromkeys((*errors, *_COMMON)):
        found.setdefault(STATUS[code], []).append(code)
    return sorted(found.items())


def _parameter(parameter: Parameter) -> dict[str, Any]:
    if parameter.kind == "date":
        schema: dict[str, Any] = {"type": "string", "format": "date"}
    elif parameter.kind == "number":
        schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
    elif parameter.kind == "any":
        schema = {"type": "string", "examples": ["ES"]}
    else:
        schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_SYMBOL, "examples": ["ES"]}
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.text,
        "schema": schema,
    }


def _headers(**more: dict[str, Any]) -> dict[str, Any]:
    return {**{name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}, **more}


def _success(answer: type[Answer]) -> dict[str, Any]:
    etag = {"description": "Strong entity tag of the body.", "required": True, "schema": {"type": "string"}}
    return {
        "description": "The answer.",
        "headers": _headers(ETag=etag),
        "content": {
            JSON_TYPE: {
                "schema": {"$ref": _REF.format(name=answer.__name__)},
                "example": msgspec.to_builtins(ANSWERS[answer.__name__]),
            }
        },
    }


def _not_modified() -> dict[str, Any]:
    return {"description": "The entity named in `If-None-Match` is current.", "headers": _headers()}


def _refusal(status: int, codes: list[str]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if status in (429, 503):
        more["Retry-After"] = {
            "description": "Seconds to wait.",
            "required": True,
            "schema": {"type": "integer", "minimum": 1},
        }
    if status == 405:
        more["Allow"] = {"description": "Methods allowed.", "required": True, "schema": {"type": "string"}}
    schema = {
        "allOf": [
            {"$ref": _REF.format(name="Error")},
            {"properties": {"code": {"enum": codes}, "status": {"const": status}}},
        ]
    }
    return {
        "description": _SAID[status],
        "headers": _headers(**more),
        "content": {
            JSON_TYPE: {"schema": schema, "example": {**ERROR, "code": codes[0], "status": status}},
            PROBLEM_TYPE: {"schema": schema},
        },
    }


def _error_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "title": "Error",
        "description": "One body for every refusal; problem details (RFC 9457) add their own members.",
        "type": "object",
        "required": ["code", "message", "status", "request_id"],
        "properties": {
            "code": {"description": "Frozen: branch on this.", "type": "string", "enum": sorted(STATUS)},
            "message": {"description": "In the reader's language; its wording may change.", **text},
            "status": {"type": "integer", "enum": sorted(set(STATUS.values()))},
            "request_id": text,
            "reason": {
                "description": "With `unauthorized`.",
                **text,
                "enum": [reason.value for reason in KeyRefusal],
            },
            "symbol": {
                "description": "With `unknown_symbol` and `no_licensed_source`: what was asked for.",
                **text,
            },
            "suggestions": {
                "description": "With `unknown_symbol`: symbols like it.",
                "type": "array",
                "items": text,
            },
            "reasons": {
                "description": "With `no_licensed_source`: why nothing answers.",
                "type": "array",
                "items": text,
            },
            "embargo_until": {
                "description": "With `no_licensed_source`, reason `embargo`: when the first of them is shown.",
                "type": "string",
                "format": "date-time",
            },
            "fix": {
                "description": "With `no_licensed_source`: where to put it right.",
                "type": "object",
                "required": list(FIX),
                "properties": {name: {"const": path} for name, path in FIX.items()},
            },
            "retry_after_ms": {"description": "With `rate_limited`.", "type": "integer", "minimum": 0},
            "parameter": {"description": "With `invalid_parameter`: which one.", **text},
            "errors": {
                "description": "With `invalid_parameter`: what is wrong where.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["parameter", "message"],
                    "properties": {"parameter": text, "message": text},
                },
            },
            "type": text,
            "title": text,
            "detail": text,
            "instance": text,
        },
    }


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out titles that only repeat the name."""
    return {key: value for key, value in schema.items() if key != "title"}


def page() -> bytes:
    """Return the document as kept beside the tests: one member a line, so that a change can be read."""
    return msgspec.json.format(msgspec.json.encode(build_document()), indent=2) + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(page())
