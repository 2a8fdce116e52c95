"""Who is asking: a request's key becomes a caller with a tier, a limit and a scope, or a reason why not. So does the
cookie of a browser signed in, for what pages ask.

Rule kept: the key travels in exactly one `x-api-key` header. One in the address is refused even beside a good header,
and whoever has no good key is anonymous and counted by address. A cookie never opens `/api`, nor a key `/page`.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, replace

from outcry.access.client_address import network
from outcry.access.key_format import KEY_LENGTH
from outcry.access.keys import ApiKeys, KeyRefusal, Licences
from outcry.access.licences import Scope
from outcry.access.model import KeyRow, Role
from outcry.access.tiers import ANONYMOUS, ApiTier, requests_allowed
from outcry.base.clock import Clock
from outcry.base.redaction import holds_key
from outcry.http.host_names import host_name, is_loopback_name, is_own_host
from outcry.http.requests import Request
from outcry.people.browser_sessions import BrowserSessions
from outcry.people.model import UserRow

_REMEMBERED = 4096
#: What a page may ask in any 60 seconds, and how many streams a person may have open at a time, whatever the tier.
PAGE_REQUESTS = 600
PAGE_STREAMS = 20
#: And all people together who are not signed in: a stream costs memory, and a visitor nothing.
VISITOR_STREAMS = 200
#: The cookie of a browser signed in: over https with the prefix that pins it to this very host, else on this machine.
SECURE_COOKIE = "__Host-outcry"
LOCAL_COOKIE = "outcry-local"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking. `subject` is what the limiter counts; `name` may be logged; `scope` is None without one.

    `generation`: of keys and grants, when this was found out; once that has moved, ask again. `role`: what its key is
    for.
    """

    subject: str
    name: str
    tier: ApiTier
    limit: int
    scope: Scope | None
    generation: int
    role: Role = "read"
    #: The number of a browser's session, 0 for a visitor; None: it asks with a key.
    session: int | None = None


@dataclass(frozen=True, slots=True)
class PageAuthenticator:
    """Who comes in by a page. `visitor`: what somebody not signed in may see, None: nothing. `public_url`: what this
    service is known as, besides this machine's names."""

    browser_sessions: BrowserSessions
    clock: Clock
    visitor: Callable[[], Scope | None]
    public_url: str = ""


class Authenticator:
    """Authenticate callers from memory. It never queries the store; the revision poller brings changes in."""

    def __init__(self, keys: ApiKeys, licences: Licences, pages: PageAuthenticator | None = None) -> None:
        self._keys = keys
        self._licences = licences
        self._pages = pages
        self._generation = -1
        self._known: dict[bytes, Caller] = {}

    @property
    def generation(self) -> int:
        """Moves whenever a key or a grant changed or a browser went: what was concluded from them before no longer
        holds."""
        browser_sessions = self._pages.browser_sessions.generation if self._pages else 0
        return self._keys.generation + self._licences.generation + browser_sessions  # all only grow

    def authenticate(self, request: Request) -> tuple[Caller, KeyRefusal | None]:
        """Return the caller, anonymous where there is a reason against the key."""
        if holds_key(request.query):
            return anonymous(request.client), KeyRefusal.KEY_IN_QUERY
        values = request.key_values
        if len(values) == 1:
            generation = self.generation
            if generation != self._generation:
                self._known, self._generation = {}, generation
            caller = self._known.get(values[0])
            if caller is not None:
                return caller, None
            return self._look_up(values[0], request.client, generation)
        return anonymous(request.client), KeyRefusal.MALFORMED if values else KeyRefusal.MISSING

    def authenticate_page(self, request: Request) -> tuple[Caller, KeyRefusal | None]:
        """Return who asks from a page: the user of a browser signed in, or a visitor where visitors see anything."""
        pages = self._pages
        if pages is None or not is_own_host(host_name(_header(request, b"host")), pages.public_url):
            return anonymous(request.client), KeyRefusal.MISSING
        generation = self.generation
        secure = request.scope.get("scheme") == "https"
        found = pages.browser_sessions.find(session_token(request), pages.clock.now_ns(), secure=secure)
        if found is not None:
            return self._of_page(found[1], found[0].id, generation), None
        scope = pages.visitor()
        if scope is None:
            return anonymous(request.client), KeyRefusal.MISSING
        subject = f"visitor:{network(request.client)}"
        return Caller(subject, "visitor", ANONYMOUS, PAGE_REQUESTS, scope, generation, session=0), None

    def _of_page(self, user: UserRow, session: int, generation: int) -> Caller:
        name, scope = f"user:{user.id}", self._licences.of_person(user.id, user.tier)
        return Caller(name, name, user.tier, PAGE_REQUESTS, scope, generation, session=session)

    def _reauthenticate_page(self, caller: Caller, session: int, generation: int) -> Caller | None:
        pages = self._pages
        if pages is None:
            return None
        if session == 0:
            scope = pages.visitor()
            return replace(caller, scope=scope, generation=generation) if scope is not None else None
        user = pages.browser_sessions.still(session, pages.clock.now_ns())
        return self._of_page(user, session, generation) if user is not None else None

    def _look_up(self, value: bytes, client: str, generation: int) -> tuple[Caller, KeyRefusal | None]:
        if value and (len(value) != KEY_LENGTH or not value.isascii()):
            return anonymous(client), KeyRefusal.MALFORMED
        found = self._keys.known(value.decode("ascii"))
        if isinstance(found, KeyRefusal):
            return anonymous(client), found
        caller = self._caller(found, generation)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[value] = caller  # only ever a valid key, so strangers cannot fill this
        return caller, None

    def reauthenticate(self, caller: Caller) -> Caller | None:
        """Return the caller of the same key as keys and grants stand now; None once the key is revoked."""
        generation = self.generation
        if caller.generation == generation:
            return caller
        if caller.session is not None:
            return self._reauthenticate_page(caller, caller.session, generation)
        return self.caller_of_key(caller.name, caller.subject)

    def caller_of_key(self, name: str, subject: str) -> Caller | None:
        """Return the caller of a key by its name and the limiter's; None where it is no good."""
        row = self._keys.live(name)
        found = self._caller(row, self.generation) if row is not None else None
        return found if found is not None and found.subject == subject else None

    def _caller(self, row: KeyRow, generation: int) -> Caller:
        return Caller(
            f"key:{row.id}",
            row.prefix,
            row.tier,
            requests_allowed(row.tier),
            self._licences.scope(row),
            generation,
            row.role,
        )


def anonymous(client: str) -> Caller:
    """Return the caller without a key at this address."""
    return Caller(f"ip:{network(client)}", ANONYMOUS, ANONYMOUS, requests_allowed(ANONYMOUS), None, 0)


def session_token(request: Request) -> str:
    """The token in the cookie of a browser signed in; empty without one."""
    wanted = SECURE_COOKIE if request.scope.get("scheme") == "https" else LOCAL_COOKIE
    for name, value in request.scope["headers"]:
        if name == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                cookie, _, token = pair.strip().partition("=")
                if cookie == wanted:
                    return token
    return ""


def _header(request: Request, wanted: bytes) -> str:
    """The first of a header's values; empty without one."""
    return next((value.decode("latin-1") for name, value in request.scope["headers"] if name == wanted), "")


def is_loopback(request: Request) -> bool:
    """Whether this comes from this machine itself, under one of its names, and nobody passed it on."""
    if not is_loopback_name(host_name(_header(request, b"host"))):
        return False
    forwarded = {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
    if any(name in forwarded for name, _ in request.scope["headers"]):
        return False
    try:
        address = ipaddress.ip_address(request.client)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
