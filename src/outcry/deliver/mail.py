"""Mail handed to an SMTP server.

Rules kept: what is sent is encrypted on the way (STARTTLS, or TLS from the first byte) unless the server is this very
machine; its certificate is checked; a failure never shows the password or the mail.
"""

import asyncio
import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, make_msgid
from urllib.parse import unquote, urlsplit

import aiosmtplib

from outcry.core.units import NANOS_PER_SECOND
from outcry.ports.clock import Clock
from outcry.ports.mailer import Mail, MailFailed

TIMEOUT_S = 10.0
_PORTS = {"smtp": 587, "smtps": 465}


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
        raise ValueError("an SMTP address is smtp://user:password@host:587 or smtps://…") from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ValueError("an SMTP address is smtp://user:password@host:587 or smtps://…")
    return SmtpServer(
        parts.hostname, port or _PORTS[parts.scheme], parts.scheme == "smtps",
        unquote(parts.username or ""), unquote(parts.password or ""),
    )  # fmt: skip


class SmtpMailer:
    """Implements `ports.mailer.Mailer`. `sender`: the address mail comes from. To be called from a thread."""

    def __init__(self, server: SmtpServer, sender: str, clock: Clock) -> None:
        self._server, self._sender, self._clock = server, sender, clock

    def send(self, mail: Mail) -> None:
        """See `Mailer`."""
        server = self._server
        try:
            asyncio.run(asyncio.wait_for(self._hand_over(self._message(mail)), TIMEOUT_S))
        except aiosmtplib.SMTPAuthenticationError:
            raise MailFailed(f"{server.host}:{server.port} does not accept the user or password") from None
        except aiosmtplib.SMTPResponseException as refusal:
            raise MailFailed(f"{server.host}:{server.port} answered {refusal.code}") from None
        except (aiosmtplib.SMTPException, OSError, TimeoutError, MessageError, ValueError) as problem:
            said = f"{server.host}:{server.port} could not be used: {type(problem).__name__}"
            raise MailFailed(said) from None

    def _message(self, mail: Mail) -> EmailMessage:
        message = EmailMessage(policy=SMTP)
        now = datetime.fromtimestamp(self._clock.now_ns() // NANOS_PER_SECOND, UTC)
        message["From"], message["To"], message["Subject"] = self._sender, mail.to, mail.subject
        message["Date"] = format_datetime(now)
        message["Message-ID"] = make_msgid(domain=self._sender.rpartition("@")[2].rstrip(">"))
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday notice answers it
        message.set_content(mail.text)
        return message

    async def _hand_over(self, message: EmailMessage) -> None:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host, port=server.port, timeout=TIMEOUT_S, use_tls=server.tls, start_tls=False
        )
        async with client:
            await client.ehlo()  # before it a server is not known to offer anything
            if not server.tls and (client.supports_extension("starttls") or not server.here):
                await client.starttls(validate_certs=not server.here)
            if server.user:
                await client.login(server.user, server.password)
            await client.send_message(message)
