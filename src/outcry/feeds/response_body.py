"""Bodies of a vendor's answers, read whole and no further than they may reach.

Rule kept: what counts is what a body comes to when it is unpacked; a thousand times less may have been sent.
"""

import aiohttp

from outcry.trades.feed import FeedLost

#: Unpacked, in bytes: some times what the longest page of history has.
MAX_BODY_BYTES = 16 * 2**20


async def read_body(answer: aiohttp.ClientResponse, largest: int = MAX_BODY_BYTES) -> bytes:
    """The body of an answer. Raises `FeedLost("protocol")` for one that is larger, and hangs up."""
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > largest:
            answer.close()
            raise body_too_large(largest)
    return bytes(body)


def body_too_large(largest: int) -> FeedLost:
    """An answer had more than it may."""
    return FeedLost("protocol", f"the vendor's response is larger than {largest // 2**20} MiB")
