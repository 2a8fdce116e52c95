"""Interpret HTTP responses to webhooks: pauses they ask for, and an excerpt that may be displayed.

No response raises an exception. An excerpt contains no usable part of the URL and no signing secret, even if the
response repeats it in another case or in Base64. Control characters are escaped.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from outcry.delivery.egress import Reply
from outcry.delivery.schedule import LONGEST_WAIT_NS
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.signing_secrets import MARK
from outcry.market.units import NANOS_PER_SECOND

LONGEST_EXCERPT = 1000
#: Shorter parts of a URL are not treated as secrets.
_SECRET_FROM = 6
#: Labels before a host's last two are names; longer ones may be secrets.
_SECRET_LABEL_FROM = 20
#: Statuses whose `Retry-After` is respected.
_MAY_ASK = frozenset({429, 502, 503, 504})
_SECONDS = re.compile(r"\d+(\.\d+)?", re.ASCII)
_LONGEST_NUMBER = 20


def sent_of(
    reply: Reply, verdict: Verdict, code: str, address: str, request: bytes, wait_ns: int | None = None,
    secrets: Sequence[str] = (),
) -> SendResult:  # fmt: skip
    """Build the result of an attempt.

    `request`: the body that was sent. `secrets`: the signing secrets, which the excerpt of the response must not show.
    """
    return SendResult(
        verdict=verdict, code=code, status=reply.status, wait_ns=wait_ns, took_ms=reply.took_ms,
        phases_ms=tuple(reply.phases_ms), excerpt=excerpt(reply.body, address, secrets), request=request.decode(),
    )  # fmt: skip


def unanswered(reply: Reply, address: str, request: bytes, secrets: Sequence[str] = ()) -> SendResult | None:
    """Return the result of an attempt that got no complete HTTP response; None if there is a response to interpret."""
    if reply.code == "ok":
        return None
    verdict = Verdict.BUSY if reply.code == "too_busy" else Verdict.LATER
    return sent_of(reply, verdict, reply.code, address, request, secrets=secrets)


def ordinary(
    reply: Reply, address: str, request: bytes, now_ns: int, secrets: Sequence[str] = ()
) -> SendResult:
    """Return the result of an attempt by the status of its HTTP response alone."""
    verdict, code = _meaning(reply.status or 0)
    requested_ns = retry_after_ns(reply.headers, now_ns) if reply.status in _MAY_ASK else None
    return sent_of(reply, verdict, code, address, request, requested_ns, secrets)


def _meaning(status: int) -> tuple[Verdict, str]:
    if 200 <= status < 300:
        return Verdict.ARRIVED, "ok"
    if 300 <= status < 400:
        return Verdict.LATER, "redirect"
    if status == 410:
        return Verdict.GONE, "gone"
    return (Verdict.SLOWER, "rate_limited") if status == 429 else (Verdict.LATER, "status")


def retry_after_ns(headers: Mapping[str, str], now_ns: int) -> int | None:
    """Return the pause that the header `Retry-After` asks for (RFC 9110 §10.2.3); None if missing or invalid."""
    value = headers.get("retry-after", "").strip()
    wait_ns = seconds_ns(value)
    if wait_ns is not None:
        return wait_ns
    try:
        until = parsedate_to_datetime(value)
        until_s = (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return waited_ns(until_s - now_ns / NANOS_PER_SECOND)


def seconds_ns(value: str) -> int | None:
    """Parse a number of seconds in an HTTP header; return it in ns, or None if it is invalid."""
    return waited_ns(float(value[:_LONGEST_NUMBER])) if _SECONDS.fullmatch(value) else None


def waited_ns(seconds: float) -> int:
    """Convert a requested pause in seconds to ns, up to the longest pause allowed."""
    return round(min(max(seconds, 0.0), LONGEST_WAIT_NS / NANOS_PER_SECOND) * NANOS_PER_SECOND)


def excerpt(body: bytes, address: str, secrets: Sequence[str] = ()) -> str:
    """Return the start of a response body in printable characters, without secrets."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n").strip()
    if len(text) >= _SECRET_FROM:
        small = text.lower()
        found = [part for part in _secrets(address, tuple(secrets)) if part.lower() in small]
        pattern = f"(?:{'|'.join(map(re.escape, found))})=*"  # padding of Base64
        text = re.sub(pattern, "…", text, flags=re.IGNORECASE) if found else text
    text = text[:LONGEST_EXCERPT]
    return "".join(map(_shown, text))[:LONGEST_EXCERPT] if not text.isprintable() else text


def _shown(sign: str) -> str:
    return sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode()


@lru_cache(maxsize=512)
def _secrets(address: str, secrets: tuple[str, ...]) -> list[str]:
    """Return texts that an excerpt must not contain, longest first.

    These are the possible secrets in the URL, and the signing secrets in all their forms.
    """
    url = urlsplit(address)
    host = url.hostname or ""
    parts = {address, url.path, url.query, *re.split(r"[/?&=]", f"{url.path}?{url.query}")}
    parts |= {part for part in host.split(".")[:-2] if len(part) >= _SECRET_LABEL_FROM}
    parts |= {part for secret in secrets for part in (secret, secret.removeprefix(MARK).rstrip("="))}
    parts |= {way(part) for part in parts for way in (unquote, quote)}
    parts = {part for part in parts if len(part) >= _SECRET_FROM}
    parts |= {
        way(part.encode()).decode().rstrip("=") for part in parts for way in (b64encode, urlsafe_b64encode)
    }
    return sorted(parts, key=len, reverse=True)
