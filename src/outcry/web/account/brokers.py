"""Broker connections: `/account/brokers`. Listed, begun, ended; and the key with which somebody sends trades.

Rules kept: what is typed into a secret field is never shown again, also not when the form is refused; what connects,
and what may send, is made only by a user who has just proved who it is; this page knows no broker by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.connections.model import Broker, ConnectionPhase, ConnectionRefused, ConnectionRow
from outcry.people.audit import Event
from outcry.web.account.broker_forms import (
    entries_of,
    judge_entries,
    judge_roots,
    refused,
    sectors_of,
    typed_in,
    usual_of,
)
from outcry.web.account.broker_page import (
    LIST,
    ONE,
    Connected,
    connected,
    names_of,
    note,
    own,
    stream_of,
)
from outcry.web.account.feed_words import vendor_of
from outcry.web.account.keys import Shown, key_by_form, shown
from outcry.web.entrance import site_of
from outcry.web.forms import Faults, forget_typed, note_of, prove_first, show_once, typed_before
from outcry.web.page_context import Desk, NotProved, Page, PageMissing, Visit

MADE = f"{LIST}/key-made"

#: How a broker can be connected: here, here once the operator has installed what it needs, by the agent on the user's
#: own machine; or it is connected already, or not at all, where the market is an invented one.
Way = Literal["here", "not_installed", "agent", "connected", "closed"]


@dataclass(frozen=True, slots=True)
class Offered:
    """A broker as a way to connect. `example`: entries of the agent's configuration, in its form."""

    broker: Broker
    way: Way
    example: Sequence[tuple[str, str]]


async def list_connections(desk: Desk, visit: Visit) -> Response:
    """All of this user's, and the ways there are."""
    return await _list(desk, visit, {}, {})


async def _list(desk: Desk, visit: Visit, typed: Mapping[str, str], faults: Faults) -> Response:
    user, services = desk.user(visit), desk.services

    def look() -> tuple[list[Connected], list[Shown]]:
        names = names_of(desk)
        rows = services.connections.connections(user.id)
        keys = [shown(visit, row, desk.now_ns()) for row in services.keys.of(user.id) if row.role == "ingest"]
        return [connected(visit, row, names) for row in rows], keys

    connections, keys = await desk.ask(look)
    sent = services.registry.channels(Scope(user.id, ()))
    kept = typed_before(desk, visit, LIST)
    page = desk.page(
        visit,
        "account/brokers.html",
        422 if faults else 200,
        connections=connections,
        offers=await desk.ask(_offers, desk, [one.row for one in connections]),
        streams=[stream_of(visit, seen.channel) for seen in sent],
        usage=await services.usage(user.id),
        keys=[key for key in keys if key.live],
        typed={"label": "", "lifetime": "365", **kept, **typed},
        faults=faults,
        site=site_of(visit),
        done=note_of(visit),
    )
    return forget_typed(visit, page)


def _offers(desk: Desk, rows: Sequence[ConnectionRow]) -> list[Offered]:
    connections, taken = desk.services.connections, {vendor_of(row) for row in rows}
    found: list[Offered] = []
    for broker in connections.brokers():
        way: Way = (
            "connected" if broker.id in taken
            else "here" if connections.connectable(broker)
            else "agent" if not broker.hosted
            else "not_installed" if not broker.installed
            else "closed"
        )  # fmt: skip
        example = [(field.name, field.usual or "…") for field in broker.fields if not field.optional]
        found.append(Offered(broker, way, example))
    return found


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
    broker = await _broker(desk, visit)
    typed = {**usual_of(broker), **typed_before(desk, visit, f"{LIST}/connect/{broker.id}")}
    return forget_typed(visit, _form(desk, visit, broker, typed, {}))


async def connect(desk: Desk, visit: Visit) -> Response:
    """Begin a connection."""
    desk.sender(visit)
    broker, faults = await _broker(desk, visit), Faults()
    typed = await typed_in(desk, visit, broker, faults)
    try:
        user = desk.confirmed(visit)
    except NotProved:
        return prove_first(desk, visit, f"{LIST}/connect/{broker.id}", typed.kept)
    judge_entries(broker, typed, faults, visit.words)
    judge_roots(desk, typed.roots, faults, visit.words)
    begun, now_ns = 0, desk.now_ns()
    if not faults:
        begin = desk.services.connections.connect
        try:
            begun = await desk.ask(begin, user.id, broker.id, typed.label, typed.given, typed.roots, now_ns)
        except ConnectionRefused as refusal:
            refused(refusal, broker.id, typed, faults, visit.words)
    if faults:
        return _form(desk, visit, broker, typed.kept, faults)
    row = ConnectionRow(
        begun, user.id, broker.id, typed.label, ConnectionPhase.CONNECTING, "connecting", now_ns, typed.roots
    )
    await note(desk, visit, user, Event.CONNECTION_STARTED, row, symbols=" ".join(typed.roots))
    return desk.to(visit, f"{LIST}/{begun}?done=connected")


def _form(desk: Desk, visit: Visit, broker: Broker, typed: Mapping[str, str], faults: Faults) -> Response:
    return desk.page(
        visit,
        "account/connect.html",
        422 if faults else 200,
        broker=broker,
        entries=entries_of(visit.words, broker),
        sectors=sectors_of(desk, visit.words),
        typed=typed,
        faults=faults,
    )


async def ask_disconnect(desk: Desk, visit: Visit) -> Response:
    """Ask before it is ended."""
    _, row = await own(desk, visit)
    names = await desk.ask(names_of, desk)
    return desk.page(visit, "account/disconnect.html", connection=connected(visit, row, names))


async def disconnect(desk: Desk, visit: Visit) -> Response:
    """End it; what it brought stays."""
    user, row = await own(desk, visit)
    await desk.form(visit)
    if not await desk.ask(desk.services.connections.disconnect, user.id, row.id, desk.now_ns()):
        raise PageMissing
    desk.checks.forget((user.id, row.id))
    await note(desk, visit, user, Event.CONNECTION_ENDED, row)
    return desk.to(visit, f"{LIST}?done=disconnected")


async def _broker(desk: Desk, visit: Visit) -> Broker:
    """The broker of the address, which this service can connect. Raises `PageMissing`."""
    wanted, connections = str(visit.request.path_params["broker"]), desk.services.connections
    brokers = await desk.ask(connections.brokers)
    found = next((broker for broker in brokers if broker.id == wanted), None)
    if found is None or not connections.connectable(found):
        raise PageMissing
    return found


PAGES: Sequence[Page] = (
    (LIST, ("GET",), list_connections),
    (f"{LIST}/key", ("POST",), make_key),
    (MADE, ("GET",), show_made),
    (f"{LIST}/connect/{{broker}}", ("GET",), connect_form),
    (f"{LIST}/connect/{{broker}}", ("POST",), connect),
    (f"{ONE}/disconnect", ("GET",), ask_disconnect),
    (f"{ONE}/disconnect", ("POST",), disconnect),
)
