"""Compression of response bodies with an encoding that the client accepts (RFC 9110 §12.5.3).

Responses that contain a secret are not compressed: their length would reveal the secret to an attacker who controls
part of the body (BREACH). Form tokens are masked differently in each page, so pages with a form can be compressed.
"""

import gzip
from collections.abc import Mapping, Sequence

import zstandard

from outcry.base.negotiation import wishes

#: Supported encodings, preferred first.
ENCODINGS = ("zstd", "gzip")
#: Shorter bodies fit into one packet anyway.
LEAST_BYTES = 1024
_ZSTD_LEVEL, _GZIP_LEVEL = 3, 6
_ZSTD_BEST, _GZIP_BEST = 19, 9


def best_encoding(accept_encoding: str, offered: Sequence[str] = ENCODINGS) -> str | None:
    """Return the offered encoding that the client prefers, the first one among equals.

    None: send the body uncompressed.
    """
    request = dict(wishes(accept_encoding))
    best, best_quality = None, 0.0
    for encoding in offered:
        quality = request.get(encoding, request.get("*", 0.0))
        if quality > best_quality:
            best, best_quality = encoding, quality
    return best if best_quality >= request.get("identity", 0.0) else None


def compressed(body: bytes, encoding: str) -> bytes:
    """Compress a body that is sent once."""
    if encoding == "zstd":
        return zstandard.ZstdCompressor(_ZSTD_LEVEL).compress(body)
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


def prepared(body: bytes) -> Mapping[str, bytes]:
    """Compress a body that is sent often, at the highest level, with every encoding that makes it shorter."""
    if len(body) < LEAST_BYTES:
        return {}
    made = {
        "zstd": zstandard.ZstdCompressor(_ZSTD_BEST).compress(body),
        "gzip": gzip.compress(body, _GZIP_BEST, mtime=0),
    }
    return {encoding: small for encoding, small in made.items() if len(small) < len(body)}
