"""One broker connection: `/account/brokers/{id}`. Its status, its streams and its actions.

A connection of another user gives the same response as one that does not exist.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.connections.model import ConnectionPhase, ConnectionRefused, ConnectionRow
from outcry.connections.pushed import PUSHED
from outcry.live.registry import Channel
from outcry.people.audit import Event
from outcry.people.model import UserRow
from outcry.web.account.broker_forms import (
    chosen_of,
    judge_roots,
    refusal_words,
    refused,
    sectors_of,
    typed_in,
)
from outcry.web.account.feed_words import Explained, Found, connection_state, explained, found
from outcry.web.account.vendor_words import code_means, cure_of, guide_address
from outcry.web.checks import Checked
from outcry.web.dates import LocalTime, local_time
from outcry.web.form_input import Faults
from outcry.web.form_state import delete_typed, done_code, id_in_path, prove_first, restore_typed
from outcry.web.page_context import NotProved, Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import origin_of
from outcry.web.status_labels import StatusLabel, status_label

LIST = "/account/brokers"
ONE = f"{LIST}/{{connection_id}}"
_RUNS = frozenset(
    {ConnectionPhase.CONNECTING, ConnectionPhase.CATCHING_UP, ConnectionPhase.LIVE, ConnectionPhase.DEGRADED}
)
#: Stream states for which the feed may report a more specific code.
_SAID_BY_FEEDS = frozenset({"unsubscribed", "disconnected"})


@dataclass(frozen=True, slots=True)
class Connected:
    """A broker connection as its page shows it.

    `ends_here`: whether the page can edit and disconnect it; false for a feed that the user's own program sends.
    `runs`: whether the page offers Pause; otherwise it offers Restart.
    """

    row: ConnectionRow
    broker: str
    state: StatusLabel
    standing: Explained
    since: LocalTime | None
    ends_here: bool
    runs: bool

    @property
    def called(self) -> str:
        """Return the connection's display name."""
        return self.row.label or self.broker


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream (one contract of a feed) as a page shows it.

    `market`: the feed's latest market time, None before the first one. `cure`: what the user should do, and `href`: the
    section of the guide about it. Both are empty unless the stream has an error.
    """

    feed: str
    contract: str
    state: StatusLabel
    market: LocalTime | None
    cure: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class CheckShown:
    """The result or progress of a connection check, as a page shows it.

    `ended`: None while the check runs. `wrong`: number of steps that failed. `lost`: the check ended without a result.
    """

    began: LocalTime | None
    ended: LocalTime | None
    findings: Sequence[Found]
    wrong: int
    lost: bool


def connected(request: PageRequest, row: ConnectionRow, names: Mapping[str, str]) -> Connected:
    """Return a connection as its page shows it. `names`: names of brokers by id."""
    pushed = row.broker == PUSHED
    name = request.words("Your own program") if pushed else names.get(row.broker, row.broker)
    return Connected(
        row, name, connection_state(request.words, row), explained(request.words, row),
        local_time(request, row.since_ns or None), not pushed, row.phase in _RUNS,
    )  # fmt: skip


def stream_of(request: PageRequest, channel: Channel) -> Stream:
    """Return a stream as a page shows it.

    If the code that its feed reported is known, the stream's reason is that code instead of a general one.
    """
    availability, feed = channel.availability, channel.key.feed
    state, code = status_label(request.words, availability.reason), availability.reason
    meaning = code_means(request.words, channel.feed_code) if code in _SAID_BY_FEEDS else None
    if meaning is not None:
        state, code = replace(state, reason=meaning), channel.feed_code
    refuses = state.kind == "error"
    return Stream(
        feed=feed,
        contract=channel.key.contract.key,
        state=state,
        market=local_time(request, availability.market_ns or None),
        cure=cure_of(request.words, feed, code) if refuses else "",
        href=guide_address(feed, code) if refuses else "",
    )


def names_of(context: PageContext) -> dict[str, str]:
    """Return the names of brokers by id."""
    return {broker.id: broker.name for broker in context.services.connections.brokers()}


async def own(context: PageContext, request: PageRequest) -> tuple[UserRow, ConnectionRow]:
    """Return the signed-in user and the user's broker connection with the id in the URL path.

    Raises `NotSignedIn`, and `PageMissing` unless the user owns the connection.
    """
    user, wanted = context.user(request), id_in_path(request, "connection_id")
    rows = await context.ask(context.services.connections.connections, user.id)
    row = next((row for row in rows if row.id == wanted and row.broker != PUSHED), None)
    if row is None:
        raise PageMissing
    return user, row


async def note(
    context: PageContext, request: PageRequest, user: UserRow, event: Event, row: ConnectionRow, **more: str
) -> None:
    """Record an action in the user's activity log."""
    details = {"broker": row.broker, "label": row.label, **more}
    await context.ask(context.services.identity.note, user, event, origin_of(request), **details)


