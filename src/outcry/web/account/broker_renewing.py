"""Other entries for a connection: all of them, in the place of those kept.

Rules kept: what was entered is never given back, and is entered anew only by a user who has just proved who it is.
"""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from outcry.connections.model import Broker, ConnectionRefused, ConnectionRow
from outcry.people.audit import Event
from outcry.web.account.broker_forms import entries_of, judge_entries, refused, typed_in, usual_of
from outcry.web.account.broker_page import LIST, ONE, connected, note, own
from outcry.web.forms import Faults, forget_typed, number_in, prove_first, typed_before
from outcry.web.page_context import Desk, NotProved, Page, PageMissing, Visit


async def renew_form(desk: Desk, visit: Visit) -> Response:
    """Where other entries are given to it."""
    _, row = await own(desk, visit)
    desk.confirmed(visit)
    broker = await _broker_of(desk, row)
    typed = {**usual_of(broker), **typed_before(desk, visit, f"{LIST}/{row.id}/renew")}
    return forget_typed(visit, _renew_page(desk, visit, row, broker, typed, {}))


async def renew(desk: Desk, visit: Visit) -> Response:
    """Give it other entries, all of them, and have it try again."""
    desk.sender(visit)
    faults = Faults()
    try:
        user, row = await own(desk, visit)
    except NotProved:
        return desk.to(visit, f"/sign-in?next={LIST}/{number_in(visit, 'connection_id')}/renew")
    broker = await _broker_of(desk, row)
    typed = await typed_in(desk, visit, broker, faults)
    try:
        desk.confirmed(visit)
    except NotProved:
        return prove_first(desk, visit, f"{LIST}/{row.id}/renew", typed.kept)
    judge_entries(broker, typed, faults, visit.words)
    if not faults:
        change = desk.services.connections.renew
        try:
            if not await desk.ask(change, user.id, row.id, typed.given, desk.now_ns()):
                raise PageMissing
        except ConnectionRefused as refusal:
            refused(refusal, broker.id, typed, faults, visit.words)
    if faults:
        return _renew_page(desk, visit, row, broker, typed.kept, faults)
    desk.checks.forget((user.id, row.id))
    await note(desk, visit, user, Event.CONNECTION_RENEWED, row)
    return desk.to(visit, f"{LIST}/{row.id}?done=renewed")


def _renew_page(
    desk: Desk, visit: Visit, row: ConnectionRow, broker: Broker, typed: Mapping[str, str], faults: Faults
) -> Response:
    return desk.page(
        visit,
        "account/broker_renew.html",
        422 if faults else 200,
        connection=connected(visit, row, {broker.id: broker.name}),
        broker=broker,
        entries=entries_of(visit.words, broker),
        typed=typed,
        faults=faults,
    )


async def _broker_of(desk: Desk, row: ConnectionRow) -> Broker:
    brokers = await desk.ask(desk.services.connections.brokers)
    broker = next((each for each in brokers if each.id == row.broker), None)
    if broker is None:
        raise PageMissing
    return broker


PAGES: Sequence[Page] = (
    (f"{ONE}/renew", ("GET",), renew_form),
    (f"{ONE}/renew", ("POST",), renew),
)
