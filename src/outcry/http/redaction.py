"""Keys where they must not be: finding them in addresses, and keeping them out of logs.

Rule kept: an address that holds a key, or a parameter named like one, is refused and never written anywhere
as it came. Percent-encoding (also doubled) and letter case make no difference.
"""

import re
from urllib.parse import unquote

REDACTED = "[redacted]"
_LONGEST_LOGGED = 200
_ROUNDS = 3  # a proxy may decode once and a log viewer once more
_KEY_NAME = r"(?:x[-_])?api[-_]?key|key|token|access[-_]?token"
_SUSPECT = re.compile(
    rf"(?:^|[?&;])[\s+]*(?:{_KEY_NAME})[\s+]*(?:\[[^\]]*\])?[\s+]*(?:[=&;]|$)|outcry_", re.IGNORECASE
)
#: The queries of well-behaved clients, told by one match; it leaves no room for a `%`, `_` or a second
#: parameter.
_PLAIN = re.compile(rb"(?:(?:symbol|date|from|to)=[0-9A-Za-z./@-]*(?:&(?!$)|$))*")


def holds_key(query: bytes) -> bool:
    """Whether a query string holds an API key or a parameter named like one."""
    return _PLAIN.fullmatch(query) is None and _suspect(query.decode("latin-1"))


def _suspect(text: str) -> bool:
    for _ in range(_ROUNDS):
        if _SUSPECT.search(text):
            return True
        decoded = unquote(text, encoding="latin-1")
        if decoded == text:
            return False
        text = decoded
    return _SUSPECT.search(text) is not None


def for_log(path: str, query: bytes) -> tuple[str, str]:
    """Return path and query as they may be logged: cut to 200 characters, redacted whole where a key
    shows."""
    shown_path = REDACTED if "outcry_" in path.lower() or _suspect(path) else path[:_LONGEST_LOGGED]
    shown_query = REDACTED if holds_key(query) else query[:_LONGEST_LOGGED].decode("latin-1")
    return shown_path, shown_query
