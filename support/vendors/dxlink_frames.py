"""Format of dxLink frames as JSON Schema, written from the official protocol description (dxLink WebSocket, 1.0.2).

Every frame that the fake vendor sends or receives is validated with these schemas.
"""

from typing import Any

import jsonschema_rs

Schema = dict[str, Any]

_CHANNEL: Schema = {"type": "integer", "minimum": 1}
_TEXT: Schema = {"type": "string"}
_SECONDS: Schema = {"type": "number", "minimum": 0}
_FORMAT: Schema = {"enum": ["FULL", "COMPACT"]}
_FIELDS: Schema = {
    "type": "object",
    "additionalProperties": {"type": "array", "items": _TEXT, "minItems": 1},
}
_SERIES: Schema = {
    "type": "object",
    "properties": {"type": _TEXT, "symbol": _TEXT, "fromTime": {"type": "number"}, "source": _TEXT},
    "required": ["type", "symbol"],
    "additionalProperties": False,
}
#: A double is a number, or one of the three values that JSON does not have.
_DOUBLE: Schema = {"oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_EVENT: Schema = {
    "type": "object",
    "properties": {
        "eventType": {"enum": ["TimeAndSale", "Candle"]},
        "eventSymbol": _TEXT,
        "eventFlags": {"type": "integer", "minimum": 0, "maximum": 0x7F},
        "index": {"type": "integer"},
        "time": {"type": "integer"},
        "timeNanoPart": {"type": "integer", "minimum": 0, "maximum": 999_999},
        "price": _DOUBLE,
        "size": _DOUBLE,
        "aggressorSide": {"enum": ["BUY", "SELL", "UNDEFINED"]},
        "validTick": {"type": "boolean"},
        "type": {"enum": ["NEW", "CORRECTION", "CANCEL"]},
        "open": _DOUBLE,
        "high": _DOUBLE,
        "low": _DOUBLE,
        "close": _DOUBLE,
        "volume": _DOUBLE,
    },
    "required": ["eventType", "eventSymbol"],
}


def _frame(kind: str, properties: Schema, required: list[str], channel: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, "channel": channel, **properties},
        "required": ["type", "channel", *required],
        "additionalProperties": False,
    }


_WHOLE: Schema = {"const": 0}
_EITHER: Schema = {"type": "integer", "minimum": 0}
_SETUP = _frame(
    "SETUP",
    {"version": _TEXT, "keepaliveTimeout": _SECONDS, "acceptKeepaliveTimeout": _SECONDS},
    ["version"],
    _WHOLE,
)
_KEEPALIVE = _frame("KEEPALIVE", {}, [], _WHOLE)
_CONTRACT: Schema = {
    "type": "object",
    "properties": {"contract": {"enum": ["HISTORY", "TICKER", "STREAM", "AUTO"]}},
    "required": ["contract"],
}
_SERVICE: Schema = {"service": {"const": "FEED"}, "parameters": _CONTRACT}
_SERIES_LIST: Schema = {"type": "array", "items": _SERIES, "minItems": 1}
_ERRORS = ["UNSUPPORTED_PROTOCOL", "TIMEOUT", "UNAUTHORIZED", "INVALID_MESSAGE", "BAD_ACTION", "UNKNOWN"]

_OF_CLIENT: dict[str, Schema] = {
    "SETUP": _SETUP,
    "KEEPALIVE": _KEEPALIVE,
    "AUTH": _frame("AUTH", {"token": _TEXT}, ["token"], _WHOLE),
    "CHANNEL_REQUEST": _frame("CHANNEL_REQUEST", _SERVICE, ["service", "parameters"], _CHANNEL),
    "CHANNEL_CANCEL": _frame("CHANNEL_CANCEL", {}, [], _CHANNEL),
    "FEED_SETUP": _frame(
        "FEED_SETUP",
        {"acceptAggregationPeriod": _SECONDS, "acceptDataFormat": _FORMAT, "acceptEventFields": _FIELDS},
        [],
        _CHANNEL,
    ),
    "FEED_SUBSCRIPTION": _frame(
        "FEED_SUBSCRIPTION",
        {"add": _SERIES_LIST, "remove": _SERIES_LIST, "reset": {"type": "boolean"}},
        [],
        _CHANNEL,
    ),
}
_OF_SERVER: dict[str, Schema] = {
    "SETUP": _SETUP,
    "KEEPALIVE": _KEEPALIVE,
    "AUTH_STATE": _frame(
        "AUTH_STATE", {"state": {"enum": ["AUTHORIZED", "UNAUTHORIZED"]}, "userId": _TEXT}, ["state"], _WHOLE
    ),
    "ERROR": _frame("ERROR", {"error": {"enum": _ERRORS}, "message": _TEXT}, ["error", "message"], _EITHER),
    "CHANNEL_OPENED": _frame("CHANNEL_OPENED", _SERVICE, ["service", "parameters"], _CHANNEL),
    "CHANNEL_CLOSED": _frame("CHANNEL_CLOSED", {}, [], _CHANNEL),
    "FEED_CONFIG": _frame(
        "FEED_CONFIG",
        {"aggregationPeriod": _SECONDS, "dataFormat": _FORMAT, "eventFields": _FIELDS},
        ["aggregationPeriod", "dataFormat"],
        _CHANNEL,
    ),
    "FEED_DATA": _frame("FEED_DATA", {"data": {"type": "array", "minItems": 1}}, ["data"], _CHANNEL),
}
_client = {kind: jsonschema_rs.validator_for(schema) for kind, schema in _OF_CLIENT.items()}
_server = {kind: jsonschema_rs.validator_for(schema) for kind, schema in _OF_SERVER.items()}
_event = jsonschema_rs.validator_for(_EVENT)


def wrong_with(frame: Any, *, of_client: bool) -> str:
    """Return the error of a frame; empty if it is valid."""
    known = _client if of_client else _server
    kind = frame.get("type") if isinstance(frame, dict) else None
    if kind not in known:
        return f"no frame of this side is a {kind!r}"
    return "; ".join(problem.message for problem in known[kind].iter_errors(frame))


def wrong_with_event(event: Any) -> str:
    """Return the error of a feed event; empty if it is valid."""
    return "; ".join(problem.message for problem in _event.iter_errors(event))
