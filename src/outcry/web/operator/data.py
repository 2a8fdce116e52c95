"""The operator's pages on data: `/operator/data`, with what is granted to whom, and `/operator/feeds`.

Rules kept: of what users bring themselves an operator sees counts, nothing more; a grant is made only by an operator
who has just proved who it is, and one that shows data soon only with a licence declared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from starlette.responses import Response

from outcry.access.licences import LICENCE_CLASSES, OPERATOR, Grant, LicenceClass, Scope
from outcry.access.model import GrantEvent, GrantRow
from outcry.connections.model import ConnectionPhase
from outcry.market.units import NANOS_PER_HOUR
from outcry.people.audit import Event
from outcry.people.model import UserRow
from outcry.sessions.datasets import Grantee, GrantRefused, Terms
from outcry.sessions.store_model import DatasetRow
from outcry.web.account.broker_page import Stream, stream_of
from outcry.web.account.feed_words import PHASE_WORDS
from outcry.web.account.webhook_forms import offered
from outcry.web.dates import Moment, day_text, moment
from outcry.web.entrance import origin_of
from outcry.web.formatter import month_text
from outcry.web.forms import (
    Faults,
    forget_typed,
    line,
    note_of,
    number_in,
    prove_first,
    typed_before,
)
from outcry.web.language import later
from outcry.web.number_format import lots_text
from outcry.web.page_context import Desk, NotConfirmed, NotProved, Page, PageMissing, Visit

DATA, FEEDS = "/operator/data", "/operator/feeds"
_USUAL = {
    "grantee": "everyone", "tier": "free", "email": "", "scope": "completed", "roots": "", "from_date": "",
    "until_date": "", "embargo_hours": "24", "licence": "", "attested": "",
}  # fmt: skip
_EMBARGO = later("Enter an embargo from 0 hours to 10 years.")
_REFUSALS: Mapping[str, str] = {
    "product": later("Choose symbols from the list."),
    "live_dates": later("Live access has no dates. Leave both dates empty."),
    "dates": later("The last date is before the first."),
    "embargo": _EMBARGO,
    "tier": later("Choose a tier from the list."),
    "user": later("No user has this email address."),
    "key": later("This prefix matches no key, or more than one."),
    "embargo_needs_attestation": later(
        "Live data and embargoes under 24 hours need a licence from the data owner. Choose your "
        "licence and confirm that you hold it."
    ),
    "licence": later(
        "A personal licence lets nobody else see the data. An internal licence covers named "
        "users and keys only."
    ),
}
_LICENCES: Mapping[str, str] = {
    "personal": later("Personal: only you"),
    "internal": later("Internal: named users and keys"),
    "redistributable": later("Redistributable: anyone"),
    "public": later("Public: no licence restrictions"),
}
#: Which entry of the form a refusal's field is.
_ENTRIES: Mapping[tuple[str, str], str] = {
    ("tier", "name"): "tier",
    ("user", "name"): "email",
    ("key", "name"): "email",
}


@dataclass(frozen=True, slots=True)
class Dataset:
    """Sessions of one contract and source, counted, for a page. `name`: of its product, with the delivery month."""

    row: DatasetRow
    name: str
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant for a page. `to`: whom, in words."""

    row: GrantRow
    to: str
    roots: str
    first: str
    last: str
    embargo_hours: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of the log of grants, for a page."""

    event: GrantEvent
    granted: Granted
    at: Moment | None


async def show_data(desk: Desk, visit: Visit) -> Response:
    """What there is, and to whom it is granted."""
    return await _data(desk, visit, {}, {})


async def _data(desk: Desk, visit: Visit, typed: Mapping[str, str], faults: Faults) -> Response:
    desk.operator(visit)
    datasets, identity = desk.services.datasets, desk.services.identity
    own, others = await desk.ask(datasets.known)
    people = {f"user:{row.id}": row.email for row in await desk.ask(identity.users)}
    people |= {f"key:{row.id}": f"{row.prefix}…" for row in await desk.ask(desk.services.keys.list)}
    grants = await desk.ask(datasets.grants)
    events = await desk.ask(datasets.events)
    products = offered(desk)
    kept = typed_before(desk, visit, DATA)
    page = desk.page(
        visit,
        "operator/data.html",
        422 if faults else 200,
        datasets=[_dataset(visit, row, products.get(row.root, row.root)) for row in own],
        others=others,
        licences={name: visit.words(text) for name, text in _LICENCES.items()},
        grants=[_granted(visit, row, people) for row in grants],
        events=[Logged(one, _granted(visit, one.grant, people), moment(visit, one.at_ns)) for one in events],
        offered=products,
        typed={**_USUAL, **kept, **typed},
        faults=faults,
        done=note_of(visit),
    )
    return forget_typed(visit, page)


async def add_grant(desk: Desk, visit: Visit) -> Response:
    """Grant something."""
    desk.sender(visit)
    faults = Faults()
    form = await desk.form_lists(visit)
    first = {name: values[-1] for name, values in form.items()} | {"roots": " ".join(form.get("roots", ()))}
    typed = {name: line(first, name, faults, visit.words) for name in _USUAL}
    terms = _terms(visit, typed, faults)
    try:
        operator = desk.operator(visit)
        desk.confirmed(visit)
    except NotProved:
        return prove_first(desk, visit, DATA, typed)
    if terms is None:
        return await _data(desk, visit, typed, faults)
    try:
        row = await desk.ask(desk.services.datasets.grant, terms, desk.now_ns(), operator.email)
    except GrantRefused as refusal:
        entry = _ENTRIES.get((refusal.code, refusal.field), refusal.field)
        return await _data(desk, visit, typed, {entry: visit.words(_REFUSALS[refusal.code])})
    await _note(desk, visit, operator, Event.GRANT_ADDED, row)
    return desk.to(visit, f"{DATA}?done=granted")


async def remove_grant(desk: Desk, visit: Visit) -> Response:
    """Take one back: what it showed is not shown any more."""
    operator = desk.operator(visit)
    await desk.form(visit)
    grant_id = number_in(visit, "grant_id")
    try:
        desk.confirmed(visit)
    except NotConfirmed:
        return prove_first(desk, visit, DATA, {})
    rows = await desk.ask(desk.services.datasets.grants)
    row = next((row for row in rows if row.id == grant_id), None)
    withdraw = desk.services.datasets.withdraw
    if row is None or not await desk.ask(withdraw, grant_id, desk.now_ns(), operator.email):
        raise PageMissing
    await _note(desk, visit, operator, Event.GRANT_REMOVED, row)
    return desk.to(visit, f"{DATA}?done=withdrawn")


async def show_feeds(desk: Desk, visit: Visit) -> Response:
    """The operator's own streams, how many others there are, and how delivering alerts stands."""
    user, registry = desk.operator(visit), desk.services.registry
    everything = Scope(user.id, (Grant(f"user:{user.id}", "live", (), None, None, 0),))
    own = [seen.channel for seen in registry.channels(everything) if seen.channel.key.owner == OPERATOR]
    streams: list[tuple[Stream, int]] = []
    for channel in own:
        view = await desk.ask(channel.view)
        streams.append((stream_of(visit, channel), sum(view.ladder.volume) if view else 0))
    return desk.page(
        visit,
        "operator/feeds.html",
        streams=streams,
        others=sum(registry.standings().values()) - len(own),
        lots_text=lots_text,
        connections=_phases(visit, await desk.ask(desk.services.connections.counts)),
        running=desk.services.subscriptions.running,
        webhooks=await desk.ask(desk.services.subscriptions.standing, desk.now_ns()),
    )


