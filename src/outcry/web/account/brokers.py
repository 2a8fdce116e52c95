"""Broker connections: `/account/brokers`. List, connect and disconnect brokers; create keys that send trades.

Secret entries are never shown again, not even when the form is shown again with errors. Connecting a broker, and
creating a key that sends trades, need a recent confirmation of identity. No code of this page is specific to a broker.
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
from outcry.web.form_input import Faults
from outcry.web.form_state import delete_typed, done_code, prove_first, restore_typed, show_once
from outcry.web.page_context import NotProved, Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import site_of

MADE = f"{LIST}/key-made"

#: How a user can connect a broker.
#: `here`: on this page. `not_installed`: on this page, once the operator installs its adapter.
#: `agent`: with the agent on the user's own computer. `connected`: a connection exists.
#: `closed`: not at all, because the market is simulated.
Way = Literal["here", "not_installed", "agent", "connected", "closed"]


@dataclass(frozen=True, slots=True)
class Offered:
    """A broker that the user can connect, as the list shows it.

    `example`: names and values for the agent's configuration.
    """

    broker: Broker
    way: Way
    example: Sequence[tuple[str, str]]


async def list_connections(context: PageContext, request: PageRequest) -> Response:
    """List the user's connections, keys that send trades, and brokers to connect."""
    return await _list(context, request, {}, {})


async def _list(
    context: PageContext, request: PageRequest, typed: Mapping[str, str], faults: Faults
) -> Response:
    user, services = context.user(request), context.services

    def look() -> tuple[list[Connected], list[Shown]]:
        names = names_of(context)
        rows = services.connections.connections(user.id)
        keys = [
            shown(request, row, context.now_ns()) for row in services.keys.of(user.id) if row.role == "ingest"
        ]
        return [connected(request, row, names) for row in rows], keys

    connections, keys = await context.ask(look)
    sent = services.registry.channels(Scope(user.id, ()))
    kept = restore_typed(context, request, LIST)
    page = context.page(
        request,
        "account/brokers.html",
        422 if faults else 200,
        connections=connections,
        offers=await context.ask(_offers, context, [one.row for one in connections]),
        streams=[stream_of(request, seen.channel) for seen in sent],
        usage=await services.usage(user.id),
        keys=[key for key in keys if key.live],
        typed={"label": "", "lifetime": "365", **kept, **typed},
        faults=faults,
        site=site_of(request),
        done=done_code(request),
    )
    return delete_typed(request, page)


def _offers(context: PageContext, rows: Sequence[ConnectionRow]) -> list[Offered]:
    connections, taken = context.services.connections, {vendor_of(row) for row in rows}
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


# -- keys that send trades


async def make_key(context: PageContext, request: PageRequest) -> Response:
    """Create a key with which a program of the user sends trades, and show it once."""
    return await key_by_form(context, request, "ingest", LIST, MADE, partial(_list, context, request))


async def show_made(context: PageContext, request: PageRequest) -> Response:
    """Show the new key, once."""
    return await show_once(context, request, "account/key_made.html", MADE, LIST, site=site_of(request))


# -- brokers


async def connect_form(context: PageContext, request: PageRequest) -> Response:
    """Show the form to connect a broker."""
    context.confirmed(request)
    broker = await _broker(context, request)
    typed = {**usual_of(broker), **restore_typed(context, request, f"{LIST}/connect/{broker.id}")}
    return delete_typed(request, _form(context, request, broker, typed, {}))


async def connect(context: PageContext, request: PageRequest) -> Response:
    """Connect a broker."""
    context.sender(request)
    broker = await _broker(context, request)
    typed = await typed_in(context, request, broker)
    faults = typed.faults
    try:
        user = context.confirmed(request)
    except NotProved:
        return prove_first(context, request, f"{LIST}/connect/{broker.id}", typed.kept)
    judge_entries(broker, typed, faults, request.words)
    judge_roots(context, typed.roots, faults, request.words)
    begun, now_ns = 0, context.now_ns()
    if not faults:
        begin = context.services.connections.connect
        try:
            begun = await context.ask(
                begin, user.id, broker.id, typed.label, typed.given, typed.roots, now_ns
            )
        except ConnectionRefused as refusal:
            refused(refusal, broker.id, typed, faults, request.words)
    if faults:
        return _form(context, request, broker, typed.kept, faults)
    row = ConnectionRow(
        begun, user.id, broker.id, typed.label, ConnectionPhase.CONNECTING, "connecting", now_ns, typed.roots
    )
    await note(context, request, user, Event.CONNECTION_STARTED, row, symbols=" ".join(typed.roots))
    return context.to(request, f"{LIST}/{begun}?done=connected")


def _form(
    context: PageContext, request: PageRequest, broker: Broker, typed: Mapping[str, str], faults: Faults
) -> Response:
    return context.page(
        request,
        "account/connect.html",
        422 if faults else 200,
        broker=broker,
        entries=entries_of(request.words, broker),
        sectors=sectors_of(context, request.words, broker),
        typed=typed,
        faults=faults,
    )


async def ask_disconnect(context: PageContext, request: PageRequest) -> Response:
    """Ask for confirmation before disconnecting."""
    _, row = await own(context, request)
    names = await context.ask(names_of, context)
    return context.page(request, "account/disconnect.html", connection=connected(request, row, names))


async def disconnect(context: PageContext, request: PageRequest) -> Response:
    """Disconnect a broker; the data recorded from it stays."""
    user, row = await own(context, request)
    await context.form(request)
    if not await context.ask(context.services.connections.disconnect, user.id, row.id, context.now_ns()):
        raise PageMissing
    context.checks.forget((user.id, row.id))
    await note(context, request, user, Event.CONNECTION_ENDED, row)
    return context.to(request, f"{LIST}?done=disconnected")


async def _broker(context: PageContext, request: PageRequest) -> Broker:
    """Return the broker that the URL path names. Raises `PageMissing` if this service cannot connect it."""
    wanted, connections = str(request.http.path_params["broker"]), context.services.connections
    brokers = await context.ask(connections.brokers)
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
