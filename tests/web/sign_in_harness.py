"""Sign-in over real sockets and a real database, with a movable clock, stored emails and a scripted OpenID provider."""

import io
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO, cast
from urllib.parse import urlsplit

import pyotp
from argon2 import PasswordHasher
from tests.web.harness import DAY, PASSWORD, MovableClock, Reply, Visitor

from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.people import People, people_of
from outcry.app.settings import read_settings
from outcry.http.server import Binding, build_server
from outcry.people.browser_sessions import Origin
from outcry.people.model import UserRow
from outcry.people.openid_model import OpenIdAnswer, OpenIdRequest
from outcry.people.service import Identity
from outcry.people.smtp import Mail

ANN = "ann@example.com"
BEN = "ben@example.com"
OTHER_PASSWORD = "nine lamps under Maine 4"


class Mailbox:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self._came = threading.Condition()

    def send(self, mail: Mail) -> None:
        with self._came:
            self.mails.append(mail)
            self._came.notify_all()

    def link(self, to: str, path: str) -> str:
        """The newest link to a page in the mails to an address, without the site; waits for it."""

        def links() -> list[str]:
            texts = [mail.text for mail in self.mails if mail.to == to]
            return [found for text in texts for found in re.findall(rf"({path}\?token=\S+)", text)]

        with self._came:
            assert self._came.wait_for(links, 60), f"no mail to {to} with a link to {path}"
            return links()[-1]


@dataclass
class SignInService:
    """An OpenID provider whose answer the test sets as `claims`."""

    claims: OpenIdAnswer
    name: str = "Example ID"
    asked: list[OpenIdRequest] = field(default_factory=list)

    def address(self, request: OpenIdRequest) -> str:
        self.asked.append(request)
        return f"https://id.example.com/ask?state={request.state}"

    def answer(self, code: str, request: OpenIdRequest) -> OpenIdAnswer:
        assert code == "good"
        return self.claims


@dataclass
class SignInHarness:
    """The service, and what the tests hold of it."""

    installation: Installation
    people: People
    clock: MovableClock
    mailbox: Mailbox
    log: io.BytesIO
    port: int = 0

    @property
    def base(self) -> str:
        """Where a browser finds it, by a name."""
        return f"http://localhost:{self.port}"

    def faults(self) -> list[str]:
        """What the service's log calls an error."""
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [str(line) for line in lines if line.get("level") in {"error", "critical"}]

    @property
    def identity(self) -> Identity:
        return self.people.identity

    def visitor(self, language: str = "en") -> Visitor:
        return Visitor(self.port, language)

    def person(self, email: str = ANN) -> UserRow:
        """Somebody with an account and `PASSWORD`, signed in nowhere; the first one is the operator."""
        if self.identity.first_run.is_pending():
            came = self.identity.set_up(self.identity.first_run.new_token(), email, PASSWORD, Origin())
        else:
            came = self.identity.accept(self.invitation(email), email, PASSWORD, Origin())
        self.people.browser_sessions.end(came.user.id, self.clock.now_ns())
        return came.user

    def invitation(self, email: str) -> str:
        return self.identity.invite(None, email, "member", "free", Origin()).partition("?token=")[2]

    def signed_in(self, email: str = ANN, language: str = "en") -> Visitor:
        """A browser in which that person has just signed in."""
        visitor = self.visitor(language)
        reply = submit(visitor, "/sign-in", {"email": email, "password": PASSWORD})
        assert reply.status == 303, reply.text
        self.minute()
        return visitor

    def minute(self) -> None:
        """Let the minute go by in which tries are counted."""
        self.clock.forward(61)

    def code(self, secret: str) -> str:
        """What an authenticator with that secret shows now."""
        return pyotp.TOTP(secret).at(self.clock.now_ns() // 10**9)


@contextmanager
def sign_in_service(
    folder: Path, *, mail: bool = False, openid: SignInService | None = None, trusted_proxies: str | None = None,
    **settings: Any,
) -> Iterator[SignInHarness]:  # fmt: skip
    """Serve on a free port of this machine until the block ends."""
    clock, mailbox, log = MovableClock(DAY), Mailbox(), io.BytesIO()
    with (
        open_installation(
            read_settings({}, data=str(folder), **settings), clock, steady_ns=clock.now_ns
        ) as installation,
        installation.log.exclusively(),
    ):
        people = people_of(installation)
        identity = people.identity
        identity._mailer = mailbox if mail else None
        identity._openid = openid
        # what a hash costs is the business of other tests; here it would be most of the time
        identity._passwords._hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
        with redirect_stderr(cast("TextIO", SimpleNamespace(buffer=log))):
            application = build_application(installation, people=people).application
        step, up = SignInHarness(installation, people, clock, mailbox, log), threading.Event()

        def started(_host: str, port: int) -> None:
            step.port = port
            up.set()

        binding = Binding(port=0, shutdown_s=2, trusted_proxies=trusted_proxies)
        server = build_server(application, binding, started)
        thread = threading.Thread(target=server.run, name="sign-in service", daemon=True)
        thread.start()
        assert up.wait(20), "the server did not start"
        try:
            yield step
        finally:
            server.stop()
            thread.join(15)
            assert not thread.is_alive(), "the server did not stop"


# -- forms, as a browser without scripts fills them in


def csrf(page: str) -> str:
    """What the forms of a page carry."""
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found, page
    return found[1]


def hidden(page: str, name: str) -> str:
    """A hidden entry."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found, page
    return unescape(found[1])


def submit(visitor: Visitor, path: str, fields: Mapping[str, str], **headers: str) -> Reply:
    """Open a page and send its form, to the page's own address."""
    page = visitor.get(path)
    assert page.status < 400, f"{path} is {page.status}"
    return visitor.post(path, {"csrf": csrf(page.text), **fields}, **headers)


def follow(visitor: Visitor, reply: Reply) -> Reply:
    """Where an answer leads, which has to be here."""
    assert reply.status == 303, f"{reply.status}: {reply.text}"
    there = urlsplit(reply.headers["location"])
    assert not there.netloc, f"leads away: {reply.headers['location']}"
    return visitor.get(reply.headers["location"])


def typed(page: str, name: str) -> str:
    """What stands in an entry of a page."""
    found = re.search(rf'<input id="f-{name}"[^>]*?value="([^"]*)"', page)
    assert found, f"no {name} with a value"
    return unescape(found[1])
