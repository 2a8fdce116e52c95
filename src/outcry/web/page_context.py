"""What all pages share: the user, the language, forms, cookies and response headers.

No page shows a secret twice, and private pages are not cached. The content security policy allows a page to load files
from this service only. Forms must come from our pages, and a rejected form keeps what the user typed.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.base.errors import StoreUnavailable
from outcry.http.auth import LOCAL_COOKIE, SECURE_COOKIE
from outcry.http.compression import LEAST_BYTES, best_encoding, compressed
from outcry.http.workers import Workers
from outcry.people.model import BrowserSession, Preferences, UserRow
from outcry.web.background import UserThreadPool
from outcry.web.checks import Checks
from outcry.web.form_input import (
    MAX_FORM_BYTES,
    Form,
    FormRefused,
    fields_of,
    refuse_foreign,
    started_by,
)

if TYPE_CHECKING:
    from outcry.web.language import Languages, Words
    from outcry.web.page_services import PageServices
    from outcry.web.static import StaticFiles
    from outcry.web.template_engine import Templates

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: Identifies a browser, signed in or not: emailed links and visitors' forms are bound to it. The `__Host-` prefix keeps
#: other hosts of the domain from setting it.
SECURE_BROWSER_COOKIE, BROWSER_COOKIE = "__Host-outcry-visit", "outcry-visit"
LANGUAGE_COOKIE = "outcry-language"
THEME_COOKIE = "outcry-theme"
#: Time-out of a database call before the page shows an error.
PATIENCE_S = 15.0
THREADS = 16

#: Handler of one URL.
Handler = Callable[["PageContext", "PageRequest"], Awaitable[Response]]
#: Path, methods, handler.
Page = tuple[str, Sequence[str], Handler]

P = ParamSpec("P")
T = TypeVar("T")


class NotProved(Exception):
    """Base class of errors for requests that need a stronger proof of the user's identity."""


class NotSignedIn(NotProved):
    """The page needs a signed-in user: redirect to the sign-in page, and afterwards back."""


class NotConfirmed(NotProved):
    """The user must confirm their identity first: redirect to the confirmation page, and afterwards back."""


class NotAllowed(Exception):
    """The user may not see this page."""


class PageMissing(Exception):
    """There is no page at this URL."""


@dataclass(slots=True)
class PageRequest:
    """One page request.

    `user`, `session`: None for a visitor. `scope`: the data the user may see, None if visitors see nothing. `lapsed`:
    the browser's expired session, used only to recognise forms that it opened. `fresh`: whether the response sets a new
    cookie that ties forms to this browser.
    """

    http: Request
    words: Words
    theme: str
    preferences: Preferences
    user: UserRow | None
    session: BrowserSession | None
    scope: Scope | None
    binding: str
    secure: bool
    fresh: bool = False
    lapsed: BrowserSession | None = None
    flash: list[str] = field(default_factory=list[str])

    @property
    def path(self) -> str:
        """Path and query of the request, to redirect back to it later."""
        url = self.http.url
        return url.path + (f"?{url.query}" if url.query else "")

    @property
    def line(self) -> str:
        """ID of the event stream that a browser's tabs share; not a secret.

        Each sign-in has another one, so that the next user of the browser does not receive the previous user's events.
        """
        if self.session is None:
            return "visitor"
        return blake2b(self.session.digest, digest_size=8, person=b"stream line").hexdigest()


class DeferredPage(HTMLResponse):
    """A page whose template is rendered after its handler has returned, then compressed if the browser accepts it."""

    def __init__(self, fill: Callable[[], str], status: int, encoding: str | None) -> None:
        super().__init__("", status)
        self._fill, self._encoding = fill, encoding

    def finish(self) -> None:
        """Render the body and set its headers; takes milliseconds."""
        body, encoding = self._fill().encode(), self._encoding
        if encoding is not None and len(body) >= LEAST_BYTES:
            body = compressed(body, encoding)
            self.headers["content-encoding"] = encoding
        self.body = body
        self.headers["content-length"] = str(len(body))


