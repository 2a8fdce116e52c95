"""The operator's data pages: datasets and grants at `/operator/data`, feeds at `/operator/feeds`.

An operator sees only counts of the users' own data. Changing grants needs a recent confirmation of identity. A grant of
live data, or of data embargoed for less than 24 hours, needs a declared licence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from starlette.responses import Response

from outcry.access.licences import LICENCE_CLASSES, OPERATOR, Grant, LicenceClass, Scope
from outcry.access.model import GrantEvent, GrantRow
from outcry.base.sizes import Size, size
from outcry.connections.model import ConnectionPhase
from outcry.market.units import NANOS_PER_HOUR
from outcry.people.audit import Event
from outcry.people.model import UserRow
from outcry.sessions.datasets import Grantee, GrantRefused, Terms
from outcry.sessions.store_model import DatasetRow
from outcry.web.account.broker_page import Stream, stream_of
from outcry.web.account.feed_words import PHASE_WORDS
from outcry.web.account.webhook_forms import offered
from outcry.web.dates import LocalTime, day_text, local_time
from outcry.web.form_input import Faults
from outcry.web.form_state import (
    delete_typed,
    done_code,
    id_in_path,
    prove_first,
    restore_typed,
)
from outcry.web.formatter import month_text
from outcry.web.language import later
from outcry.web.number_format import lots_text
from outcry.web.page_context import NotConfirmed, NotProved, Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import origin_of

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
#: Form entry at which a refusal is shown, by code and field of the refusal.
_ENTRIES: Mapping[tuple[str, str], str] = {
    ("tier", "name"): "tier",
    ("user", "name"): "email",
    ("key", "name"): "email",
}


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset as a page lists it: the sessions of one contract and source. `name`: its product and delivery month."""

    row: DatasetRow
    name: str
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant of data as a page lists it. `to`: who receives the data, in words."""

    row: GrantRow
    to: str
    roots: str
    first: str
    last: str
    embargo_hours: int


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the grant log as a page lists it."""

    event: GrantEvent
    granted: Granted
    at: LocalTime | None


async def show_data(context: PageContext, request: PageRequest) -> Response:
    """Show datasets, grants and the grant log."""
    return await _data(context, request, {}, {})


async def _data(
    context: PageContext, request: PageRequest, typed: Mapping[str, str], faults: Faults
) -> Response:
    context.operator(request)
    datasets, identity = context.services.datasets, context.services.identity
    own, others = await context.ask(datasets.known)
    people = {f"user:{row.id}": row.email for row in await context.ask(identity.users)}
    people |= {f"key:{row.id}": f"{row.prefix}…" for row in await context.ask(context.services.keys.list)}
    grants = await context.ask(datasets.grants)
    events = await context.ask(datasets.events)
    products = offered(context)
    kept = restore_typed(context, request, DATA)
    page = context.page(
        request,
        "operator/data.html",
        422 if faults else 200,
        datasets=[_dataset(request, row, products.get(row.root, row.root)) for row in own],
        others=others,
        licences={name: request.words(text) for name, text in _LICENCES.items()},
        grants=[_granted(request, row, people) for row in grants],
        events=[
            Logged(one, _granted(request, one.grant, people), local_time(request, one.at_ns))
            for one in events
        ],
        offered=products,
        typed={**_USUAL, **kept, **typed},
        faults=faults,
        done=done_code(request),
    )
    return delete_typed(request, page)


async def add_grant(context: PageContext, request: PageRequest) -> Response:
    """Add a grant of the operator's data, from a submitted form."""
    context.sender(request)
    form = await context.form(request)
    faults = form.faults
    typed = {name: form.joined(name) if name == "roots" else form.line(name) for name in _USUAL}
    terms = _terms(request, typed, faults)
    try:
        operator = context.operator(request)
        context.confirmed(request)
    except NotProved:
        return prove_first(context, request, DATA, typed)
    if terms is None:
        return await _data(context, request, typed, faults)
    try:
        row = await context.ask(context.services.datasets.grant, terms, context.now_ns(), operator.email)
    except GrantRefused as refusal:
        entry = _ENTRIES.get((refusal.code, refusal.field), refusal.field)
        return await _data(context, request, typed, {entry: request.words(_REFUSALS[refusal.code])})
    await _note(context, request, operator, Event.GRANT_ADDED, row)
    return context.to(request, f"{DATA}?done=granted")


