"""Broker connections: `/account/brokers`. Listed, begun, ended; and the key with which somebody sends trades.

Rules kept: what is typed into a secret field is never shown again, also not when the form is refused; what connects,
and what may send, is made only by a user who has just proved who it is; this page knows no broker by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response

from outcry.accounts.audit import Event
from outcry.accounts.licences import Scope
from outcry.ports.connections import Broker, ConnectionRefused, ConnectionRow
from outcry.ports.identity import UserRow
from outcry.services.connections.pushed import PUSHED
from outcry.services.live.board import Channel
from outcry.web.desk import Desk, NotProved, Page, PageMissing, Visit
from outcry.web.entrance import origin_of, site_of
from outcry.web.feed_words import connection_state
from outcry.web.forms import (
    Faults,
    forget_typed,
    line,
    note_of,
    number_in,
    prove_first,
    show_once,
    typed_before,
)
from outcry.web.keys import Shown, key_by_form, shown
from outcry.web.language import Words, later
from outcry.web.moments import Moment, moment
from outcry.web.states import State, state_of

LIST, MADE = "/account/brokers", "/account/brokers/key-made"
_LONGEST_ENTRY = 1000
_MISSING = later("This has to be filled in.")
_REJECTED = later("The broker does not accept these entries. Check them and try again.")
_REFUSALS: Mapping[str, str] = {
    "unknown_broker": later("There is no such broker here."),
    "not_hosted": later("This broker can be connected only from your own machine: see the broker guide."),
    "already_connected": later("This account is connected already."),
    "missing": _MISSING,
    "rejected": _REJECTED,
    "too_many": later("There are as many connections as there may be: end one first."),
}


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection as its user is shown it. `ends_here`: whether it can be ended on the page."""

    row: ConnectionRow
    broker: str
    state: State
    since: Moment | None
    ends_here: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a feed. `market`: the feed's own time, None before it has told any."""

    feed: str
    contract: str
    state: State
    market: Moment | None


async def list_connections(desk: Desk, visit: Visit) -> Response:
    """All of this user's, and the ways there are."""
    return await _list(desk, visit, {}, {})


async def _list(desk: Desk, visit: Visit, typed: Mapping[str, str], faults: Faults) -> Response:
    user, services = desk.user(visit), desk.services

    def look() -> tuple[list[Connected], list[Shown]]:
        names = {broker.id: broker.name for broker in services.connections.brokers()}
        rows = services.connections.connections(user.id)
        keys = [shown(visit, row, desk.now_ns()) for row in services.keys.of(user.id) if row.role == "ingest"]
        return [_connected(visit, row, names) for row in rows], keys

    connections, keys = await desk.ask(look)
    own = services.board.channels(Scope(user.id, ()))
    kept = typed_before(desk, visit, LIST)
    page = desk.page(
        visit,
        "account/brokers.html",
        422 if faults else 200,
        connections=connections,
        brokers=services.connections.brokers(),
        streams=[stream_of(visit, seen.channel) for seen in own],
        keys=[key for key in keys if key.live],
        typed={"label": "", "lifetime": "365", **kept, **typed},
        faults=faults,
        done=note_of(visit),
    )
    return forget_typed(visit, page)


def _connected(visit: Visit, row: ConnectionRow, names: Mapping[str, str]) -> Connected:
    pushed = row.broker == PUSHED
    name = visit.words("Sent by your own program") if pushed else names.get(row.broker, row.broker)
    since = moment(visit, row.since_ns or None)
    return Connected(row, name, connection_state(visit.words, row), since, not pushed)


def stream_of(visit: Visit, channel: Channel) -> Stream:
    """A stream for a page."""
    standing = channel.standing
    return Stream(
        feed=channel.key.feed,
        contract=channel.key.contract.key,
        state=state_of(visit.words, standing.reason),
        market=moment(visit, standing.market_ns or None),
    )


# -- a key that sends trades


async def make_key(desk: Desk, visit: Visit) -> Response:
    """Make a key that sends trades as this user's own feed, to be shown once."""
    return await key_by_form(desk, visit, "ingest", LIST, MADE, partial(_list, desk, visit))


