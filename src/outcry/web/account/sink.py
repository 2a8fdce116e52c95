"""The demo's test receiver for webhooks as a page, `/sink`: the messages it received, and how it responds.

The page exists in the demo only. Message content is shown as plain text. A pasted signing secret is never shown again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from outcry.delivery.sink import Manner, Receipt, SecretRefused, Signature, Sink
from outcry.web.as_text import as_seen
from outcry.web.dates import LocalTime, local_time
from outcry.web.form_input import Faults
from outcry.web.form_state import done_code
from outcry.web.language import later
from outcry.web.page_context import Page, PageContext, PageMissing, PageRequest

SINK = "/sink"
MANNERS: Mapping[Manner, str] = {
    Manner.WELL: later("Accept (200)"),
    Manner.ERROR: later("Server error (500)"),
    Manner.SLOW: later("Timeout"),
    Manner.REDIRECT: later("Redirect (302)"),
    Manner.BUSY: later("Too many requests (429)"),
    Manner.GONE: later("Gone (410)"),
}
SIGNATURES: Mapping[Signature, tuple[str, str]] = {
    Signature.GOOD: ("good", later("valid signature")),
    Signature.OLD: ("warn", later("valid signature, expired timestamp")),
    Signature.BAD: ("bad", later("invalid signature")),
    Signature.UNKNOWN: ("", later("signed, no secret to check it")),
    Signature.MISSING: ("bad", later("not signed")),
}
#: Maximum depth of formatted JSON; maximum characters shown of one body and of all together.
_DEEPEST, _LONGEST_BODY, _LONGEST_PAGE = 20, 64 * 1024, 1024 * 1024
#: Delivery headers, shown first and in this order.
_FIRST = ("webhook-id", "webhook-timestamp", "webhook-signature", "outcry-seq", "user-agent")


@dataclass(frozen=True, slots=True)
class Shown:
    """A message that the test receiver got, as the page shows it.

    `summary`: the text that the message itself contains, if any. `cut`: `body` is truncated. `raw`: the exact body;
    empty if a page cannot show it exactly. `signature`: style and label for the result of the signature check.
    """

    receipt: Receipt
    at: LocalTime | None
    message_id: str
    summary: str
    body: str
    cut: bool
    raw: str
    headers: list[tuple[str, str]]
    signature: tuple[str, str]


async def show_sink(context: PageContext, request: PageRequest) -> Response:
    """Show the messages that the test receiver got, newest first."""
    return await _page(context, request, {})


async def set_manner(context: PageContext, request: PageRequest) -> Response:
    """Set how the test receiver responds to messages, for example with an error."""
    sink = _sink(context, request)
    wished = (await context.form(request)).text("manner")
    if wished not in set(Manner):
        return await _page(context, request, {"manner": request.words("Choose a response from the list.")})
    sink.manner = Manner(wished)
    return context.to(request, f"{SINK}?done=manner")


async def give_secret(context: PageContext, request: PageRequest) -> Response:
    """Add a signing secret with which the test receiver checks signatures, until the service stops."""
    sink = _sink(context, request)
    try:
        sink.trust((await context.form(request)).text("secret"))
    except SecretRefused:
        fault = request.words(
            "This is not a signing secret. Signing secrets start with whsec_ and are shown once."
        )
        return await _page(context, request, {"secret": fault})
    return context.to(request, f"{SINK}?done=secret")


async def clear_sink(context: PageContext, request: PageRequest) -> Response:
    """Delete all received messages."""
    sink = _sink(context, request)
    await context.form(request)
    sink.clear()
    return context.to(request, f"{SINK}?done=cleared")


async def back_to_sink(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the test receiver's page if a form's URL was opened as a page."""
    _sink(context, request)
    return context.to(request, SINK)


def _sink(context: PageContext, request: PageRequest) -> Sink:
    """Return the test receiver for a signed-in user. Raises `PageMissing` outside the demo."""
    sink = context.services.sink
    if sink is None:
        raise PageMissing
    context.user(request)
    return sink


async def _page(context: PageContext, request: PageRequest, faults: Faults) -> Response:
    sink = _sink(context, request)

    def look() -> list[Shown]:
        found, left = list[Shown](), _LONGEST_PAGE
        for receipt in sink.receipts:
            found.append(_shown(request, sink, receipt, min(left, _LONGEST_BODY)))
            left -= len(found[-1].body) + len(found[-1].raw)
        return found

    return context.page(
        request,
        "account/sink.html",
        422 if faults else 200,
        sink=sink,
        receipts=await context.ask(look),
        manners={manner.value: request.words(name) for manner, name in MANNERS.items()},
        faults=faults,
        done=done_code(request),
    )


def _shown(request: PageRequest, sink: Sink, receipt: Receipt, most: int) -> Shown:
    kind, words = SIGNATURES[sink.signature(receipt)]
    text, summary = receipt.body.decode("utf-8", "replace"), ""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict):
        text = _laid_out(read, most) or text
        summary = str(read.get("text", ""))[:500]
    body = as_seen(text[:most])
    known = {name: value for name, value in receipt.headers if name in _FIRST}
    headers = [(name, as_seen(known[name])) for name in _FIRST if name in known]
    headers += [(as_seen(name), as_seen(value)) for name, value in receipt.headers if name not in known]
    return Shown(
        receipt, local_time(request, receipt.at_ns), as_seen(receipt.message_id), as_seen(summary), body[:most],
        len(text) > most or len(body) > most, _exact(receipt.body, most), headers, (kind, request.words(words)),
    )  # fmt: skip


def _exact(body: bytes, most: int) -> str:
    """Return a body as text if copying the text from a page gives the same bytes, else an empty string.

    most: maximum length.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) <= most and as_seen(text) == text and "\r" not in text else ""


def _laid_out(read: dict[Any, Any], most: int) -> str | None:
    """Format JSON with one value per line; return None if it is too deep or too long."""
    level: list[Any] = [read]
    for _ in range(_DEEPEST):
        level = [
            value
            for one in level
            for value in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
        ]
    if level:
        return None
    text = ""
    for part in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(read):
        text += part
        if len(text) > most:
            return None
    return text


PAGES: Sequence[Page] = (
    (SINK, ("GET",), show_sink),
    (f"{SINK}/manner", ("POST",), set_manner),
    (f"{SINK}/secret", ("POST",), give_secret),
    (f"{SINK}/clear", ("POST",), clear_sink),
    *((f"{SINK}/{form}", ("GET",), back_to_sink) for form in ("manner", "secret", "clear")),
)
