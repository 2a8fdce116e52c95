"""Rate limit headers, sent with every response.

`X-RateLimit-*` are in common use; `RateLimit` and `RateLimit-Policy` follow draft-ietf-httpapi-ratelimit-headers. Both
report the same values, in whole seconds rounded up.
"""

from outcry.access.limiter import Verdict
from outcry.access.tiers import WINDOW_SECONDS, ApiTier

Headers = list[tuple[bytes, bytes]]


def tier_headers(tier: ApiTier, requests: int) -> Headers:
    """Return the rate limit headers that are the same in all responses to callers of a tier. requests: their limit."""
    limit = b"%d" % requests
    return [
        (b"x-api-tier", tier.encode("ascii")),
        (b"x-ratelimit-limit", limit),
        (b"ratelimit-policy", b'"default";q=%s;w=%d' % (limit, WINDOW_SECONDS)),
    ]


def limit_headers(verdict: Verdict, request_id: bytes) -> Headers:
    """Return the rate limit headers that differ in each response.

    `limit_header_bytes` returns them encoded.
    """
    reset_s = -(-verdict.reset_ms // 1000)
    return [
        (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
        (b"x-ratelimit-reset", b"%d" % reset_s),
        (b"ratelimit", b'"default";r=%d;t=%d' % (verdict.remaining, reset_s)),
        (b"x-request-id", request_id),
    ]


_VARYING = (
    b'x-ratelimit-remaining: %d\r\nx-ratelimit-reset: %d\r\nratelimit: "default";r=%d;t=%d\r\nx-request-id: '
)
_WINDOW_MS = WINDOW_SECONDS * 1000
#: Headers of a request that passes, by requests left: its window is empty a whole window from now.
_PASSED = tuple(_VARYING % (left, WINDOW_SECONDS, left, WINDOW_SECONDS) for left in range(600))
#: Headers of a request that does not pass, by seconds until its window is empty.
_REFUSED = tuple(_VARYING % (0, reset_s, 0, reset_s) for reset_s in range(WINDOW_SECONDS + 1))


def limit_header_bytes(verdict: Verdict) -> bytes:
    """Return the result of `limit_headers` encoded, without the value of the last header, the request id."""
    remaining = verdict.remaining
    if verdict.reset_ms == _WINDOW_MS and remaining < len(_PASSED):
        return _PASSED[remaining]
    reset_s = -(-verdict.reset_ms // 1000)
    if not remaining and reset_s < len(_REFUSED):
        return _REFUSED[reset_s]
    return _VARYING % (remaining, reset_s, remaining, reset_s)


def header_bytes(headers: Headers) -> bytes:
    """Encode headers as they are sent in a response."""
    return b"".join([b"%s: %s\r\n" % header for header in headers])