async def remove_grant(context: PageContext, request: PageRequest) -> Response:
    """Revoke a grant of the operator's data, from a submitted form."""
    operator = context.operator(request)
    await context.form(request)
    grant_id = id_in_path(request, "grant_id")
    try:
        context.confirmed(request)
    except NotConfirmed:
        return prove_first(context, request, DATA, {})
    rows = await context.ask(context.services.datasets.grants)
    row = next((row for row in rows if row.id == grant_id), None)
    withdraw = context.services.datasets.withdraw
    if row is None or not await context.ask(withdraw, grant_id, context.now_ns(), operator.email):
        raise PageMissing
    await _note(context, request, operator, Event.GRANT_REMOVED, row)
    return context.to(request, f"{DATA}?done=withdrawn")


async def show_feeds(context: PageContext, request: PageRequest) -> Response:
    """Show the operator's streams, how many streams and connections the users have, and the status of deliveries."""
    user, registry = context.operator(request), context.services.registry
    everything = Scope(user.id, (Grant(f"user:{user.id}", "live", (), None, None, 0),))
    own = [seen.channel for seen in registry.channels(everything) if seen.channel.key.owner == OPERATOR]
    streams: list[tuple[Stream, Size]] = []
    for channel in own:
        view = await context.ask(channel.view)
        step_e9 = context.services.universe.products[channel.key.contract.root].size_step_e9
        streams.append((stream_of(request, channel), size(sum(view.ladder.volume), step_e9) if view else 0))
    return context.page(
        request,
        "operator/feeds.html",
        streams=streams,
        others=sum(registry.reason_counts().values()) - len(own),
        lots_text=lots_text,
        connections=_phases(request, await context.ask(context.services.connections.counts)),
        running=context.services.subscriptions.running,
        webhooks=await context.ask(context.services.subscriptions.status, context.now_ns()),
    )


def _phases(request: PageRequest, counts: Mapping[ConnectionPhase, int]) -> list[tuple[str, int]]:
    """Return the label of each connection phase, and how many connections are in that phase."""
    return [(request.words(word), counts.get(phase, 0)) for phase, word in PHASE_WORDS.items()]


def _dataset(request: PageRequest, row: DatasetRow, product: str) -> Dataset:
    month = month_text(row.contract, request.words.language)
    name = f"{product} · {month}" if month else product
    return Dataset(row, name, day_text(request, row.first), day_text(request, row.last))


def _granted(request: PageRequest, row: GrantRow, people: Mapping[str, str]) -> Granted:
    words = request.words
    kind, _, name = row.grantee.partition(":")
    if kind == "user":
        to = people.get(row.grantee, row.grantee)
    elif kind == "tier":
        to = words("Keys on tier %(tier)s", tier=name)
    elif kind == "key":
        to = words("Key %(prefix)s", prefix=people.get(row.grantee, name))
    else:
        to = words("Everyone")
    first, last = (day_text(request, day) for day in (row.from_date, row.until_date))
    return Granted(row, to, " ".join(row.roots), first, last, row.embargo_ns // NANOS_PER_HOUR)


def _terms(request: PageRequest, typed: Mapping[str, str], faults: Faults) -> Terms | None:
    words = request.words
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
    first, last = (_day(request, typed, name, faults) for name in ("from_date", "until_date"))
    if faults or grantee is None or scope is None:
        return None
    name = typed["tier"] if grantee == "tier" else typed["email"]
    roots = tuple(dict.fromkeys(typed["roots"].split()))
    declared: Sequence[LicenceClass] = [one for one in LICENCE_CLASSES if one == typed["licence"]]
    licence = declared[0] if declared and typed["attested"] else None
    return Terms(grantee, name, scope, roots, first, last, int(hours), licence)


def _day(request: PageRequest, typed: Mapping[str, str], name: str, faults: Faults) -> date | None:
    try:
        return date.fromisoformat(typed[name]) if typed[name] else None
    except ValueError:
        faults[name] = request.words("Enter the date as YYYY-MM-DD, for example 2026-01-31.")
        return None


async def _note(
    context: PageContext, request: PageRequest, user: UserRow, event: Event, row: GrantRow
) -> None:
    details = {"grantee": row.grantee, "scope": row.scope}
    if row.roots:
        details["symbols"] = " ".join(row.roots)
    if row.licence:
        details["licence"] = row.licence
    kind, _, number = row.grantee.partition(":")
    if kind == "user":  # log the email address of this moment, because it can change later
        people = {str(one.id): one.email for one in await context.ask(context.services.identity.users)}
        details["grantee"] = people.get(number, row.grantee)
    await context.ask(context.services.identity.note, user, event, origin_of(request), **details)


PAGES: Sequence[Page] = (
    (DATA, ("GET",), show_data),
    (f"{DATA}/grants", ("POST",), add_grant),
    (f"{DATA}/grants/{{grant_id}}/remove", ("POST",), remove_grant),
    (FEEDS, ("GET",), show_feeds),
)
