"""Authentication: find the caller who sent a request, by the API key of the request or the cookie of a web page.

A key must be sent in exactly one `x-api-key` header. A request with a key in the URL is refused, even if its header is
valid. A caller without a valid key is anonymous, and the rate limit counts its requests by IP address. `/api` never
accepts a cookie, and `/page` never accepts a key.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, replace

from outcry.access.client_address import network
from outcry.access.key_format import KEY_LENGTH
from outcry.access.keys import ApiKeys, KeyRefusal
from outcry.access.licences import Licences, Scope
from outcry.access.model import KeyRow, Role
from outcry.access.tiers import ANONYMOUS, REQUESTS_ALLOWED, ApiTier
from outcry.base.clock import Clock
from outcry.base.host_names import is_loopback_name
from outcry.base.redaction import holds_key
from outcry.http.host_names import host_name, is_own_host
from outcry.http.recently_used import RecentlyUsed
from outcry.http.requests import Request
from outcry.people.browser_sessions import BrowserSessions
from outcry.people.model import UserRow

#: Memory for the callers of valid keys, and of one.
_CALLER_BYTES, _CALLER = 2**24, 700
#: Requests of a user's pages in any 60 seconds, and a user's open streams, for every tier.
PAGE_REQUESTS = 600
PAGE_STREAMS = 20
#: Open streams of all visitors together, because a stream costs memory and visitors are not limited otherwise.
VISITOR_STREAMS = 200
#: Cookies of signed-in browsers. Over https, the prefix `__Host-` binds the cookie to this host.
SECURE_COOKIE = "__Host-outcry"
LOCAL_COOKIE = "outcry-local"


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, authenticated or anonymous.

    `subject`: the name under which the rate limiter counts its requests. `name`: may be logged. `scope`: what the
    caller may see; None if anonymous. `role`: role of the key. `generation`: version of the
    keys and grants at which the caller was found; once it has changed, the caller must be authenticated again.
    """

    subject: str
    name: str
    tier: ApiTier
    limit: int
    scope: Scope | None
    generation: int
    role: Role = "read"
    #: Id of the browser session; 0 for a visitor, None for a caller with a key.
    session: int | None = None


@dataclass(frozen=True, slots=True)
class PageAuthenticator:
    """What is needed to authenticate requests for web pages.

    `visitor`: returns what visitors may see, None if nothing. `public_url`: the service's URL; requests must name its
    host or this machine.
    """

    browser_sessions: BrowserSessions
    clock: Clock
    visitor: Callable[[], Scope | None]
    public_url: str = ""


class Authenticator:
    """Finds the caller of each request, from memory.

    It never queries the database, because the revision poller loads changes into memory.
    """

    def __init__(self, keys: ApiKeys, licences: Licences, pages: PageAuthenticator | None = None) -> None:
        self._keys = keys
        self._licences = licences
        self._pages = pages
        self._generation = -1
        self._known = RecentlyUsed[bytes, Caller](_CALLER_BYTES, lambda _key: _CALLER)

    @property
    def generation(self) -> int:
        """Version number of all keys, grants and browser sessions.

        After it has changed, callers that were authenticated before must be authenticated again.
        """
        browser_sessions = self._pages.browser_sessions.generation if self._pages else 0
        # Each number only increases, so the sum never repeats.
        return self._keys.generation + self._licences.generation + browser_sessions

    def authenticate(self, request: Request) -> tuple[Caller, KeyRefusal | None]:
        """Return the caller of an API request, and the reason if its key is refused. The caller is then anonymous."""
        if holds_key(request.query):
            return anonymous(request.client), KeyRefusal.KEY_IN_QUERY
        return self.authenticate_header(request)

    def authenticate_header(self, request: Request) -> tuple[Caller, KeyRefusal | None]:
        """Return the same as `authenticate`, for a request whose URL is known to contain no key."""
        values = request.key_values
        if len(values) == 1:
            generation = self.generation
            if generation != self._generation:
                self._known.clear()
                self._generation = generation
            caller = self._known.get(values[0])
            if caller is not None:
                return caller, None
            return self._look_up(values[0], request.client, generation)
        return anonymous(request.client), KeyRefusal.MALFORMED if values else KeyRefusal.MISSING

    def authenticate_page(self, request: Request) -> tuple[Caller, KeyRefusal | None]:
        """Return the caller of a page's request: the signed-in user, or a visitor if visitors are allowed.

        If neither is possible, also return the reason.
        """
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
        user = pages.browser_sessions.active_user(session, pages.clock.now_ns())
        return self._of_page(user, session, generation) if user is not None else None

    def _look_up(self, value: bytes, client: str, generation: int) -> tuple[Caller, KeyRefusal | None]:
        if value and (len(value) != KEY_LENGTH or not value.isascii()):
            return anonymous(client), KeyRefusal.MALFORMED
        found = self._keys.known(value.decode("ascii"))
        if isinstance(found, KeyRefusal):
            return anonymous(client), found
        caller = _caller(found, self._licences.scope(found), generation)
        self._known.put(value, caller)  # only valid keys are cached, so others cannot fill it
        return caller, None

    def reauthenticate(self, caller: Caller) -> Caller | None:
        """Look up a caller again in the current keys and grants; None if the key or session is not valid any more."""
        generation = self.generation
        if caller.generation == generation:
            return caller
        if caller.session is not None:
            return self._reauthenticate_page(caller, caller.session, generation)
        return self.caller_of_key(caller.name, caller.subject)

    def caller_of_key(self, name: str, subject: str) -> Caller | None:
        """Return the caller for a key that was verified before; None if it is no longer the subject's.

        name: the first characters of the key. subject: the name under which the rate limiter counts its requests.
        """
        row = self._keys.live(name)
        found = _caller(row, self._licences.scope(row), self.generation) if row is not None else None
        return found if found is not None and found.subject == subject else None


def _caller(row: KeyRow, scope: Scope, generation: int) -> Caller:
    """Return the caller for a valid key. scope: what the caller may see."""
    limit = REQUESTS_ALLOWED[row.tier]
    return Caller(f"key:{row.id}", row.prefix, row.tier, limit, scope, generation, row.role)


def anonymous(client: str) -> Caller:
    """Return the anonymous caller for a client's IP address."""
    return Caller(f"ip:{network(client)}", ANONYMOUS, ANONYMOUS, REQUESTS_ALLOWED[ANONYMOUS], None, 0)


def session_token(request: Request) -> str:
    """Return the session token in a browser's cookie; empty if there is none."""
    wanted = SECURE_COOKIE if request.scope.get("scheme") == "https" else LOCAL_COOKIE
    for name, value in request.scope["headers"]:
        if name == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                cookie, _, token = pair.strip().partition("=")
                if cookie == wanted:
                    return token
    return ""


def _header(request: Request, wanted: bytes) -> str:
    """Return the first value of a header; empty if there is none."""
    return next((value.decode("latin-1") for name, value in request.scope["headers"] if name == wanted), "")


def is_loopback(request: Request) -> bool:
    """Return whether a request comes from this machine, not through a proxy, and names the machine as host."""
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