def _phases(visit: Visit, counts: Mapping[ConnectionPhase, int]) -> list[tuple[str, int]]:
    """Each phase a connection can stand in, in words, with how many do."""
    return [(visit.words(word), counts.get(phase, 0)) for phase, word in PHASE_WORDS.items()]


def _dataset(visit: Visit, row: DatasetRow, product: str) -> Dataset:
    name = f"{product} · {month_text(row.contract, visit.words.language)}"
    return Dataset(row, name, day_text(visit, row.first), day_text(visit, row.last))


def _granted(visit: Visit, row: GrantRow, people: Mapping[str, str]) -> Granted:
    words = visit.words
    kind, _, name = row.grantee.partition(":")
    if kind == "user":
        to = people.get(row.grantee, row.grantee)
    elif kind == "tier":
        to = words("Keys on tier %(tier)s", tier=name)
    elif kind == "key":
        to = words("Key %(prefix)s", prefix=people.get(row.grantee, name))
    else:
        to = words("Everyone")
    first, last = (day_text(visit, day) for day in (row.from_date, row.until_date))
    return Granted(row, to, " ".join(row.roots), first, last, row.embargo_ns // NANOS_PER_HOUR)


def _terms(visit: Visit, typed: Mapping[str, str], faults: Faults) -> Terms | None:
    words = visit.words
    grantees: Mapping[str, Grantee] = {"everyone": "everyone", "tier": "tier", "user": "user", "key": "key"}
    scopes: Mapping[str, Literal["completed", "live"]] = {"completed": "completed", "live": "live"}
    grantee, scope = grantees.get(typed["grantee"]), scopes.get(typed["scope"])
    if grantee is None:
        faults["grantee"] = words("Choose a recipient.")
    if scope is None:
        faults["scope"] = words("Choose a scope.")
    hours = typed["embargo_hours"]
    if not (hours.isascii() and hours.isdigit() and len(hours) <= 6):
        faults["embargo_hours"] = words(_EMBARGO)
    first, last = (_day(visit, typed, name, faults) for name in ("from_date", "until_date"))
    if faults or grantee is None or scope is None:
        return None
    name = typed["tier"] if grantee == "tier" else typed["email"]
    roots = tuple(dict.fromkeys(typed["roots"].split()))
    declared: Sequence[LicenceClass] = [one for one in LICENCE_CLASSES if one == typed["licence"]]
    licence = declared[0] if declared and typed["attested"] else None
    return Terms(grantee, name, scope, roots, first, last, int(hours), licence)


def _day(visit: Visit, typed: Mapping[str, str], name: str, faults: Faults) -> date | None:
    try:
        return date.fromisoformat(typed[name]) if typed[name] else None
    except ValueError:
        faults[name] = visit.words("Enter the date as YYYY-MM-DD, for example 2026-01-31.")
        return None


async def _note(desk: Desk, visit: Visit, user: UserRow, event: Event, row: GrantRow) -> None:
    details = {"grantee": row.grantee, "scope": row.scope}
    if row.roots:
        details["symbols"] = " ".join(row.roots)
    if row.licence:
        details["licence"] = row.licence
    kind, _, number = row.grantee.partition(":")
    if kind == "user":  # an address tells more than a number, and stays what it was at the time
        people = {str(one.id): one.email for one in await desk.ask(desk.services.identity.users)}
        details["grantee"] = people.get(number, row.grantee)
    await desk.ask(desk.services.identity.note, user, event, origin_of(visit), **details)


PAGES: Sequence[Page] = (
    (DATA, ("GET",), show_data),
    (f"{DATA}/grants", ("POST",), add_grant),
    (f"{DATA}/grants/{{grant_id}}/remove", ("POST",), remove_grant),
    (FEEDS, ("GET",), show_feeds),
)
