"""Send email through an SMTP server: account emails from a thread, alert digests from the event loop.

Connections are encrypted (STARTTLS or TLS) unless the server is this machine, and certificates are verified. A reported
failure never contains the password or the email.
"""

import asyncio
import ipaddress
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime, make_msgid
from enum import StrEnum
from typing import Any
from urllib.parse import unquote, urlsplit

import aiosmtplib

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_SECOND

TIMEOUT_S = 10.0
_FAREWELL_S = 1.0
_PORTS = {"smtp": 587, "smtps": 465}
_ACCEPTED, _PERMANENT = 250, 500
_NOT_ABOUT_MAILBOX = re.compile(r"5\.[3567]\.\d")


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """An SMTP server. `tls`: TLS from the first byte; otherwise STARTTLS, which is optional on loopback only."""

    host: str
    port: int
    tls: bool
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def smtp_server(url: str) -> SmtpServer:
    """Parse `smtp://user:password@host:587` or `smtps://…`. Raises `ValueError`, which never contains the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("invalid SMTP URL: use smtp://user:password@host:587 or smtps://…") from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ValueError("invalid SMTP URL: use smtp://user:password@host:587 or smtps://…")
    return SmtpServer(
        parts.hostname, port or _PORTS[parts.scheme], parts.scheme == "smtps",
        unquote(parts.username or ""), unquote(parts.password or ""),
    )  # fmt: skip


class _Form(EmailPolicy):
    """Format of emails: ASCII only, because relays that re-encode a message break its signature.

    Headers that programs parse as one word are not folded.
    """

    def fold(self, name: str, value: Any) -> str:
        """Return a header as text, folded unless it is one word."""
        whole = name.lower() in {"list-unsubscribe", "message-id"}
        return f"{name}: {value}{self.linesep}" if whole else super().fold(name, value)

    def fold_binary(self, name: str, value: Any) -> bytes:
        """Return a header as bytes, folded as `fold` does."""
        return self.fold(name, value).encode("ascii")


_FORM = _Form(linesep="\r\n", cte_type="7bit")


class Outcome(StrEnum):
    """Outcome of sending an email."""

    TAKEN = "taken"
    LATER = "later"  # a later attempt may succeed
    NO_MAILBOX = "no mailbox"  # the recipient's mailbox rejects it
    NOT_FROM_US = "not from us"  # the server rejects this service


@dataclass(frozen=True, slots=True)
class MailResult:
    """Result of sending an email.

    `status`: the server's last reply code, None without a reply. `answer`: its text. `reason`: why it failed, fit for
    the operator's log. `phases_ms`: duration of each phase.
    """

    outcome: Outcome
    status: int | None = None
    answer: str = ""
    reason: str = ""
    phases_ms: tuple[tuple[str, int], ...] = ()


class MailFailed(Exception):
    """The email could not be sent. The message is fit for the operator's log and contains no secret."""


@dataclass(frozen=True, slots=True)
class Mail:
    """An email in plain text, with its recipient."""

    to: str
    subject: str
    text: str


class SmtpMailer:
    """Sends email from a thread. `sender`: the From header."""

    def __init__(self, server: SmtpServer, sender: str, clock: Clock) -> None:
        self._server, self._sender, self._clock = server, sender, clock

    def send(self, mail: Mail) -> None:
        """Send an email within ten seconds. Raises `MailFailed`."""
        try:
            message = new_message(self._sender, mail.to, mail.subject, self._clock.now_ns())
            message.set_content(mail.text)
        except (MessageError, ValueError):
            raise MailFailed("the email address or subject contains a line break") from None
        done = asyncio.run(send_once(self._server, message))
        if done.outcome is not Outcome.TAKEN:
            raise MailFailed(done.reason)


def new_message(sender: str, to: str, subject: str, now_ns: int, message_id: str = "") -> EmailMessage:
    """Create an email without content. `message_id`: the same when the email is sent again; generated if empty.

    Raises `ValueError` or `MessageError` if a value would inject a header.
    """
    message = EmailMessage(policy=_FORM)
    domain = sender.rpartition("@")[2].rstrip(">")
    message["From"], message["To"], message["Subject"] = sender, to, subject
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC))
    message["Message-ID"] = f"<{message_id}@{domain}>" if message_id else make_msgid(domain=domain)
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: prevents automatic replies
    return message


