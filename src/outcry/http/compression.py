"""Bodies compressed as their reader accepts them (RFC 9110 §12.5.3).

Rule kept: what shows a secret is not compressed, for the length of a compressed body tells who can choose a part of it
what the rest is (BREACH); tokens of forms are masked anew in each page.
"""

import gzip
from collections.abc import Mapping, Sequence

import zstandard

from outcry.base.negotiation import wishes

#: What is offered, the one we prefer first.
ENCODINGS = ("zstd", "gzip")
#: Shorter bodies fit into a packet as they are.
LEAST_BYTES = 1024
_ZSTD_LEVEL, _GZIP_LEVEL = 3, 6
_ZSTD_BEST, _GZIP_BEST = 19, 9


def best_encoding(accept_encoding: str, offered: Sequence[str] = ENCODINGS) -> str | None:
    """Return the encoding wanted most, the first offered of equals; None to send the body as it is."""
    request = dict(wishes(accept_encoding))
    best, best_quality = None, 0.0
    for encoding in offered:
        quality = request.get(encoding, request.get("*", 0.0))
        if quality > best_quality:
            best, best_quality = encoding, quality
    return best if best_quality >= request.get("identity", 0.0) else None


def compressed(body: bytes, encoding: str) -> bytes:
    """Compress a body for one answer."""
    if encoding == "zstd":
        return zstandard.ZstdCompressor(_ZSTD_LEVEL).compress(body)
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


def prepared(body: bytes) -> Mapping[str, bytes]:
    """Compress a body that is sent often, once and as well as possible, wherever that makes it shorter."""
    if len(body) < LEAST_BYTES:
        return {}
    made = {
        "zstd": zstandard.ZstdCompressor(_ZSTD_BEST).compress(body),
        "gzip": gzip.compress(body, _GZIP_BEST, mtime=0),
    }
    return {encoding: small for encoding, small in made.items() if len(small) < len(body)}
