"""The headers that both clients send with each request, and the decoding of answers."""

from typing import TypeVar

import msgspec

from outcry.client.errors import NotOutcry
from outcry.wire.answers import Answer

A = TypeVar("A", bound=Answer)


def headers_of(key: str, language: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {"x-api-key": key, "accept": "application/json", "accept-language": language}


def decode(body: bytes, answer: type[A], base: str) -> A:
    """Decode an answer. base: URL of the service, for the error. Raises `NotOutcry`."""
    try:
        return msgspec.json.decode(body, type=answer)
    except msgspec.DecodeError as error:
        raise NotOutcry(f"{base} returned an answer this client cannot read: {error}") from error
