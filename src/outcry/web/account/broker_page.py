"""One connection: `/account/brokers/{id}`. How it stands, what it sends, and what can be done with it.

Rule kept: somebody else's connection is one that does not exist.
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
from outcry.web.dates import Moment, moment
from outcry.web.entrance import origin_of
from outcry.web.forms import Faults, forget_typed, note_of, number_in, prove_first, typed_before
from outcry.web.page_context import Desk, NotProved, Page, PageMissing, Visit
from outcry.web.status_labels import State, state_of

LIST = "/account/brokers"
ONE = f"{LIST}/{{connection_id}}"
_RUNS = frozenset(
    {ConnectionPhase.CONNECTING, ConnectionPhase.CATCHING_UP, ConnectionPhase.LIVE, ConnectionPhase.DEGRADED}
)
#: States of a stream for which its feed may have a code of its own.
_SAID_BY_FEEDS = frozenset({"unsubscribed", "disconnected"})


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection as its user is shown it. `ends_here`: whether it can be changed and ended on the page; `runs`: it
    can be paused, else it can be told to try again."""

    row: ConnectionRow
    broker: str
    state: State
    standing: Explained
    since: Moment | None
    ends_here: bool
    runs: bool

    @property
    def called(self) -> str:
        """What a person calls it."""
        return self.row.label or self.broker


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a feed. `market`: the feed's own time, None before it has told any; `cure`: what to do about it, said
    at `href`, where the vendor refuses it."""

    feed: str
    contract: str
    state: State
    market: Moment | None
    cure: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class CheckShown:
    """A check for a page. `ended`: None while under way; `wrong`: how many findings are not as they should be; `lost`:
    it came to no end."""

    began: Moment | None
    ended: Moment | None
    findings: Sequence[Found]
    wrong: int
    lost: bool


def connected(visit: Visit, row: ConnectionRow, names: Mapping[str, str]) -> Connected:
    """A connection for a page. `names`: of brokers, by id."""
    pushed = row.broker == PUSHED
    name = visit.words("Your own program") if pushed else names.get(row.broker, row.broker)
    return Connected(
        row, name, connection_state(visit.words, row), explained(visit.words, row),
        moment(visit, row.since_ns or None), not pushed, row.phase in _RUNS,
    )  # fmt: skip


def stream_of(visit: Visit, channel: Channel) -> Stream:
    """A stream for a page. Where its feed says itself why it sends nothing, that is told."""
    standing, feed = channel.standing, channel.key.feed
    state, code = state_of(visit.words, standing.reason), standing.reason
    said = code_means(visit.words, channel.told) if code in _SAID_BY_FEEDS else None
    if said is not None:
        state, code = replace(state, reason=said), channel.told
    refuses = state.kind == "error"
    return Stream(
        feed=feed,
        contract=channel.key.contract.key,
        state=state,
        market=moment(visit, standing.market_ns or None),
        cure=cure_of(visit.words, feed, code) if refuses else "",
        href=guide_address(feed, code) if refuses else "",
    )


def names_of(desk: Desk) -> dict[str, str]:
    """What brokers are called, by id."""
    return {broker.id: broker.name for broker in desk.services.connections.brokers()}


async def own(desk: Desk, visit: Visit) -> tuple[UserRow, ConnectionRow]:
    """Who asks, and the connection of the address, which has to be theirs. Raises `NotSignedIn`, `PageMissing`."""
    user, wanted = desk.user(visit), number_in(visit, "connection_id")
    rows = await desk.ask(desk.services.connections.connections, user.id)
    row = next((row for row in rows if row.id == wanted and row.broker != PUSHED), None)
    if row is None:
        raise PageMissing
    return user, row


async def note(
    desk: Desk, visit: Visit, user: UserRow, event: Event, row: ConnectionRow, **more: str
) -> None:
    """Note what was done in this user's log."""
    details = {"broker": row.broker, "label": row.label, **more}
    await desk.ask(desk.services.identity.note, user, event, origin_of(visit), **details)