async def one(
    context: PageContext,
    request: PageRequest,
    row: ConnectionRow,
    typed: Mapping[str, str],
    faults: Faults,
    status: int = 200,
) -> Response:
    """Render the page of a broker connection.

    `typed`: values in its form. `faults`: errors by form field; the response has status 422 if there are any.
    """
    brokers = {broker.id: broker for broker in await context.ask(context.services.connections.brokers)}
    names = {broker.id: broker.name for broker in brokers.values()}
    seen = context.services.registry.channels(Scope(row.user_id, ()))
    own_streams = [
        stream_of(request, each.channel)
        for each in seen
        if (each.channel.key.owner, each.channel.key.feed) == (row.user_id, row.broker)
    ]
    return context.page(
        request,
        "account/broker.html",
        422 if faults else status,
        connection=connected(request, row, names),
        streams=own_streams,
        live=sum(stream.state.code == "live" for stream in own_streams),
        check=_check(request, row, context.checks.of((row.user_id, row.id))),
        sectors=sectors_of(context, request.words, brokers.get(row.broker)),
        typed=typed,
        faults=faults,
        done=done_code(request),
    )


def _check(request: PageRequest, row: ConnectionRow, checked: Checked | None) -> CheckShown | None:
    if checked is None:
        return None
    findings = [found(request.words, row.broker, each) for each in checked.findings or ()]
    return CheckShown(
        local_time(request, checked.began_ns), local_time(request, checked.ended_ns), findings,
        sum(each.passed is False for each in findings),
        lost=checked.ended_ns is not None and checked.findings is None,
    )  # fmt: skip


async def show(context: PageContext, request: PageRequest) -> Response:
    """Show the page of a broker connection."""
    _, row = await own(context, request)
    kept = restore_typed(context, request, f"{LIST}/{row.id}")
    return delete_typed(request, await one(context, request, row, {**chosen_of(row), **kept}, {}))


async def choose(context: PageContext, request: PageRequest) -> Response:
    """Change the symbols and the name of a connection."""
    context.sender(request)
    typed = await typed_in(context, request, None)
    faults = typed.faults
    try:
        user, row = await own(context, request)
    except NotProved:
        return prove_first(context, request, f"{LIST}/{id_in_path(request, 'connection_id')}", typed.kept)
    judge_roots(context, typed.roots, faults, request.words, row.symbols)
    if not faults:
        change = context.services.connections.choose
        try:
            if not await context.ask(change, user.id, row.id, typed.roots, typed.label):
                raise PageMissing
        except ConnectionRefused as refusal:
            refused(refusal, row.broker, typed, faults, request.words)
    if faults:
        return await one(context, request, row, typed.kept, faults)
    await note(context, request, user, Event.CONNECTION_CHANGED, row, symbols=" ".join(typed.roots))
    return context.to(request, f"{LIST}/{row.id}?done=saved")


async def pause(context: PageContext, request: PageRequest) -> Response:
    """Pause a connection."""
    return await _move(
        context, request, context.services.connections.pause, Event.CONNECTION_PAUSED, "paused"
    )


async def resume(context: PageContext, request: PageRequest) -> Response:
    """Restart a paused or failed connection."""
    return await _move(
        context, request, context.services.connections.resume, Event.CONNECTION_RESUMED, "resumed"
    )


async def _move(
    context: PageContext, request: PageRequest, move: Callable[[int, int, int], bool], event: Event, done: str
) -> Response:
    user, row = await own(context, request)
    await context.form(request)
    try:
        if not await context.ask(move, user.id, row.id, context.now_ns()):
            raise PageMissing
    except ConnectionRefused as refusal:
        faults = Faults({"": refusal_words(request.words, refusal.code)})
        return await one(context, request, row, chosen_of(row), faults)
    await note(context, request, user, event, row)
    return context.to(request, f"{LIST}/{row.id}?done={done}")


async def back(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the connection's page if a form's URL was opened as a page (GET instead of POST)."""
    return context.to(request, f"{LIST}/{id_in_path(request, 'connection_id')}")


PAGES: Sequence[Page] = (
    (ONE, ("GET",), show),
    (ONE, ("POST",), choose),
    (f"{ONE}/pause", ("POST",), pause),
    (f"{ONE}/resume", ("POST",), resume),
    *((f"{ONE}/{form}", ("GET",), back) for form in ("pause", "resume")),
)
