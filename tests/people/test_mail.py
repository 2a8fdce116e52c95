"""Emails sent to real SMTP servers on loopback: encrypted, complete, or refused without revealing a secret."""

import gc
import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from support.certificates import Certificate, certificate
from tests.people.memory_store import HandClock

from outcry.people.smtp import Mail, MailFailed, SmtpMailer, SmtpServer, smtp_server

USER, PASSWORD = "outcry", "a secret: with @ and / in it"
MAIL = Mail(
    "ann@example.com",
    "Größe & Ähnliches",
    "Ein Link:\n\nhttps://outcry.example.com/link?token=abc\n.\nEnde\n",
)


class Taken:
    """Emails that an SMTP server accepted.

    `answer`: reply to an email, `welcome`: reply to its recipient; `sources`: the emails as bytes."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.sources: list[bytes] = []
        self.encrypted: list[bool] = []
        self.answer = self.welcome = "250 OK"

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if self.welcome.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.welcome

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        if self.answer.startswith("250"):
            self.sources.append(envelope.content)
            self.mails.append(message_from_bytes(envelope.content, policy=default))
            self.encrypted.append(session.ssl is not None)
        return self.answer


def _authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
    assert isinstance(given, LoginPassword)
    right = (given.login, given.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)  # the scripted reply may refuse the recipient


@contextmanager
def server(taken: Taken, *, implicit: ssl.SSLContext | None = None, **options: Any) -> Iterator[int]:
    with socket.socket() as free:  # aiosmtpd reports the port it was given, so port 0 does not work
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(taken, hostname="127.0.0.1", port=port, ssl_context=implicit, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()
        del controller
        # Connections may still be open when the server ends; this is not an error.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("certificate"))


def mailer(url: str) -> SmtpMailer:
    return SmtpMailer(smtp_server(url), "Outcry <outcry@example.com>", HandClock())


def test_an_email_arrives_unchanged() -> None:
    taken = Taken()
    with server(taken) as port:
        mailer(f"smtp://127.0.0.1:{port}").send(MAIL)
    (mail,) = taken.mails
    assert (mail["To"], mail["From"], mail["Subject"]) == (
        "ann@example.com", "Outcry <outcry@example.com>", "Größe & Ähnliches",
    )  # fmt: skip
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Date"] == "Mon, 21 Sep 2026 14:13:20 +0000"  # the time of the hand clock
    assert mail["Message-ID"].endswith("@example.com>")
    assert mail.get_content().replace("\r\n", "\n") == MAIL.text  # type: ignore[attr-defined]


def test_user_and_password_are_given_over_starttls(made: Certificate) -> None:
    taken = Taken()
    with server(
        taken, tls_context=made.server, require_starttls=True, authenticator=_authenticate, auth_required=True
    ) as port:
        mailer(f"smtp://{USER}:a%20secret%3A%20with%20%40%20and%20%2F%20in%20it@127.0.0.1:{port}").send(MAIL)
    assert taken.encrypted == [True]


def test_a_remote_server_without_starttls_receives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`here` decides whether an unencrypted connection is allowed.

    The server on this machine counts as remote here; without TLS it is refused."""
    monkeypatch.setattr(SmtpServer, "is_local", False)
    taken = Taken()
    with server(taken) as port, pytest.raises(MailFailed):
        mailer(f"smtp://127.0.0.1:{port}").send(MAIL)
    assert taken.mails == []


def test_a_remote_server_with_an_untrusted_certificate_is_refused(
    made: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SmtpServer, "is_local", False)
    taken = Taken()
    with server(taken, tls_context=made.server) as port, pytest.raises(MailFailed):
        mailer(f"smtp://127.0.0.1:{port}").send(MAIL)
    with server(taken, implicit=made.server) as port, pytest.raises(MailFailed):
        mailer(f"smtps://127.0.0.1:{port}").send(MAIL)
    assert taken.mails == []


def test_tls_from_the_first_byte(made: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(made.path))  # the certificate authority is trusted now
    taken = Taken()
    with server(taken, implicit=made.server) as port:
        mailer(f"smtps://127.0.0.1:{port}").send(MAIL)
    assert len(taken.mails) == 1


@pytest.mark.parametrize(
    ("url", "answer", "said"),
    [
        ("smtp://outcry:wrong@127.0.0.1", "250 OK", "rejected the user name or password"),
        ("smtp://127.0.0.1", "550 no thanks, ann@example.com", "returned 550"),
    ],
)
def test_a_refusal_names_the_server_and_no_secret(
    made: Certificate, url: str, answer: str, said: str
) -> None:
    taken = Taken()
    taken.answer = answer
    with (
        server(taken, tls_context=made.server, authenticator=_authenticate) as port,
        pytest.raises(MailFailed, match=rf"127\.0\.0\.1:{port} {said}") as failed,
    ):
        mailer(f"{url}:{port}").send(MAIL)
    for secret in ("wrong", "token", "ann@"):
        assert secret not in str(failed.value)
    assert failed.value.__context__ is None


def test_an_unreachable_server_is_reported_as_a_failure() -> None:
    with pytest.raises(MailFailed, match=r"connection to 127\.0\.0\.1:1 failed"):
        mailer("smtp://127.0.0.1:1").send(MAIL)


@pytest.mark.parametrize("to", ["ann@example.com\r\nBcc: all@example.com", "ann@example.com\nX: y"])
def test_an_address_cannot_add_a_header(to: str) -> None:
    taken = Taken()
    with server(taken) as port, pytest.raises(MailFailed):
        mailer(f"smtp://127.0.0.1:{port}").send(Mail(to, "s", "t"))
    assert taken.mails == []


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("smtp://mail.example.com", SmtpServer("mail.example.com", 587, tls=False)),
        ("smtps://mail.example.com", SmtpServer("mail.example.com", 465, tls=True)),
        ("smtp://u%40x:p%3Aq@[::1]:2525", SmtpServer("::1", 2525, tls=False, user="u@x", password="p:q")),
    ],
)
def test_how_an_smtp_url_is_parsed(url: str, read: SmtpServer) -> None:
    assert smtp_server(url) == read


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example.com",
        "http://mail.example.com",
        "smtp://",
        "smtp://u:hidden@h:99999",
        "smtp://u:hidden@h/x?y",
    ],
)
def test_the_error_of_an_invalid_smtp_url_omits_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="invalid SMTP URL") as refused:
        smtp_server(url)
    assert "hidden" not in str(refused.value)


def test_the_password_is_in_no_representation(tmp_path: Path) -> None:
    assert "hidden" not in repr(smtp_server("smtp://u:hidden@h"))
    assert "hidden" not in repr(mailer("smtp://u:hidden@h"))