async def one(
    desk: Desk, visit: Visit, row: ConnectionRow, typed: Mapping[str, str], faults: Faults, status: int = 200
) -> Response:
    """The page of one: `typed` stands in its form, refused for `faults`."""
    names = await desk.ask(names_of, desk)
    seen = desk.services.registry.channels(Scope(row.user_id, ()))
    own_streams = [
        stream_of(visit, each.channel)
        for each in seen
        if (each.channel.key.owner, each.channel.key.feed) == (row.user_id, row.broker)
    ]
    return desk.page(
        visit,
        "account/broker.html",
        422 if faults else status,
        connection=connected(visit, row, names),
        streams=own_streams,
        live=sum(stream.state.code == "live" for stream in own_streams),
        check=_check(visit, row, desk.checks.of((row.user_id, row.id))),
        sectors=sectors_of(desk, visit.words),
        typed=typed,
        faults=faults,
        done=note_of(visit),
    )


def _check(visit: Visit, row: ConnectionRow, checked: Checked | None) -> CheckShown | None:
    if checked is None:
        return None
    findings = [found(visit.words, row.broker, each) for each in checked.findings or ()]
    return CheckShown(
        moment(visit, checked.began_ns), moment(visit, checked.ended_ns), findings,
        sum(each.passed is False for each in findings),
        lost=checked.ended_ns is not None and checked.findings is None,
    )  # fmt: skip


async def show(desk: Desk, visit: Visit) -> Response:
    """One of them: how it stands, and what can be done with it."""
    _, row = await own(desk, visit)
    kept = typed_before(desk, visit, f"{LIST}/{row.id}")
    return forget_typed(visit, await one(desk, visit, row, {**chosen_of(row), **kept}, {}))


async def choose(desk: Desk, visit: Visit) -> Response:
    """Have it bring other products, under another name."""
    desk.sender(visit)
    faults = Faults()
    typed = await typed_in(desk, visit, None, faults)
    try:
        user, row = await own(desk, visit)
    except NotProved:
        return prove_first(desk, visit, f"{LIST}/{number_in(visit, 'connection_id')}", typed.kept)
    judge_roots(desk, typed.roots, faults, visit.words, row.symbols)
    if not faults:
        change = desk.services.connections.choose
        try:
            if not await desk.ask(change, user.id, row.id, typed.roots, typed.label):
                raise PageMissing
        except ConnectionRefused as refusal:
            refused(refusal, row.broker, typed, faults, visit.words)
    if faults:
        return await one(desk, visit, row, typed.kept, faults)
    await note(desk, visit, user, Event.CONNECTION_CHANGED, row, symbols=" ".join(typed.roots))
    return desk.to(visit, f"{LIST}/{row.id}?done=saved")


async def pause(desk: Desk, visit: Visit) -> Response:
    """Have it rest until told."""
    return await _move(desk, visit, desk.services.connections.pause, Event.CONNECTION_PAUSED, "paused")


async def resume(desk: Desk, visit: Visit) -> Response:
    """Have it try again, from whatever it rests or has failed in."""
    return await _move(desk, visit, desk.services.connections.resume, Event.CONNECTION_RESUMED, "resumed")


async def _move(
    desk: Desk, visit: Visit, move: Callable[[int, int, int], bool], event: Event, done: str
) -> Response:
    user, row = await own(desk, visit)
    await desk.form(visit)
    try:
        if not await desk.ask(move, user.id, row.id, desk.now_ns()):
            raise PageMissing
    except ConnectionRefused as refusal:
        faults = Faults({"": refusal_words(visit.words, refusal.code)})
        return await one(desk, visit, row, chosen_of(row), faults)
    await note(desk, visit, user, event, row)
    return desk.to(visit, f"{LIST}/{row.id}?done={done}")


async def back(desk: Desk, visit: Visit) -> Response:
    """An address that only takes forms, opened as a page."""
    return desk.to(visit, f"{LIST}/{number_in(visit, 'connection_id')}")


PAGES: Sequence[Page] = (
    (ONE, ("GET",), show),
    (ONE, ("POST",), choose),
    (f"{ONE}/pause", ("POST",), pause),
    (f"{ONE}/resume", ("POST",), resume),
    *((f"{ONE}/{form}", ("GET",), back) for form in ("pause", "resume")),
)
