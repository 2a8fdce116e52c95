"""Examples of the OpenAPI document: answers that a service with simulated data gave, from `examples.json`.

`python -m tests.api.record_examples` records them; a test compares the file with a new recording.
"""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

Example = dict[str, Any]


@cache
def _recorded() -> dict[str, dict[str, Example]]:
    text = (files("outcry.api") / "examples.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, Example]])


def examples_of(operation: str) -> dict[str, Example]:
    """Return the examples of an operation's answer by name, each with `summary` and `value`."""
    return {
        name: {"summary": each["summary"], "value": each["value"]}
        for name, each in _recorded().get(operation, {}).items()
    }


def error_examples(codes: list[str]) -> dict[str, Example]:
    """Return an example body of each error code; a new code has none until the examples are recorded again."""
    recorded = examples_of("error")
    return {code: recorded[code] for code in codes if code in recorded}


def webhook_headers() -> dict[str, str]:
    """Return the headers with which the example of a webhook's message was sent."""
    return _recorded()["receiveAlerts"]["alerts"]["headers"]
