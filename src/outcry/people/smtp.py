"""Mail handed to an SMTP server: letters about accounts from a thread, digests of alerts from the event loop.

Rules kept: there is one way of handing mail over; what is sent is encrypted on the way (STARTTLS, or TLS from the first
byte) unless the server is this very machine; its certificate is checked; the reason of a failure never shows the
password or the mail.
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
from outcry.people.mailer import Mail, MailFailed

TIMEOUT_S = 10.0
_FAREWELL_S = 1.0
_PORTS = {"smtp": 587, "smtps": 465}
_TAKEN, _FOR_GOOD = 250, 500
_ABOUT_US = re.compile(r"5\.[3567]\.\d")


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Where mail is handed over. `tls`: from the first byte; else STARTTLS, which may be missing on loopback only."""

    host: str
    port: int
    tls: bool
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def here(self) -> bool:
        """Whether it is this very machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def smtp_server(url: str) -> SmtpServer:
    """Read `smtp://user:password@host:587` or `smtps://…`. Raises `ValueError`, which never shows the password."""
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
    """How mail is written. ASCII throughout, for a relay that recodes it on the way breaks signatures over it; and what
    programs read as one word stays whole, which the usual policy would encode where it is long."""

    def fold(self, name: str, value: Any) -> str:
        """See `EmailPolicy`."""
        whole = name.lower() in {"list-unsubscribe", "message-id"}
        return f"{name}: {value}{self.linesep}" if whole else super().fold(name, value)

    def fold_binary(self, name: str, value: Any) -> bytes:
        """See `EmailPolicy`."""
        return self.fold(name, value).encode("ascii")


_FORM = _Form(linesep="\r\n", cte_type="7bit")


class Outcome(StrEnum):
    """What came of handing a mail over."""

    TAKEN = "taken"
    LATER = "later"  # it may go another time
    NO_MAILBOX = "no mailbox"  # the recipient's mailbox will not take it
    NOT_FROM_US = "not from us"  # the server will not take it from this service


@dataclass(frozen=True, slots=True)
class HandedOver:
    """How handing a mail over went. `status`: the server's last answer, None where it gave none; `answer`: its text, as
    it came; `reason`: why it was not taken, fit for the operator's log; `phases_ms`: what took how long, by name."""

    outcome: Outcome
    status: int | None = None
    answer: str = ""
    reason: str = ""
    phases_ms: tuple[tuple[str, int], ...] = ()


class SmtpMailer:
    """Implements `Mailer`. `sender`: the address mail comes from. To be called from a thread."""

    def __init__(self, server: SmtpServer, sender: str, clock: Clock) -> None:
        self._server, self._sender, self._clock = server, sender, clock

    def send(self, mail: Mail) -> None:
        """See `Mailer`."""
        try:
            message = new_message(self._sender, mail.to, mail.subject, self._clock.now_ns())
            message.set_content(mail.text)
        except (MessageError, ValueError):
            raise MailFailed("the email address or subject contains a line break") from None
        done = asyncio.run(hand_over(self._server, message))
        if done.outcome is not Outcome.TAKEN:
            raise MailFailed(done.reason)


def new_message(sender: str, to: str, subject: str, now_ns: int, message_id: str = "") -> EmailMessage:
    """A mail still without content. `message_id`: what it stays known by when it is sent again; without one it gets
    one of its own. Raises `ValueError` or `MessageError` where an entry would add a header."""
    message = EmailMessage(policy=_FORM)
    domain = sender.rpartition("@")[2].rstrip(">")
    message["From"], message["To"], message["Subject"] = sender, to, subject
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC))
    message["Message-ID"] = f"<{message_id}@{domain}>" if message_id else make_msgid(domain=domain)
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday notice answers it
    return message


async def hand_over(server: SmtpServer, message: EmailMessage, within_s: float = TIMEOUT_S) -> HandedOver:
    """Hand a mail over once, within so many seconds in all. Never raises for what a server does or does not do."""
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
        return HandedOver(Outcome.TAKEN, _TAKEN, answer, "", stages.done())
    finally:
        await _part(client)


async def _converse(
    client: aiosmtplib.SMTP, server: SmtpServer, message: EmailMessage, stages: "_Stages"
) -> str:
    stages.begin("connect")
    await client.connect()
    await client.ehlo()  # before it a server is not known to offer anything
    if not server.tls and (client.supports_extension("starttls") or not server.here):
        stages.begin("tls")
        await client.starttls(validate_certs=not server.here)
    stages.begin("answer")
    if server.user:
        await client.login(server.user, server.password)
    _, answer = await client.sendmail(_address(message, "From"), _address(message, "To"), message.as_bytes())
    return answer


def _address(message: EmailMessage, name: str) -> str:
    found = message[name].addresses
    if len(found) != 1:
        raise ValueError("a mail is from one and to one")
    return found[0].addr_spec


async def _part(client: aiosmtplib.SMTP) -> None:
    """Take leave; what was taken stays taken, whatever the server does now."""
    with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
        if client.is_connected:
            await client.quit(timeout=_FAREWELL_S)
    client.close()


class _Stages:
    """What takes how long."""

    def __init__(self) -> None:
        self._begun: list[tuple[str, float]] = []

    def begin(self, name: str) -> None:
        self._begun.append((name, time.perf_counter()))

    def done(self) -> tuple[tuple[str, int], ...]:
        ends = [at for _, at in self._begun[1:]] + [time.perf_counter()]
        return tuple(
            (name, round((end - at) * 1000)) for (name, at), end in zip(self._begun, ends, strict=True)
        )


def _failed(server: SmtpServer, problem: Exception, phases_ms: tuple[tuple[str, int], ...]) -> HandedOver:
    place = f"{server.host}:{server.port}"
    if isinstance(problem, aiosmtplib.SMTPRecipientsRefused):  # of one recipient
        problem = problem.recipients[0]
    if not isinstance(problem, aiosmtplib.SMTPResponseException):
        reason = f"connection to {place} failed: {type(problem).__name__}"
        return HandedOver(Outcome.LATER, None, "", reason, phases_ms)
    said, reason = problem.message, f"{place} returned {problem.code}"
    if isinstance(problem, aiosmtplib.SMTPAuthenticationError):
        reason = f"{place} rejected the user name or password"
    return HandedOver(_meant(problem), problem.code, said, reason, phases_ms)


def _meant(refusal: aiosmtplib.SMTPResponseException) -> Outcome:
    """Whether to try again, and if not, whose fault it is: by the enhanced code, where there is one (RFC 3463), a
    5.3, 5.5, 5.6 or 5.7 is about the system, the protocol, the message or a policy, not about the mailbox."""
    if refusal.code < _FOR_GOOD:
        return Outcome.LATER
    about_mailbox = isinstance(refusal, aiosmtplib.SMTPRecipientRefused | aiosmtplib.SMTPDataError)
    return (
        Outcome.NO_MAILBOX
        if about_mailbox and _ABOUT_US.match(refusal.message) is None
        else Outcome.NOT_FROM_US
    )