async def send_once(server: SmtpServer, message: EmailMessage, within_s: float = TIMEOUT_S) -> MailResult:
    """Send an email once, within a total time. Failures of the server are returned, not raised."""
    stages = _Stages()
    client = aiosmtplib.SMTP(
        hostname=server.host, port=server.port, timeout=within_s, use_tls=server.tls, start_tls=False
    )
    try:
        async with asyncio.timeout(within_s):
            answer = await _converse(client, server, message, stages)
    except (aiosmtplib.SMTPException, OSError, TimeoutError, MessageError, ValueError) as problem:
        return _failed(server, problem, stages.done())
    else:
        return MailResult(Outcome.TAKEN, _ACCEPTED, answer, "", stages.done())
    finally:
        await _close(client)


async def _converse(
    client: aiosmtplib.SMTP, server: SmtpServer, message: EmailMessage, stages: "_Stages"
) -> str:
    stages.begin("connect")
    await client.connect()
    await client.ehlo()  # required before the server lists its extensions
    if not server.tls and (client.supports_extension("starttls") or not server.is_local):
        stages.begin("tls")
        await client.starttls(validate_certs=not server.is_local)
    stages.begin("answer")
    if server.user:
        await client.login(server.user, server.password)
    _, answer = await client.sendmail(_address(message, "From"), _address(message, "To"), message.as_bytes())
    return answer


def _address(message: EmailMessage, name: str) -> str:
    found = message[name].addresses
    if len(found) != 1:
        raise ValueError("an email needs one sender and one recipient")
    return found[0].addr_spec


async def _close(client: aiosmtplib.SMTP) -> None:
    """Close the connection to the server. An error here does not change the result of an accepted email."""
    with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
        if client.is_connected:
            await client.quit(timeout=_FAREWELL_S)
    client.close()


class _Stages:
    """Measures the duration of each phase of sending an email."""

    def __init__(self) -> None:
        self._begun: list[tuple[str, float]] = []

    def begin(self, name: str) -> None:
        self._begun.append((name, time.perf_counter()))

    def done(self) -> tuple[tuple[str, int], ...]:
        ends = [at for _, at in self._begun[1:]] + [time.perf_counter()]
        return tuple(
            (name, round((end - at) * 1000)) for (name, at), end in zip(self._begun, ends, strict=True)
        )


def _failed(server: SmtpServer, problem: Exception, phases_ms: tuple[tuple[str, int], ...]) -> MailResult:
    place = f"{server.host}:{server.port}"
    if isinstance(problem, aiosmtplib.SMTPRecipientsRefused):  # of one recipient
        problem = problem.recipients[0]
    if not isinstance(problem, aiosmtplib.SMTPResponseException):
        reason = f"connection to {place} failed: {type(problem).__name__}"
        return MailResult(Outcome.LATER, None, "", reason, phases_ms)
    response, reason = problem.message, f"{place} returned {problem.code}"
    if isinstance(problem, aiosmtplib.SMTPAuthenticationError):
        reason = f"{place} rejected the user name or password"
    return MailResult(_outcome_of(problem), problem.code, response, reason, phases_ms)


def _outcome_of(refusal: aiosmtplib.SMTPResponseException) -> Outcome:
    """Return what the server's refusal means: retry, or who caused the failure.

    Enhanced codes 5.3, 5.5, 5.6 and 5.7 (RFC 3463) concern the system, the protocol, the message or a policy, not the
    mailbox.
    """
    if refusal.code < _PERMANENT:
        return Outcome.LATER
    about_mailbox = isinstance(refusal, aiosmtplib.SMTPRecipientRefused | aiosmtplib.SMTPDataError)
    return (
        Outcome.NO_MAILBOX
        if about_mailbox and _NOT_ABOUT_MAILBOX.match(refusal.message) is None
        else Outcome.NOT_FROM_US
    )