class PageContext:
    """Renders pages and checks requests. One instance for all pages; for one event loop."""

    def __init__(
        self, services: PageServices, templates: Templates, static: StaticFiles, languages: Languages
    ) -> None:
        self.services = services
        self.templates = templates
        self.static = static
        self.languages = languages
        self.background, self.checks = UserThreadPool(), Checks()
        self._workers = Workers(THREADS, "pages", PATIENCE_S)

    async def ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a database call in a thread; return its result. Raises `StoreUnavailable`.

        Calls that wait for other hosts use `background` instead.
        """
        running = self._workers.start(partial(work, *args, **kwargs))
        try:
            return await self._workers.wait(running)
        except StoreUnavailable:
            running.cancel()
            raise

    async def rendered(self, response: Response) -> Response:
        """Render a page's template in a thread, because it takes milliseconds."""
        if isinstance(response, DeferredPage):
            await self.ask(response.finish)
        return response

    def now_ns(self) -> int:
        """Return the machine's current time (ns UTC), with which sessions and keys are checked."""
        return self.services.clock.now_ns()

    async def counted(self, subject: str, most: int) -> Verdict:
        """Count an action of `subject`; return whether it stays within `most` times per minute."""
        limiter = self.services.limiter
        return limiter.take(subject, most) or await limiter.ask(subject, most)

    # -- answers

    def page(
        self,
        request: PageRequest,
        template: str,
        /,
        status: int = 200,
        *,
        secret: bool = False,
        **values: Any,
    ) -> Response:
        """Return a page, whose template is rendered after its handler has returned.

        `secret`: whether the page shows a secret, so that it must not be cached.
        """
        values = {"request": request, "csrf": self.csrf(request), "context": self, "status": status, **values}
        accepted = request.http.headers.get("accept-encoding", "")
        encoding = None if secret or _is_exposed(request) else best_encoding(accepted)
        fill = partial(self.templates.render, template, request.words, values)
        response = DeferredPage(fill, status, encoding)
        return self.with_page_headers(request, response, secret=secret)

    def fragment(self, request: PageRequest, template: str, /, **values: Any) -> Response:
        """Return a part of a page for a script to insert."""
        return self.page(request, template, **values)

    def to(self, request: PageRequest, path: str, status: int = 303) -> Response:
        """Redirect to another page of this site."""
        return self.with_page_headers(request, RedirectResponse(safe_path(path), status))

    def with_page_headers(
        self, request: PageRequest, response: Response, *, secret: bool = False
    ) -> Response:
        """Add the headers that every page has to a response."""
        headers = response.headers
        headers["content-security-policy"] = POLICY
        headers["content-language"] = request.words.language
        headers["vary"] = "cookie, accept-language, accept-encoding"
        headers["cache-control"] = "no-store" if secret or request.user else "private, no-cache"
        headers["permissions-policy"] = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
        headers["cross-origin-opener-policy"] = "same-origin"
        headers["cross-origin-resource-policy"] = "same-origin"
        if request.secure:
            headers["strict-transport-security"] = "max-age=31536000"
        if request.fresh:
            self.set_cookie(request, response, browser_cookie(secure=request.secure), request.binding)
        return response

    def set_cookie(
        self, request: PageRequest, response: Response, name: str, value: str, max_age_s: int | None = None
    ) -> None:
        """Set a cookie that scripts cannot read and other sites do not send."""
        response.set_cookie(
            name, value, max_age=max_age_s, path="/", secure=request.secure, httponly=True, samesite="lax"
        )

    def cookie_name(self, *, secure: bool) -> str:
        """Return the name of the session cookie."""
        return SECURE_COOKIE if secure else LOCAL_COOKIE

    # -- forms

    def csrf(self, request: PageRequest) -> str:
        """Return the CSRF token to put into this browser's forms.

        The token is masked differently each time, so that the length of a compressed page reveals nothing about it.
        """
        token = self._token(request)
        mask = secrets.token_bytes(len(token))
        return (mask + _crossed(mask, token)).hex()

    def _token(self, request: PageRequest) -> bytes:
        """Return the unmasked CSRF token.

        It changes at sign-in and sign-out. It does not change when the user confirms their identity, so a form that is
        open in another tab stays valid.
        """
        session = request.session or request.lapsed
        tied = f"{session.id}:{session.created_ns}" if session else request.binding
        key = self.services.form_secret
        return blake2b(f"csrf:{tied}".encode(), digest_size=20, key=key).digest()

    async def form(self, request: PageRequest, max_bytes: int = MAX_FORM_BYTES) -> Form:
        """Return the submitted form of at most `max_bytes`. Raises `FormRefused`."""
        fields = await fields_of(request.http, max_bytes)
        self._refuse_forged(request, fields.pop("csrf", [""])[-1])
        return Form(fields, request.words)

    async def message(self, request: PageRequest) -> bytes:
        """Return the JSON body that one of our scripts sent. Raises `FormRefused`.

        The form token is in the header `x-csrf`.
        """
        refuse_foreign(request.http, "application/json")
        self._refuse_forged(request, request.http.headers.get("x-csrf", ""))
        return await request.http.body()

    def _refuse_forged(self, request: PageRequest, token: str) -> None:
        wanted = self._token(request)
        try:
            given = bytes.fromhex(token)
        except ValueError:
            raise FormRefused from None
        mask, masked = given[: len(wanted)], given[len(wanted) :]
        if len(masked) != len(wanted) or not hmac.compare_digest(_crossed(mask, masked), wanted):
            raise FormRefused

    # -- who may

    def user(self, request: PageRequest) -> UserRow:
        """Return the signed-in user. Raises `NotSignedIn`."""
        if request.user is None:
            raise NotSignedIn
        return request.user

    def sender(self, request: PageRequest) -> None:
        """Check that a form comes from a signed-in user, or one whose session expired since the form was opened.

        After a new sign-in the form can then be restored as typed. Raises `NotSignedIn`.
        """
        if request.session is None and request.lapsed is None:
            raise NotSignedIn

    def confirmed(self, request: PageRequest) -> UserRow:
        """Return the user if they confirmed their identity in the last ten minutes.

        Raises `NotSignedIn`, `NotConfirmed`.
        """
        user = self.user(request)
        assert request.session is not None
        if not self.services.browser_sessions.is_recently_confirmed(request.session, self.now_ns()):
            raise NotConfirmed
        return user

    def operator(self, request: PageRequest) -> UserRow:
        """Return the user if they are an operator. Raises `NotSignedIn`, `NotAllowed`."""
        user = self.user(request)
        if user.role != "operator":
            raise NotAllowed
        return user


def _is_exposed(request: PageRequest) -> bool:
    """Return whether the length of a compressed page could tell others what the user sees (decision 0047).

    Another site can open our pages again and again, with text of its choice in the URL, while an eavesdropper measures
    the lengths of the pages. Without HTTPS this does not matter, because an eavesdropper can read the pages themselves.
    """
    if request.user is None:
        return False
    origin = started_by(request.http)
    return origin == "another site" or (origin == "unknown" and request.secure)


def _crossed(one: bytes, other: bytes) -> bytes:
    """Return the bitwise exclusive or (XOR) of two byte strings of equal length."""
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def browser_cookie(*, secure: bool) -> str:
    """Return the name of the cookie that ties forms to a browser."""
    return SECURE_BROWSER_COOKIE if secure else BROWSER_COOKIE


def new_binding() -> str:
    """Return a new value of the cookie that ties a visitor's forms to the browser."""
    return secrets.token_urlsafe(24)


def safe_path(path: str) -> str:
    """Return a path on this site, or `/` if the value is not one."""
    plain = (
        path.startswith("/")
        and not path.startswith(("//", "/\\"))
        and path.isprintable()
        and "\\" not in path
    )
    return path if plain else "/"