async def show_made(desk: Desk, visit: Visit) -> Response:
    """The key just made, the only time it is on a page."""
    return await show_once(desk, visit, "account/key_made.html", MADE, LIST, site=site_of(visit))


# -- brokers


async def connect_form(desk: Desk, visit: Visit) -> Response:
    """What a broker needs to be told."""
    desk.confirmed(visit)
    broker = _broker(desk, visit)
    typed = typed_before(desk, visit, f"{LIST}/connect/{broker.id}")
    page = desk.page(visit, "account/connect.html", broker=broker, typed=typed, faults={})
    return forget_typed(visit, page)


async def connect(desk: Desk, visit: Visit) -> Response:
    """Begin a connection."""
    desk.sender(visit)
    broker, faults = _broker(desk, visit), Faults()
    form = await desk.form(visit)
    given = {
        field.name: line(form, field.name, faults, visit.words, _LONGEST_ENTRY) for field in broker.fields
    }
    label = line(form, "label", faults, visit.words, 60)
    kept = {field.name: given[field.name] for field in broker.fields if not field.secret} | {"label": label}
    try:
        user = desk.confirmed(visit)
    except NotProved:
        return prove_first(desk, visit, f"{LIST}/connect/{broker.id}", kept)
    _judge(broker, given, faults, visit.words)
    if not faults:
        try:
            connections = desk.services.connections
            await desk.ask(connections.connect, user.id, broker.id, label, given, desk.now_ns())
        except ConnectionRefused as refusal:
            faults[refusal.field] = visit.words(_REFUSALS.get(refusal.code, _REJECTED))
    if faults:
        return desk.page(visit, "account/connect.html", 422, broker=broker, typed=kept, faults=faults)
    await _note(desk, visit, user, Event.CONNECTION_STARTED, broker=broker.id, label=label)
    return desk.to(visit, f"{LIST}?done=connected")


async def ask_disconnect(desk: Desk, visit: Visit) -> Response:
    """Ask before it is ended."""
    _, row = await _own(desk, visit)
    return desk.page(visit, "account/disconnect.html", connection=row)


async def disconnect(desk: Desk, visit: Visit) -> Response:
    """End it; what it brought stays."""
    user, row = await _own(desk, visit)
    await desk.form(visit)
    if not await desk.ask(desk.services.connections.disconnect, user.id, row.id, desk.now_ns()):
        raise PageMissing
    await _note(desk, visit, user, Event.CONNECTION_ENDED, broker=row.broker, label=row.label)
    return desk.to(visit, f"{LIST}?done=disconnected")


def _broker(desk: Desk, visit: Visit) -> Broker:
    wanted = str(visit.request.path_params["broker"])
    found = next((broker for broker in desk.services.connections.brokers() if broker.id == wanted), None)
    if found is None:
        raise PageMissing
    return found


def _judge(broker: Broker, given: Mapping[str, str], faults: Faults, words: Words) -> None:
    for field in broker.fields:
        if not given[field.name]:
            faults.setdefault(field.name, words(_MISSING))
        elif field.options and given[field.name] not in field.options:
            faults.setdefault(field.name, words("Choose one of the list."))


async def _own(desk: Desk, visit: Visit) -> tuple[UserRow, ConnectionRow]:
    user, wanted = desk.user(visit), number_in(visit, "connection_id")
    rows = await desk.ask(desk.services.connections.connections, user.id)
    found = next((row for row in rows if row.id == wanted and row.broker != PUSHED), None)
    if found is None:
        raise PageMissing
    return user, found


async def _note(desk: Desk, visit: Visit, user: UserRow, event: Event, **details: str) -> None:
    await desk.ask(desk.services.identity.note, user, event, origin_of(visit), **details)


PAGES: Sequence[Page] = (
    (LIST, ("GET",), list_connections),
    (f"{LIST}/key", ("POST",), make_key),
    (MADE, ("GET",), show_made),
    (f"{LIST}/connect/{{broker}}", ("GET",), connect_form),
    (f"{LIST}/connect/{{broker}}", ("POST",), connect),
    (f"{LIST}/{{connection_id}}/disconnect", ("GET",), ask_disconnect),
    (f"{LIST}/{{connection_id}}/disconnect", ("POST",), disconnect),
)
