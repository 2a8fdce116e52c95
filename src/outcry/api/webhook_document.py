"""Webhooks in the OpenAPI document: the request that Outcry sends to an endpoint, and how it reads the response."""

from typing import Any

from outcry.api.recorded_examples import examples_of, webhook_headers
from outcry.wire.webhooks import WebhookBody

_HEADERS = {
    "webhook-id": "Id of the message, the same for every attempt. Deduplicate by it.",
    "webhook-timestamp": "Time of this attempt, in seconds since 1970 UTC. Refuse messages older than five minutes.",
    "webhook-signature": "Signatures of Standard Webhooks, separated by spaces: `v1,` and the Base64 of HMAC-SHA256 "
    "over `{webhook-id}.{webhook-timestamp}.{body}`, by the decoded secret. There is one for each valid secret.",
    "outcry-seq": "Number of each alert among your alerts of its symbol, such as `ES=41 ES=42`. Absent in a test. Not "
    "signed.",
}
_OPTIONAL = "outcry-seq"
_RESPONSES = {
    "2XX": "The message is delivered.",
    "410": "Outcry disables the webhook.",
    "429": "Rate limited, not a failure: Outcry sends nothing until `Retry-After`.",
    "default": "Outcry sends the message again, at most ten times in three days.",
}


def webhooks() -> dict[str, Any]:
    """Return the webhooks of the document by name."""
    recorded = webhook_headers()
    return {
        "alerts": {
            "post": {
                "operationId": "receiveAlerts",
                "tags": ["Webhooks"],
                "summary": "Outcry sends alerts to your endpoint.",
                "description": "Verify the signature over the raw bytes of the body before you parse them. Messages "
                "can arrive more than once.",
                "security": [],
                "parameters": [
                    {
                        "name": name, "in": "header", "required": name != _OPTIONAL, "description": text,
                        "schema": {"type": "string"}, "example": recorded[name],
                    }
                    for name, text in _HEADERS.items()
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"$ref": f"#/components/schemas/{WebhookBody.__name__}"},
                            "examples": examples_of("receiveAlerts"),
                        }
                    },
                },
                "responses": {status: {"description": text} for status, text in _RESPONSES.items()},
            }
        }
    }  # fmt: skip
