"""Keys where they must not be: finding them in addresses, and keeping them out of logs.

Rule kept: an address that holds a key, or a parameter named like one, is refused and never written anywhere
as it came. Percent-encoding (also doubled) and letter case make no difference.
"""

import re
from urllib.parse import unquote

REDACTED = "[redacted]"
_LONGEST_LOGGED = 200
_ROUNDS = 3  # a proxy may decode once and a log viewer once more
_KEY_NAMES = frozenset(
    {"key", "token", "apikey", "api-key", "api_key", "accesstoken", "access-token", "access_token"}
    | {f"x{dash}api{mark}key" for dash in "-_" for mark in ("", "-", "_")}
)
_PARAMETERS = re.compile(r"[?&;]")
#: The queries of well-behaved clients, told by one match; it leaves no room for a `%`, `_` or a second
#: parameter.
_PLAIN = re.compile(rb"(?:(?:symbol|date|from|to)=[0-9A-Za-z./@-]*(?:&(?!$)|$))*")


def holds_key(query: bytes) -> bool:
    """Whether a query string holds an API key or a parameter named like one."""
    return _PLAIN.fullmatch(query) is None and _suspect(query.decode("latin-1"))


def _shows_key(text: str) -> bool:
    """Split by hand and look names up: whoever sends an address must not choose how long it takes to read."""
    lower = text.lower()
    if "outcry_" in lower:
        return True
    names = (
        part.partition("=")[0].partition("[")[0].strip(" +\t\r\n\f\v") for part in _PARAMETERS.split(lower)
    )
    return any(name in _KEY_NAMES for name in names)


def _suspect(text: str) -> bool:
    for _ in range(_ROUNDS):
        if _shows_key(text):
            return True
        decoded = unquote(text, encoding="latin-1")
        if decoded == text:
            return False
        text = decoded
    return _shows_key(text)


def for_log(path: str, query: bytes) -> tuple[str, str]:
    """Return path and query as they may be logged: cut to 200 characters, redacted whole where a key
    shows."""
    shown_path = REDACTED if "outcry_" in path.lower() or _suspect(path) else path[:_LONGEST_LOGGED]
    shown_query = REDACTED if holds_key(query) else query[:_LONGEST_LOGGED].decode("latin-1")
    return shown_path, shown_query
