"""Reading what a client would rather have: quality values of `Accept` and `Accept-Language` (RFC 9110
§12.4.2).

Rule kept: whatever the header says, an answer is chosen; a header that cannot be read counts as absent.
"""

import re
from collections.abc import Sequence

_LONGEST = 1024
_ITEM = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z/-]+)\s*((?:;[^,]*)?)\s*", re.ASCII)
_QUALITY = re.compile(r";\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*(?:;|$)", re.ASCII | re.IGNORECASE)


def wishes(header: str) -> list[tuple[str, float]]:
    """Return (name in lower case, quality) in the header's order; names without a readable quality have 1."""
    found: list[tuple[str, float]] = []
    for part in header[:_LONGEST].split(","):
        item = _ITEM.fullmatch(part)
        if item is None:
            continue
        quality = _QUALITY.search(item[2])
        found.append((item[1].lower(), min(1.0, float(quality[1])) if quality else 1.0))
    return found


def most_wanted(accept: str, offered: Sequence[str]) -> str:
    """Return the media type of `offered` the client wants most, the first where it does not care or names
    none."""
    asked = wishes(accept)
    best, best_rank = offered[0], 0.0
    for media_type in offered:
        kind = media_type.partition("/")[0] + "/*"
        ranks = [quality for name, quality in asked if name == media_type] or [
            quality for name, quality in asked if name in (kind, "*/*")
        ]
        if ranks and max(ranks) > best_rank:
            best, best_rank = media_type, max(ranks)
    return best


def best_language(accept_language: str, offered: Sequence[str]) -> str:
    """Return the offered language wanted most, the first where none is; `de-AT` is met by `de` (RFC 4647
    lookup)."""
    asked = wishes(accept_language)
    refused = {name for name, quality in asked if quality == 0}
    for name, quality in sorted(asked, key=lambda wish: -wish[1]):  # stable: the header's order among equals
        primary = name.partition("-")[0]
        if quality == 0:
            continue
        if primary in offered:
            return primary
        if name == "*":
            return next((language for language in offered if language not in refused), offered[0])
    return offered[0]
