"""The desk every page is handed out from: who is asking, in which language, and what all pages share.

Rules kept: no page holds a secret twice, is cached where it is somebody's own, or runs anything it did not bring: the
policy allows our own files and nothing else. A form is taken only from a page of ours, and what a person typed comes
back with the complaint.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from outcry.accounts.licences import Scope
from outcry.http.auth import LOCAL_COOKIE, SECURE_COOKIE
from outcry.http.compression import LEAST_BYTES, best_encoding, compressed
from outcry.http.patience import Workers
from outcry.ports.identity import Preferences, SessionRow, UserRow
from outcry.ports.limiter import Verdict
from outcry.services.errors import StoreUnavailable
from outcry.web.checks import Checks
from outcry.web.errands import Errands
from outcry.web.sent import FormRefused, fields_of, refuse_foreign

if TYPE_CHECKING:
    from outcry.web.language import Languages, Words
    from outcry.web.static import StaticFiles
    from outcry.web.supplies import PageServices
    from outcry.web.templates import Templates

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: A browser, signed in or not: what mailed links are tied to, and the forms of a visitor. Over https with the prefix
#: that pins it to this very host, which a neighbour's cannot set.
SECURE_VISIT_COOKIE, VISIT_COOKIE = "__Host-outcry-visit", "outcry-visit"
LANGUAGE_COOKIE = "outcry-language"
THEME_COOKIE = "outcry-theme"
#: How long the store may be silent before a page says so.
PATIENCE_S = 15.0
THREADS = 16

#: Answers one address.
Handler = Callable[["Desk", "Visit"], Awaitable[Response]]
#: Path, methods, handler.
Page = tuple[str, Sequence[str], Handler]

P = ParamSpec("P")
T = TypeVar("T")


class NotProved(Exception):
    """Who is asking is not known well enough for this."""


class NotSignedIn(NotProved):
    """The page is for somebody who is signed in: to the sign-in page, and back."""


class NotConfirmed(NotProved):
    """Who is asking has to be proved anew before this: to the confirmation page, and back."""


class NotAllowed(Exception):
    """The page is not for this user."""


class PageMissing(Exception):
    """There is nothing at this address."""


@dataclass(slots=True)
class Visit:
    """One request for a page. `user` and `session` are None for a visitor; `scope`: what may be shown, None for a
    visitor where visitors see nothing. `lapsed`: the session a visitor's browser had until its time was over; it only
    says whose form this is. `fresh`: a visit cookie still to be set."""

    request: Request
    words: Words
    theme: str
    preferences: Preferences
    user: UserRow | None
    session: SessionRow | None
    scope: Scope | None
    binding: str
    secure: bool
    fresh: bool = False
    lapsed: SessionRow | None = None
    flash: list[str] = field(default_factory=list[str])

    @property
    def path(self) -> str:
        """Path and query, to come back to."""
        url = self.request.url
        return url.path + (f"?{url.query}" if url.query else "")

    @property
    def line(self) -> str:
        """What tabs call the stream they share, no secret: another for each sign-in, so that nobody is told what was
        told to whoever was at this browser before."""
        if self.session is None:
            return "visitor"
        return blake2b(self.session.digest, digest_size=8, person=b"stream line").hexdigest()


class Drawn(HTMLResponse):
    """A page whose template is still to be filled, and then compressed, if its reader accepts that."""

    def __init__(self, fill: Callable[[], str], status: int, encoding: str | None) -> None:
        super().__init__("", status)
        self._fill, self._encoding = fill, encoding

    def finish(self) -> None:
        """Make the body and the headers that tell of it; takes milliseconds."""
        body, encoding = self._fill().encode(), self._encoding
        if encoding is not None and len(body) >= LEAST_BYTES:
            body = compressed(body, encoding)
            self.headers["content-encoding"] = encoding
        self.body = body
        self.headers["content-length"] = str(len(body))


class Desk:
    """What pages are made with. One for all of them; safe on one event loop."""

    def __init__(
        self, services: PageServices, templates: Templates, static: StaticFiles, languages: Languages
    ) -> None:
        self.services = services
        self.templates = templates
        self.static = static
        self.languages = languages
        self.errands, self.checks = Errands(), Checks()
        self._workers = Workers(THREADS, "pages", PATIENCE_S)

    async def ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what may wait for the store, in a thread; what waits for other hosts is one of the `errands`. Raises
        `StoreUnavailable` where the store is silent for too long."""
        running = self._workers.start(partial(work, *args, **kwargs))
        try:
            return await self._workers.wait(running)
        except StoreUnavailable:
            running.cancel()
            raise

    async def drawn(self, response: Response) -> Response:
        """A response ready to be sent: a page's template is filled beside the event loop, for it takes milliseconds."""
        if isinstance(response, Drawn):
            await self.ask(response.finish)
        return response

    def now_ns(self) -> int:
        """The present by the machine's clock, which sessions and keys go by."""
        return self.services.clock.now_ns()

    async def counted(self, subject: str, most: int) -> Verdict:
        """Count one of what may be done `most` times in any minute."""
        limiter = self.services.limiter
        return limiter.take(subject, most) or await limiter.ask(subject, most)

    # -- answers

    def page(
        self, visit: Visit, template: str, /, status: int = 200, *, secret: bool = False, **values: Any
    ) -> Response:
        """A whole page, filled once its handler is done. `secret`: it shows something that must be kept nowhere."""
        context = {"visit": visit, "csrf": self.csrf(visit), "desk": self, "status": status, **values}
        accepted = visit.request.headers.get("accept-encoding", "")
        encoding = None if secret else best_encoding(accepted)  # no secret is guessed by its page's length
        fill = partial(self.templates.render, template, visit.words, context)
        response = Drawn(fill, status, encoding)
        return self.dressed(visit, response, secret=secret)

    def fragment(self, visit: Visit, template: str, /, **values: Any) -> Response:
        """A part of a page, to be put in its place by a script."""
        return self.page(visit, template, **values)

    def to(self, visit: Visit, path: str, status: int = 303) -> Response:
        """Go on to another page of ours."""
        return self.dressed(visit, RedirectResponse(safe_path(path), status))

    def dressed(self, visit: Visit, response: Response, *, secret: bool = False) -> Response:
        """Give a response the headers every page has."""
        headers = response.headers
        headers["content-security-policy"] = POLICY
        headers["content-language"] = visit.words.language
        headers["vary"] = "cookie, accept-language, accept-encoding"
        headers["cache-control"] = "no-store" if secret or visit.user else "private, no-cache"
        headers["permissions-policy"] = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
        headers["cross-origin-opener-policy"] = "same-origin"
        headers["cross-origin-resource-policy"] = "same-origin"
        if visit.secure:
            headers["strict-transport-security"] = "max-age=31536000"
        if visit.fresh:
            self.set_cookie(visit, response, visit_cookie(secure=visit.secure), visit.binding)
        return response

    def set_cookie(
        self, visit: Visit, response: Response, name: str, value: str, max_age_s: int | None = None
    ) -> None:
        """Set a cookie that scripts cannot read and other sites do not send."""
        response.set_cookie(
            name, value, max_age=max_age_s, path="/", secure=visit.secure, httponly=True, samesite="lax"
        )

    def cookie_name(self, *, secure: bool) -> str:
        """What the cookie of a browser signed in is called."""
        return SECURE_COOKIE if secure else LOCAL_COOKIE

    # -- forms

    def csrf(self, visit: Visit) -> str:
        """The token that this browser's forms carry, masked anew each time: a page is compressed, and its length must
        not tell the token to who can choose what else is in it."""
        token = self._token(visit)
        mask = secrets.token_bytes(len(token))
        return (mask + _crossed(mask, token)).hex()

    def _token(self, visit: Visit) -> bytes:
        """What a form's token is without its mask: the same for all pages until this browser signs in or out. Not until
        its user is confirmed: what stands half filled in beside that page is still good."""
        session = visit.session or visit.lapsed
        tied = f"{session.id}:{session.created_ns}" if session else visit.binding
        key = self.services.form_secret
        return blake2b(f"csrf:{tied}".encode(), digest_size=20, key=key).digest()

    async def form(self, visit: Visit) -> dict[str, str]:
        """What was sent, each entry once (the last), as text. Raises `FormRefused`."""
        fields = await self.form_lists(visit)
        return {name: values[-1] for name, values in fields.items()}

    async def form_lists(self, visit: Visit) -> dict[str, list[str]]:
        """The same, with every value of an entry that was sent several times. Raises `FormRefused`."""
        fields = await fields_of(visit.request)
        self._refuse_forged(visit, fields.pop("csrf", [""])[-1])
        return fields

    async def message(self, visit: Visit) -> bytes:
        """What a script of ours sent as JSON, with the token of a form in the header `x-csrf`. Raises
        `FormRefused`."""
        refuse_foreign(visit.request, "application/json")
        self._refuse_forged(visit, visit.request.headers.get("x-csrf", ""))
        return await visit.request.body()

    def _refuse_forged(self, visit: Visit, token: str) -> None:
        wanted = self._token(visit)
        try:
            given = bytes.fromhex(token)
        except ValueError:
            raise FormRefused from None
        mask, masked = given[: len(wanted)], given[len(wanted) :]
        if len(masked) != len(wanted) or not hmac.compare_digest(_crossed(mask, masked), wanted):
            raise FormRefused

    # -- who may

    def user(self, visit: Visit) -> UserRow:
        """The user, who has to be signed in. Raises `NotSignedIn`."""
        if visit.user is None:
            raise NotSignedIn
        return visit.user

    def sender(self, visit: Visit) -> None:
        """Let pass a form of somebody who is signed in, or was when it was opened: what was typed is worth keeping.
        Raises `NotSignedIn`."""
        if visit.session is None and visit.lapsed is None:
            raise NotSignedIn

    def confirmed(self, visit: Visit) -> UserRow:
        """The user, who has proved it within ten minutes. Raises `NotSignedIn`, `NotConfirmed`."""
        user = self.user(visit)
        assert visit.session is not None
        if not self.services.browsers.recent(visit.session, self.now_ns()):
            raise NotConfirmed
        return user

    def operator(self, visit: Visit) -> UserRow:
        """The user, who has to be an operator. Raises `NotSignedIn`, `NotAllowed`."""
        user = self.user(visit)
        if user.role != "operator":
            raise NotAllowed
        return user


def _crossed(one: bytes, other: bytes) -> bytes:
    """The exclusive or of two texts of one length."""
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def visit_cookie(*, secure: bool) -> str:
    """What the cookie is called that a browser's forms are tied to."""
    return SECURE_VISIT_COOKIE if secure else VISIT_COOKIE


def new_binding() -> str:
    """What a visitor's forms are tied to."""
    return secrets.token_urlsafe(24)


def safe_path(path: str) -> str:
    """A path on this site, whatever somebody put in an address: `/` where it is none."""
    plain = (
        path.startswith("/")
        and not path.startswith(("//", "/\\"))
        and path.isprintable()
        and "\\" not in path
    )
    return path if plain else "/"


def said(form: Mapping[str, str], name: str, most: int = 500) -> str:
    """One entry of a form, without blanks around it and no longer than a person types, nor with what nobody can type
    and PostgreSQL cannot be asked about."""
    return form.get(name, "").replace("\0", "").strip()[:most]
