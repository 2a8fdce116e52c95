"""Content negotiation: quality values of `Accept`, `Accept-Language` and `Accept-Encoding` (RFC 9110, 12.4.2).

An invalid header is not an error. Its unreadable parts are ignored, and some option is always chosen.
"""

import re
from collections.abc import Sequence

from babel import negotiate_locale

#: What follows in a longer header is ignored.
LONGEST = 1024
_ITEM = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z/-]+)\s*((?:;[^,]*)?)\s*", re.ASCII)
_QUALITY = re.compile(r";\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*(?:;|$)", re.ASCII | re.IGNORECASE)


def wishes(header: str) -> list[tuple[str, float]]:
    """Parse a header into pairs (name in lower case, quality), in the header's order.

    A name without a readable quality has the quality 1.
    """
    found: list[tuple[str, float]] = []
    for part in header[:LONGEST].split(","):
        item = _ITEM.fullmatch(part)
        if item is None:
            continue
        quality = _QUALITY.search(item[2])
        found.append((item[1].lower(), min(1.0, float(quality[1])) if quality else 1.0))
    return found


def most_wanted(accept: str, offered: Sequence[str]) -> str:
    """Return the offered media type that the client prefers, or the first one if none matches."""
    preferences = wishes(accept)
    best, best_rank = offered[0], 0.0
    for media_type in offered:
        kind = media_type.partition("/")[0] + "/*"
        ranks = [quality for name, quality in preferences if name == media_type] or [
            quality for name, quality in preferences if name in (kind, "*/*")
        ]
        if ranks and max(ranks) > best_rank:
            best, best_rank = media_type, max(ranks)
    return best


def best_language(accept_language: str, offered: Sequence[str]) -> str:
    """Return the offered language that the client prefers, or the first one if none matches.

    `de` satisfies `de-AT` (lookup of RFC 4647).
    """
    preferences = wishes(accept_language)
    refused = {name for name, quality in preferences if quality == 0}
    any_other = [language for language in offered if language.lower() not in refused] or [offered[0]]
    preferred = [
        language
        for name, quality in sorted(
            preferences, key=lambda wish: -wish[1]
        )  # stable: the header's order among equals
        if quality > 0
        for language in (any_other if name == "*" else [name])
    ]
    found = (negotiate_locale(preferred, offered, sep="-") or "").lower()  # in the client's spelling
    return next((language for language in offered if language.lower() == found), offered[0])
