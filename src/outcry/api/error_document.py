"""Errors in the OpenAPI document: one schema of the body, and a response for each set of codes with the same status.

The extension `x-codes` of a response lists the codes that it can have. The schema is the same for all, so that
generated clients have one class of errors.
"""

from typing import Any

from outcry.access.keys import KeyRefusal
from outcry.api.recorded_examples import error_examples
from outcry.http.errors import FIX, JSON_TYPE, PROBLEM_TYPE, STATUS

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
    409: "No completed trading session of the product is available to this key; `fix` links to pages that help.",
    429: "Rate limit exceeded; wait the number of seconds in `Retry-After`.",
    500: "Internal server error.",
    502: "The data store did not respond.",
    503: "The server is starting.",
}


def refused(errors: tuple[str, ...]) -> dict[str, Any]:
    """Return the error responses of an operation by status. `errors`: its codes besides those of all operations."""
    return {
        str(status): {"$ref": f"#/components/responses/{'.'.join(codes)}"}
        for status, codes in refusals(errors)
    }


def refusals(errors: tuple[str, ...]) -> list[tuple[int, list[str]]]:
    """Return the error codes of an endpoint by HTTP status. `errors`: its own codes, not those of all endpoints."""
    found: dict[int, list[str]] = {}
    for code in dict.fromkeys((*errors, *_COMMON)):
        found.setdefault(STATUS[code], []).append(code)
    return sorted(found.items())


def refusal(status: int, codes: list[str], headers: dict[str, Any]) -> dict[str, Any]:
    """Return an error response. `headers`: those of all responses."""
    more: dict[str, Any] = {}
    if status in (429, 503):
        more["Retry-After"] = {
            "description": "Seconds to wait.",
            "required": True,
            "schema": {"type": "integer", "minimum": 1},
        }
    if status == 405:
        more["Allow"] = {"description": "Allowed methods.", "required": True, "schema": {"type": "string"}}
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        "description": _SAID[status],
        "headers": headers | more,
        "x-codes": codes,
        "content": {
            JSON_TYPE: {"schema": schema, "examples": error_examples(codes)},
            PROBLEM_TYPE: {"schema": schema},
        },
    }


def error_schema() -> dict[str, Any]:
    """Return the schema of the body of every error."""
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
                "properties": {name: {"type": "string", "const": path} for name, path in FIX.items()},
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
