"""The headers that tell a caller where it stands, on every response.

`X-RateLimit-*` are the usual ones; `RateLimit` and `RateLimit-Policy` are the IETF's
(draft-ietf-httpapi-ratelimit-headers).
Rule kept: both say the same, in whole seconds rounded up.
"""

from outcry.access.limiter import Verdict
from outcry.access.tiers import WINDOW_SECONDS, ApiTier

Headers = list[tuple[bytes, bytes]]


def tier_headers(tier: ApiTier, requests: int) -> Headers:
    """Return what does not change from one request of a tier with that limit to the next."""
    limit = b"%d" % requests
    return [
        (b"x-api-tier", tier.encode("ascii")),
        (b"x-ratelimit-limit", limit),
        (b"ratelimit-policy", b'"default";q=%s;w=%d' % (limit, WINDOW_SECONDS)),
    ]


def limit_headers(verdict: Verdict, request_id: bytes) -> Headers:
    """Return what is new on each response; `limit_header_bytes` is the same, written out."""
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
#: For a request just let through: its window is empty again a whole one from now.
_PASSED = tuple(_VARYING % (left, WINDOW_SECONDS, left, WINDOW_SECONDS) for left in range(600))


def limit_header_bytes(verdict: Verdict) -> bytes:
    """`limit_headers` written out, up to the value of the last: the request id."""
    remaining = verdict.remaining
    if verdict.reset_ms == _WINDOW_MS and remaining < len(_PASSED):
        return _PASSED[remaining]
    reset_s = -(-verdict.reset_ms // 1000)
    return _VARYING % (remaining, reset_s, remaining, reset_s)


def header_bytes(headers: Headers) -> bytes:
    """Write headers out as they go over the wire."""
    return b"".join([b"%s: %s\r\n" % header for header in headers])
