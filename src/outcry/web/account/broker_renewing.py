"""Update the credentials of a broker connection: `/account/brokers/{id}/renew`.

The form replaces all stored credentials and never shows them. It needs a recent confirmation of identity.
"""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from outcry.connections.model import Broker, ConnectionRefused, ConnectionRow
from outcry.people.audit import Event
from outcry.web.account.broker_forms import entries_of, judge_entries, refused, typed_in, usual_of
from outcry.web.account.broker_page import LIST, ONE, connected, note, own
from outcry.web.form_input import Faults
from outcry.web.form_state import delete_typed, id_in_path, prove_first, restore_typed
from outcry.web.page_context import NotProved, Page, PageContext, PageMissing, PageRequest


async def renew_form(context: PageContext, request: PageRequest) -> Response:
    """Show the form for new credentials."""
    _, row = await own(context, request)
    context.confirmed(request)
    broker = await _broker_of(context, row)
    typed = {**usual_of(broker), **restore_typed(context, request, f"{LIST}/{row.id}/renew")}
    return delete_typed(request, _renew_page(context, request, row, broker, typed, {}))


async def renew(context: PageContext, request: PageRequest) -> Response:
    """Replace the stored credentials and reconnect."""
    context.sender(request)
    try:
        user, row = await own(context, request)
    except NotProved:
        return context.to(request, f"/sign-in?next={LIST}/{id_in_path(request, 'connection_id')}/renew")
    broker = await _broker_of(context, row)
    typed = await typed_in(context, request, broker)
    faults = typed.faults
    try:
        context.confirmed(request)
    except NotProved:
        return prove_first(context, request, f"{LIST}/{row.id}/renew", typed.kept)
    judge_entries(broker, typed, faults, request.words)
    if not faults:
        change = context.services.connections.renew
        try:
            if not await context.ask(change, user.id, row.id, typed.given, context.now_ns()):
                raise PageMissing
        except ConnectionRefused as refusal:
            refused(refusal, broker.id, typed, faults, request.words)
    if faults:
        return _renew_page(context, request, row, broker, typed.kept, faults)
    context.checks.forget((user.id, row.id))
    await note(context, request, user, Event.CONNECTION_RENEWED, row)
    return context.to(request, f"{LIST}/{row.id}?done=renewed")


def _renew_page(
    context: PageContext,
    request: PageRequest,
    row: ConnectionRow,
    broker: Broker,
    typed: Mapping[str, str],
    faults: Faults,
) -> Response:
    return context.page(
        request,
        "account/broker_renew.html",
        422 if faults else 200,
        connection=connected(request, row, {broker.id: broker.name}),
        broker=broker,
        entries=entries_of(request.words, broker),
        typed=typed,
        faults=faults,
    )


async def _broker_of(context: PageContext, row: ConnectionRow) -> Broker:
    brokers = await context.ask(context.services.connections.brokers)
    broker = next((each for each in brokers if each.id == row.broker), None)
    if broker is None:
        raise PageMissing
    return broker


PAGES: Sequence[Page] = (
    (f"{ONE}/renew", ("GET",), renew_form),
    (f"{ONE}/renew", ("POST",), renew),
)
