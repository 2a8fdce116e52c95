"""The headers that tell a caller where it stands, on every response.

`X-RateLimit-*` are the usual ones; `RateLimit` and `RateLimit-Policy` are the IETF's
(draft-ietf-httpapi-ratelimit-headers).
Rule kept: both say the same, in whole seconds rounded up.
"""

from outcry.accounts.tiers import WINDOW_SECONDS, ApiTier, requests_allowed
from outcry.ports.limiter import Verdict

Headers = list[tuple[bytes, bytes]]


def standing_headers(tier: ApiTier) -> Headers:
    """Return what does not change from one request of a tier to the next."""
    limit = b"%d" % requests_allowed(tier)
    return [
        (b"x-api-tier", tier.encode("ascii")),
        (b"x-ratelimit-limit", limit),
        (b"ratelimit-policy", b'"default";q=%s;w=%d' % (limit, WINDOW_SECONDS)),
    ]


def varying_headers(verdict: Verdict, request_id: bytes) -> Headers:
    """Return what is new on each response; `varying_bytes` is the same, written out."""
    reset_s = -(-verdict.reset_ms // 1000)
    return [
        (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
        (b"x-ratelimit-reset", b"%d" % reset_s),
        (b"ratelimit", b'"default";r=%d;t=%d' % (verdict.remaining, reset_s)),
        (b"x-request-id", request_id),
    ]


_VARYING = (
    b"x-ratelimit-remaining: %d\r\nx-ratelimit-reset: %d\r\n"
    b'ratelimit: "default";r=%d;t=%d\r\nx-request-id: %s\r\n\r\n'
)


def varying_bytes(verdict: Verdict, request_id: bytes) -> bytes:
    """The end of a head, for the fast path: `varying_headers` and the empty line."""
    remaining = verdict.remaining
    reset_s = -(-verdict.reset_ms // 1000)
    return _VARYING % (remaining, reset_s, remaining, reset_s, request_id)
