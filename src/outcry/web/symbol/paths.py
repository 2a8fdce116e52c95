"""URLs of a symbol's page."""

from collections.abc import Sequence
from urllib.parse import quote, urlencode


def path_of(symbol: str, entries: Sequence[tuple[str, str]] = ()) -> str:
    """Return the URL of a symbol's page."""
    return f"/s/{quote(symbol, safe='')}" + (f"?{urlencode(entries)}" if entries else "")
