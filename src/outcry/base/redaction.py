"""Find API keys in URLs, and keep secrets out of the log.

A URL that contains an API key, or a parameter with a key's name such as `api_key`, is refused and never logged. A URL
with a stream ticket or an OpenID code is accepted, but its query is not logged. Percent-encoding (also twice) and
letter case make no difference.
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

REDACTED = "[redacted]"
_LONGEST_LOGGED = 200
_ROUNDS = 3  # a proxy may decode once and a log viewer once more
_KEY_NAMES = frozenset(
    {"key", "token", "apikey", "api-key", "api_key", "accesstoken", "access-token", "access_token"}
    | {f"x{dash}api{mark}key" for dash in "-_" for mark in ("", "-", "_")}
)
_PARAMETERS = re.compile(r"[?&;]")
_TICKETS = ("ticket", "code=")
#: Queries of normal clients, recognised by one match. They contain no `%` or `_`.
_PLAIN: Final = re.compile(rb"(?:(?:symbol|date|from|to)=[0-9A-Za-z./@-]*(?:&(?!$)|$))*")


def holds_key(query: bytes) -> bool:
    """Return whether a query string contains an API key, or a parameter with a key's name such as `api_key`."""
    return _PLAIN.fullmatch(query) is None and _suspect(query.decode("latin-1"))


def _shows_key(text: str) -> bool:
    """Return whether a query string contains a key.

    The string is split by hand and names are looked up, so that no URL takes long to check.
    """
    lower = text.lower()
    if "outcry_" in lower:
        return True
    names = (
        part.partition("=")[0].partition("[")[0].strip(" +\t\r\n\f\v") for part in _PARAMETERS.split(lower)
    )
    return any(name in _KEY_NAMES for name in names)


def _shows_ticket(text: str) -> bool:
    lower = text.lower()
    return any(ticket in lower for ticket in _TICKETS)


def _suspect(text: str, shows: Callable[[str], bool] = _shows_key) -> bool:
    for _ in range(_ROUNDS):
        if shows(text):
            return True
        decoded = unquote(text, encoding="latin-1")
        if decoded == text:
            return False
        text = decoded
    return shows(text)


def _holds_ticket(query: bytes) -> bool:
    return _PLAIN.fullmatch(query) is None and _suspect(query.decode("latin-1"), _shows_ticket)


def for_log(path: str, query: bytes) -> tuple[str, str]:
    """Return path and query as they may be logged, at most 200 characters.

    A query with a key or ticket is replaced entirely.
    """
    shown_path = REDACTED if "outcry_" in path.lower() or _suspect(path) else path[:_LONGEST_LOGGED]
    secret = holds_key(query) or _holds_ticket(query)
    shown_query = REDACTED if secret else query[:_LONGEST_LOGGED].decode("latin-1")
    return shown_path, shown_query
