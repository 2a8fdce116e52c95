"""Reads HTTP response bodies of vendors up to a size limit.

The limit applies to the decompressed size, which may be a thousand times the size on the wire.
"""

import aiohttp

from outcry.trades.feed import FeedLost

#: Default limit in bytes, decompressed: a few times the longest page of history.
MAX_BODY_BYTES = 16 * 2**20


async def read_body(answer: aiohttp.ClientResponse, largest: int = MAX_BODY_BYTES) -> bytes:
    """Return the body of a response. If it exceeds the limit, close the response and raise `FeedLost("protocol")`."""
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > largest:
            answer.close()
            raise body_too_large(largest)
    return bytes(body)


def body_too_large(largest: int) -> FeedLost:
    """Return the error for a response above the limit (bytes)."""
    return FeedLost("protocol", f"the vendor's response is larger than {largest // 2**20} MiB")
