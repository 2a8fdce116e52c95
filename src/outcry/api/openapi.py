"""OpenAPI 3.1 document, built from the endpoint table and the answer types.

Tests send allowed and forbidden requests and compare the results with the document. They also compare it with the copy
in the repository.
"""

import sys
from typing import Any

import msgspec

from outcry import __version__
from outcry.access.keys import KeyRefusal
from outcry.api.endpoints import ENDPOINTS, Endpoint, Parameter
from outcry.api.examples import ANSWERS, ERROR
from outcry.api.parameters import LONGEST_SYMBOL
from outcry.api.stream_document import STREAM_ERRORS, STREAM_SCHEMAS, TICKET_SCHEME, stream_paths
from outcry.http.errors import FIX, JSON_TYPE, PROBLEM_TYPE, STATUS
from outcry.wire.answers import DISCLAIMER, Answer

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
    400: "A parameter is missing or invalid.",
    401: "No valid key; `reason` gives the cause.",
    403: "The key can only send trades.",
    404: "Unknown symbol, session or URL.",
    405: "The URL does not accept this method.",
    409: "No completed session is licensed to this key yet; `fix` links to the pages that help.",
    429: "Rate limit exceeded; wait the number of seconds in `Retry-After`.",
    500: "Internal server error.",
    502: "The data store did not respond.",
    503: "The server is starting.",
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
    answers = [*(row.answer for row in ENDPOINTS), *STREAM_SCHEMAS]
    _, schemas = msgspec.json.schema_components(answers, ref_template=_REF)
    schemas = {name: _untitled(schema) for name, schema in sorted(schemas.items())}
    schemas["Error"] = _error_schema()
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
                    "description": "Send the key in this header only, once. The server refuses a key in the URL.",
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
                "description": "Entity tags of cached answers; the server returns 304 if one is current.",
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
    """Return the error codes of an endpoint by HTTP status. `errors`: its codes besides the common ones."""
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
                "schema": {"$ref": _REF.format(name=answer.__name__)},
                "example": msgspec.to_builtins(ANSWERS[answer.__name__]),
            }
        },
    }


def _not_modified() -> dict[str, Any]:
    return {
        "description": "The cached answer with an entity tag in `If-None-Match` is current.",
        "headers": _headers(),
    }


def _refusal(status: int, codes: list[str]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if status in (429, 503):
        more["Retry-After"] = {
            "description": "Seconds to wait.",
            "required": True,
            "schema": {"type": "integer", "minimum": 1},
        }
    if status == 405:
        more["Allow"] = {"description": "Allowed methods.", "required": True, "schema": {"type": "string"}}
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
        "description": "Body of every error response. Problem details (RFC 9457) add their own fields.",
        "type": "object",
        "required": ["code", "message", "status", "request_id"],
        "properties": {
            "code": {
                "description": "Stable error code: branch on this field.",
                "type": "string",
                "enum": sorted(STATUS),
            },
            "message": {
                "description": "Error message in the language of `Accept-Language`; its wording may change.",
                **text,
            },
            "status": {"type": "integer", "enum": sorted(set(STATUS.values()))},
            "request_id": text,
            "reason": {
                "description": "With `unauthorized`: why the key or ticket is invalid.",
                **text,
                "enum": [reason.value for reason in KeyRefusal],
            },
            "symbol": {
                "description": "With `unknown_symbol` and `no_licensed_source`: the requested symbol.",
                **text,
            },
            "suggestions": {
                "description": "With `unknown_symbol`: similar symbols.",
                "type": "array",
                "items": text,
            },
            "reasons": {
                "description": "With `no_licensed_source`: why no data is available.",
                "type": "array",
                "items": text,
            },
            "embargo_until": {
                "description": "With `no_licensed_source`, reason `embargo`: when the first session becomes available.",
                "type": "string",
                "format": "date-time",
            },
            "fix": {
                "description": "With `no_licensed_source`: pages where the user can get access to data.",
                "type": "object",
                "required": list(FIX),
                "properties": {name: {"const": path} for name, path in FIX.items()},
            },
            "retry_after_ms": {
                "description": "With `rate_limited`: milliseconds to wait.",
                "type": "integer",
                "minimum": 0,
            },
            "parameter": {"description": "With `invalid_parameter`: name of the parameter.", **text},
            "errors": {
                "description": "With `invalid_parameter`: each invalid parameter and what is wrong.",
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
    """Remove the titles in a JSON schema that only repeat a field's name."""
    return {key: value for key, value in schema.items() if key != "title"}


def page() -> bytes:
    """Return the OpenAPI document as JSON with one member per line, so that changes are readable in a diff."""
    return msgspec.json.format(msgspec.json.encode(build_document()), indent=2) + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(page())
