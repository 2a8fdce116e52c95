"""`GET /api/stream`: levels and alerts as server-sent events; `POST /api/stream/ticket`: a ticket to open it in a page.

A stream counts as one request, and each key has a maximum of open streams. A client that reconnects with the id of its
last event receives every alert since, in order and once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from outcry.access.keys import KeyRefusal
from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.access.tiers import STREAMS_ALLOWED
from outcry.answers.alerts import entry
from outcry.answers.streaming import AlertFilter, MissedAlerts, RequestedSymbol, alert_event, event, source_of
from outcry.api.hub import Hub
from outcry.api.parameters import read_query, symbol_of
from outcry.api.stream_reader import StreamReader
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
from outcry.wire.stream import Snapshot, State, Ticket

STREAM = "/api/stream"
TICKET = "/api/stream/ticket"
NAMES = frozenset({"symbols", "symbol", "ticket", "lastEventId"})
MAX_SYMBOLS = 200
RETRY_AFTER_MS = 5000
STREAM_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_RETRY = b"retry: 2000\n\n"
_MAX_ID_DIGITS = 18


@dataclass(frozen=True, slots=True)
class OpenedStream:
    """An accepted stream. `reply`: its response without a body. `first`: its first events, removed once sent."""

    reply: Reply
    reader: StreamReader
    first: list[bytes]


class Streams:
    """Opens event streams and issues tickets for them."""

    def __init__(self, edge: Edge, hub: Hub) -> None:
        self._edge, self._hub = edge, hub

    def authenticate(self, request: Request) -> tuple[Caller, KeyRefusal | None]:
        """Return the caller of a request, by the key in the header or else the ticket in the URL."""
        ticket = "" if request.key_values or request.place != STREAM else _ticket(request.query)
        if not ticket or holds_key(request.query):
            return self._edge.authenticator.authenticate(request)
        given = self._hub.tickets.take(ticket)
        caller = self._edge.authenticator.caller_of_key(*given) if given is not None else None
        return (caller, None) if caller is not None else (anonymous(request.client), KeyRefusal.TICKET)

    def full(self, request: Request, caller: Caller) -> bool:
        """Return whether the caller has its maximum number of streams open."""
        if request.place != STREAM or caller.scope is None:
            return False
        crowded = caller.session == 0 and self._visitor_streams() >= VISITOR_STREAMS
        return crowded or self._open_streams(caller) >= _allowed(caller)

    def too_many(self, route: str, request: Request, caller: Caller, verdict: Verdict) -> Reply:
        """Return the reply that refuses another stream to a caller with the maximum number of open streams."""
        self._edge.metrics.refuse(caller.tier)
        problem = too_many_streams(RETRY_AFTER_MS, _allowed(caller))
        return self._edge.refuse(request, route, caller, verdict, problem)

    async def reply(
        self, request: Request, caller: Caller, verdict: Verdict, *, current: bool
    ) -> Reply | OpenedStream:
        """Open a stream, issue a ticket, or refuse. `current`: whether keys were checked within the last second."""
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
            return self._issue_ticket(caller, verdict)
        try:
            return await self._open_stream(request, caller, caller.scope, verdict)
        except ServiceError as error:
            return edge.refuse(request, route, caller, verdict, problem_of(error))
        except StoreBusy:
            return edge.refuse(request, route, caller, verdict, UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - report the error with its caller
            return edge.failed(request, route, error, caller)

    def _issue_ticket(self, caller: Caller, verdict: Verdict) -> Reply:
        body = msgspec.json.encode(
            Ticket(ticket=self._hub.tickets.give(caller), expires_in_seconds=LIFETIME_S)
        )
        headers: Headers = [
            (b"content-type", JSON_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        return Reply(200, headers, body, TICKET, caller, verdict)

    def _visitor_streams(self) -> int:
        return sum(reader.caller.session == 0 for reader in self._hub.readers)

    def _open_streams(self, caller: Caller) -> int:
        return sum(reader.caller.subject == caller.subject for reader in self._hub.readers)

    async def _open_stream(
        self, request: Request, caller: Caller, scope: Scope, verdict: Verdict
    ) -> Reply | OpenedStream:
        given = read_query(request.query, NAMES)
        names = _symbol_names(given)
        requested = await self._hub.sources.resolve_symbols(scope, names) if names else None
        if request.method == "HEAD":
            return Reply(200, STREAM_HEADERS, b"", STREAM, caller, verdict)
        if self._open_streams(caller) >= _allowed(caller):  # others were opened in the meantime
            return self.too_many(STREAM, request, caller, verdict)
        reader = StreamReader(caller, _one_per_product(requested) if requested else None)
        self._hub.readers.add(reader)
        try:
            await self._hub.sources.resolve(reader, opening=True)
            first = await self._first_events(reader, scope, _last_id(request, given))
        except BaseException:
            self._hub.release(reader)
            raise
        reader.opening = False
        return OpenedStream(Reply(200, STREAM_HEADERS, b"", STREAM, caller, verdict), reader, first)

    async def _first_events(self, reader: StreamReader, scope: Scope, last_id: int | None) -> list[bytes]:
        """Return the events to send first: alerts missed since the last connection, then the current state."""
        alert_filter = reader.alert_filter
        if alert_filter is None:  # the key was revoked in the meantime
            return []
        missed, current, checked_seq = await self._hub.sources.on_database_thread(
            lambda: self._alerts(scope, alert_filter, last_id)
        )
        reader.alert_cursor = checked_seq
        sent = [alert_event(row) for row in missed.rows] if missed is not None else []
        self._hub.count("alert", len(sent))
        self._hub.count("snapshot", 1)
        snapshot = self._snapshot(reader, missed, [entry(row, source_of(row)) for row in current])
        return [_RETRY, *sent, event("snapshot", snapshot, checked_seq)]

    def _alerts(
        self, scope: Scope, alert_filter: AlertFilter, last_id: int | None
    ) -> tuple[MissedAlerts | None, list[AlertRow], int]:
        """Return the alerts missed since `last_id`, the others of today, and the newest `seq` (alert number) of all.

        Runs in a thread.
        """
        tail = self._hub.tail
        missed = tail.after(scope, alert_filter, last_id) if last_id is not None else None
        if missed is None:
            return None, *tail.current(scope, alert_filter)
        if missed.whole:
            return missed, [], missed.checked_seq
        sent = {row.seq for row in missed.rows}
        current, _ = tail.current(scope, alert_filter, missed.checked_seq)
        return missed, [row for row in current if row.seq not in sent], missed.checked_seq

    def _snapshot(self, reader: StreamReader, missed: MissedAlerts | None, alerts: list[AlertEntry]) -> bytes:
        levels: list[msgspec.Raw] = []
        states: list[State] = []
        for cursor in reader.cursors.values():
            events = cursor.current_events()
            if events is not None:  # None if it went live just now; an event follows
                if events.answer:
                    levels.append(msgspec.Raw(events.answer))
                states.append(cursor.mark_sent(events))
        whole = Snapshot(
            updated_at=iso_timestamp(self._edge.clock.now_ns()), resumed=missed is not None,
            missed=missed is not None and not missed.whole, levels=levels, states=states, alerts=alerts,
        )  # fmt: skip
        return msgspec.json.encode(whole)


def _allowed(caller: Caller) -> int:
    if caller.session is not None:
        return PAGE_STREAMS
    return 0 if caller.tier == "anonymous" else STREAMS_ALLOWED[caller.tier]


def _ticket(query: bytes) -> str:
    try:
        return read_query(query, frozenset({"ticket"})).get("ticket", "")
    except InvalidParameter:
        return "unreadable"


def _symbol_names(given: Mapping[str, str]) -> list[str]:
    """Return the symbols in the parameter `symbols` or `symbol`, which are separated by commas.

    Both names work. If one were ignored, its request would open a stream of all symbols. Raises `UnknownSymbol` for a
    malformed name, and `InvalidParameter` for both parameters or too many symbols.
    """
    if "symbols" in given and "symbol" in given:
        raise InvalidParameter("invalid_parameter.repeated", parameter="symbols")
    text = given.get("symbols") or given.get("symbol", "")
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if len(names) > MAX_SYMBOLS:
        raise InvalidParameter("invalid_parameter.symbols", parameter="symbols")
    return [symbol_of({"symbol": name}) for name in names]


def _one_per_product(requested: Sequence[RequestedSymbol]) -> list[RequestedSymbol]:
    """Return each requested symbol once. Raises `InvalidParameter` for two contracts of one product.

    Events name only the product, so the events of two contracts could not be distinguished.
    """
    found: dict[str, RequestedSymbol] = {}
    for each in requested:
        if found.setdefault(each.root, each).contract != each.contract:
            raise InvalidParameter("invalid_parameter.contracts", parameter="symbols")
    return list(found.values())


def _last_id(request: Request, given: dict[str, str]) -> int | None:
    """Return the id of the last event that a client received, from the header or else the URL; None if missing."""
    texts = [value.decode("latin-1") for name, value in request.scope["headers"] if name == b"last-event-id"]
    text = texts[0] if len(texts) == 1 else given.get("lastEventId", "") if not texts else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_ID_DIGITS else None
