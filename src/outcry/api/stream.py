"""`GET /api/stream`: levels and alerts as they happen, as server-sent events; and the tickets that open it in a page.

Rules kept: a stream counts as one request, and a key has only so many open; a reader that comes back with the id of
the last event it saw is told every alert since, in order, none twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from outcry.access.keys import KeyRefusal
from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.access.tiers import streams_allowed
from outcry.answers.alerts import entry
from outcry.answers.streaming import AlertFilter, MissedAlerts, RequestedSymbol, alert_event, event, source_of
from outcry.api.follower import Follower
from outcry.api.hub import Hub
from outcry.api.parameters import read_query, symbol_of
from outcry.api.tickets import LIFETIME_S
from outcry.base.errors import InvalidParameter, ServiceError
from outcry.base.redaction import holds_key
from outcry.base.timestamps import iso_timestamp
from outcry.database.errors import StoreBusy
from outcry.http.auth import PAGE_STREAMS, VISITOR_STREAMS, Caller, anonymous
from outcry.http.edge import Edge, Headers, Reply
from outcry.http.errors import (
    JSON_TYPE,
    STARTING,
    UNAVAILABLE,
    method_not_allowed,
    problem_of,
    too_many_streams,
    wrong_key,
)
from outcry.http.requests import Request
from outcry.live.model import AlertRow
from outcry.wire.alerts import AlertEntry
from outcry.wire.stream import Snapshot, State

STREAM = "/api/stream"
TICKET = "/api/stream/ticket"
NAMES = frozenset({"symbols", "symbol", "ticket", "lastEventId"})
MOST_NAMES = 200
RETRY_AFTER_MS = 5000
STREAM_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_RETRY = b"retry: 2000\n\n"
_LONGEST_ID = 18


class Ticket(msgspec.Struct, frozen=True, rename="camel"):
    """Answer of `POST /api/stream/ticket`."""

    ticket: str
    expires_in_seconds: int


@dataclass(slots=True)
class Opened(Reply):
    """A stream about to begin. What could be refused has not been, and its first events are ready."""

    follower: Follower | None = None
    first: Sequence[bytes] = ()


class Streams:
    """Opens streams, and gives the tickets that open them."""

    def __init__(self, edge: Edge, hub: Hub) -> None:
        self._edge, self._hub = edge, hub

    def authenticate(self, request: Request) -> tuple[Caller, KeyRefusal | None]:
        """Return who asks: by the key in the header, or else by the ticket in the address."""
        ticket = "" if request.key_values or request.place != STREAM else _ticket(request.query)
        if not ticket or holds_key(request.query):
            return self._edge.authenticator.authenticate(request)
        given = self._hub.tickets.take(ticket)
        caller = self._edge.authenticator.caller_of_key(*given) if given is not None else None
        return (caller, None) if caller is not None else (anonymous(request.client), KeyRefusal.TICKET)

    def full(self, request: Request, caller: Caller) -> bool:
        """Whether this asks for a stream that the caller's key may not have besides those it has."""
        if request.place != STREAM or caller.scope is None:
            return False
        crowded = caller.session == 0 and self._of_visitors() >= VISITOR_STREAMS
        return crowded or self._open(caller) >= _allowed(caller)

    def too_many(self, route: str, request: Request, caller: Caller, verdict: Verdict) -> Reply:
        """Refuse a stream because of those that are open."""
        self._edge.metrics.refuse(caller.tier)
        problem = too_many_streams(RETRY_AFTER_MS, _allowed(caller))
        return self._edge.refuse(request, route, caller, verdict, problem)

    async def reply(self, request: Request, caller: Caller, verdict: Verdict, *, current: bool) -> Reply:
        """Answer one request of a known caller. `current`: whether what is known of keys is fresh."""
        edge, route = self._edge, request.path
        methods = ("POST",) if request.place == TICKET else ("GET", "HEAD")
        if request.method not in methods:
            problem = (
                method_not_allowed(("POST",), "method_not_allowed.post")
                if request.place == TICKET
                else method_not_allowed(methods)
            )
            return edge.refuse(request, route, caller, verdict, problem)
        if caller.role != "read":
            return edge.refuse(request, route, caller, verdict, wrong_key("read"))
        if not current or caller.scope is None:
            return edge.refuse(request, route, caller, verdict, UNAVAILABLE)
        if self._hub.closing:
            return edge.refuse(request, route, caller, verdict, STARTING)
        if request.place == TICKET:
            return self._give(caller, verdict)
        try:
            return await self._opened(request, caller, caller.scope, verdict)
        except ServiceError as error:
            return edge.refuse(request, route, caller, verdict, problem_of(error))
        except StoreBusy:
            return edge.refuse(request, route, caller, verdict, UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - here the caller is known
            return edge.failed(request, route, error, caller)

    def _give(self, caller: Caller, verdict: Verdict) -> Reply:
        body = msgspec.json.encode(Ticket(self._hub.tickets.give(caller), LIFETIME_S))
        headers: Headers = [
            (b"content-type", JSON_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        return Reply(200, headers, body, TICKET, caller, verdict)

    def _of_visitors(self) -> int:
        return sum(follower.caller.session == 0 for follower in self._hub.followers)

    def _open(self, caller: Caller) -> int:
        return sum(follower.caller.subject == caller.subject for follower in self._hub.followers)

    async def _opened(self, request: Request, caller: Caller, scope: Scope, verdict: Verdict) -> Reply:
        given = read_query(request.query, NAMES)
        names = _names(given)
        asked = await self._hub.lookup.mean(scope, names) if names else None
        if request.method == "HEAD":
            return Reply(200, STREAM_HEADERS, b"", STREAM, caller, verdict)
        if self._open(caller) >= _allowed(caller):  # others were opened meanwhile
            return self.too_many(STREAM, request, caller, verdict)
        follower = Follower(caller, _one_a_product(asked) if asked else None)
        self._hub.followers.add(follower)
        try:
            await self._hub.lookup.look_up(follower, opening=True)
            first = await self._first(follower, scope, _last_id(request, given))
        except BaseException:
            self._hub.leave(follower)
            raise
        follower.opening = False
        return Opened(200, STREAM_HEADERS, b"", STREAM, caller, verdict, follower=follower, first=first)

    async def _first(self, follower: Follower, scope: Scope, last_id: int | None) -> list[bytes]:
        """What a stream begins with: the alerts since the last one seen, and everything as it stands."""
        wanted = follower.wanted
        if wanted is None:  # the key was revoked meanwhile
            return []
        missed, current, known = await self._hub.lookup.in_store(lambda: self._alerts(scope, wanted, last_id))
        follower.cursor = known
        told = [alert_event(row) for row in missed.rows] if missed is not None else []
        self._hub.count("alert", len(told))
        self._hub.count("snapshot", 1)
        snapshot = self._snapshot(follower, missed, [entry(row, source_of(row)) for row in current])
        return [_RETRY, *told, event("snapshot", snapshot, known)]

    def _alerts(
        self, scope: Scope, wanted: AlertFilter, last_id: int | None
    ) -> tuple[MissedAlerts | None, list[AlertRow], int]:
        """In a thread: alerts since the last one seen, if there was one; today's, if that does not tell them; and
        the newest `seq` told of."""
        tail = self._hub.tail
        missed = tail.after(scope, wanted, last_id) if last_id is not None else None
        if missed is None:
            return None, *tail.current(scope, wanted)
        if missed.whole:
            return missed, [], missed.known
        told = {row.seq for row in missed.rows}
        current, _ = tail.current(scope, wanted, missed.known)
        return missed, [row for row in current if row.seq not in told], missed.known

    def _snapshot(self, follower: Follower, missed: MissedAlerts | None, alerts: list[AlertEntry]) -> bytes:
        levels: list[msgspec.Raw] = []
        states: list[State] = []
        for slot in follower.slots.values():
            said = slot.look()
            if said is not None:  # else it went live this moment: an event will tell
                if said.answer:
                    levels.append(msgspec.Raw(said.answer))
                states.append(slot.tell(said))
        whole = Snapshot(
            updated_at=iso_timestamp(self._edge.clock.now_ns()), resumed=missed is not None,
            missed=missed is not None and not missed.whole, levels=levels, states=states, alerts=alerts,
        )  # fmt: skip
        return msgspec.json.encode(whole)


def _allowed(caller: Caller) -> int:
    if caller.session is not None:
        return PAGE_STREAMS
    return 0 if caller.tier == "anonymous" else streams_allowed(caller.tier)


def _ticket(query: bytes) -> str:
    try:
        return read_query(query, frozenset({"ticket"})).get("ticket", "")
    except InvalidParameter:
        return "unreadable"


def _names(given: Mapping[str, str]) -> list[str]:
    """Symbols between commas, under either name: one that was overlooked would open a stream of everything.

    Raises `UnknownSymbol` for what can be no name, `InvalidParameter` for both names, or far too many symbols.
    """
    if "symbols" in given and "symbol" in given:
        raise InvalidParameter("invalid_parameter.repeated", parameter="symbols")
    text = given.get("symbols") or given.get("symbol", "")
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if len(names) > MOST_NAMES:
        raise InvalidParameter("invalid_parameter.symbols", parameter="symbols")
    return [symbol_of({"symbol": name}) for name in names]


def _one_a_product(asked: Sequence[RequestedSymbol]) -> list[RequestedSymbol]:
    """Spellings of the same once; raises `InvalidParameter` for two contracts of a product, whose events could not
    be told apart."""
    found: dict[str, RequestedSymbol] = {}
    for each in asked:
        if found.setdefault(each.root, each).contract != each.contract:
            raise InvalidParameter("invalid_parameter.contracts", parameter="symbols")
    return list(found.values())


def _last_id(request: Request, given: dict[str, str]) -> int | None:
    """The id of the last event seen: from the header, else the address; None where there is none, or no good one."""
    texts = [value.decode("latin-1") for name, value in request.scope["headers"] if name == b"last-event-id"]
    text = texts[0] if len(texts) == 1 else given.get("lastEventId", "") if not texts else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_ID else None
