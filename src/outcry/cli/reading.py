"""`outcry levels`: reads a running service, as any client would."""

import os
import sys

import msgspec

from outcry.client import ApiError, Client, Unreachable


def levels(symbol: str, *, url: str | None = None) -> int:
    """Print the key levels of a symbol as JSON, from a running service.

    The key is read from OUTCRY_KEY, never from the command line, where other users of the machine could see it.

        outcry levels ES | jq .prior.poc

    Parameters
    ----------
    symbol
        ES, ESZ6, MES, /ES …
    url
        The service; otherwise OUTCRY_URL, otherwise http://127.0.0.1:8000
    """
    key = os.environ.get("OUTCRY_KEY", "")
    if not key:
        print("outcry: set OUTCRY_KEY to an API key (outcry keys create --email …)", file=sys.stderr)
        return 2
    try:
        client = Client(url or os.environ.get("OUTCRY_URL") or "http://127.0.0.1:8000", key)
        answer = client.levels(symbol)
    except (ApiError, Unreachable, ValueError) as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        return 1
    print(msgspec.json.format(msgspec.json.encode(answer)).decode())
    return 0
