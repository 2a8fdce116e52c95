"""API keys: `/account/keys`. Create, show once, rename, rotate with a grace period, revoke.

A key is shown once and never appears in a URL. Creating one needs a recent confirmation. Revoking does not, because a
leaked key must be stopped at once; the user types the key's name instead, to prevent mistakes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from outcry.access.key_format import LONGEST_LABEL
from outcry.access.keys import GRACES_NS, KeyRefused
from outcry.access.model import KeyRow, Role
from outcry.market.units import NANOS_PER_DAY
from outcry.people.audit import Event
from outcry.people.model import UserRow
from outcry.web.dates import LocalTime, local_time
from outcry.web.form_input import Faults, Form
from outcry.web.form_state import (
    delete_typed,
    done_code,
    id_in_path,
    prove_first,
    redirect_with_secret,
    restore_typed,
    show_once,
)
from outcry.web.page_context import NotConfirmed, NotProved, Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import origin_of, site_of

LIST, NEW, MADE = "/account/keys", "/account/keys/new", "/account/keys/made"
#: Lifetimes that the form offers.
LIFETIMES_NS: Mapping[str, int | None] = {
    "30": 30 * NANOS_PER_DAY,
    "90": 90 * NANOS_PER_DAY,
    "365": 365 * NANOS_PER_DAY,
    "never": None,
}
#: Grace periods of a rotated key that the form offers.
GRACES: Mapping[str, int] = dict(zip(("0", "1h", "24h", "7d"), GRACES_NS, strict=True))
_USUAL = {"label": "", "lifetime": "90"}
#: A key that expires within this time is marked.
_SOON_NS = 7 * NANOS_PER_DAY


@dataclass(frozen=True, slots=True)
class Shown:
    """An API key as a page shows it.

    `state`: live; soon (expires within a week); replaced (was rotated, and is valid until its grace period ends);
    expired; or revoked.
    """

    row: KeyRow
    name: str
    state: str
    created: LocalTime
    used: LocalTime | None
    expires: LocalTime | None
    revoked: LocalTime | None

    @property
    def live(self) -> bool:
        """Return whether the key is valid."""
        return self.state in {"live", "soon", "replaced"}


def shown(request: PageRequest, row: KeyRow, now_ns: int) -> Shown:
    """Return an API key as a page shows it."""
    created = local_time(request, row.created_ns)
    assert created is not None
    times = (local_time(request, at_ns) for at_ns in (row.last_used_ns, row.expires_ns, row.revoked_ns))
    return Shown(row, row.label or row.prefix, _state(row, now_ns), created, *times)


def _state(row: KeyRow, now_ns: int) -> str:
    if row.revoked_ns is not None:
        return "revoked"
    if not row.is_live(now_ns):
        return "expired"
    if row.replaced_by is not None:
        return "replaced"
    return "soon" if row.expires_ns is not None and row.expires_ns - now_ns < _SOON_NS else "live"


async def list_keys(context: PageContext, request: PageRequest) -> Response:
    """List the user's keys."""
    user = context.user(request)
    rows = await context.ask(context.services.keys.of, user.id)
    keys = [shown(request, row, context.now_ns()) for row in rows]
    return context.page(request, "account/keys.html", keys=keys, done=done_code(request))


# -- create


async def new_key(context: PageContext, request: PageRequest) -> Response:
    """Show the form for a new key."""
    context.confirmed(request)
    typed = _USUAL | restore_typed(context, request, NEW)
    return delete_typed(request, context.page(request, "account/key_new.html", typed=typed, faults={}))


async def make_key(context: PageContext, request: PageRequest) -> Response:
    """Create a key and show it once."""

    async def refuse(typed: Mapping[str, str], faults: Faults) -> Response:
        return context.page(request, "account/key_new.html", 422, typed=typed, faults=faults)

    return await key_by_form(context, request, "read", NEW, MADE, refuse)


async def key_by_form(
    context: PageContext, request: PageRequest, role: Role, form_at: str, made_at: str,
    refuse: Callable[[Mapping[str, str], Faults], Awaitable[Response]],
) -> Response:  # fmt: skip
    """Create an API key from a submitted form.

    `form_at`: path of the form. `made_at`: path of the page that shows the key once. `refuse`: renders the form again
    with the typed values and their faults.
    """
    context.sender(request)
    form = await context.form(request)
    faults = form.faults
    wish = _wished(form)
    try:
        user = context.confirmed(request)
    except NotProved:
        return prove_first(context, request, form_at, wish.typed)
    key = "" if faults else await _made_key(context, request, user, wish, role, faults)
    if faults:
        return await refuse(wish.typed, faults)
    return redirect_with_secret(context, request, made_at, {"key": key, "name": wish.label, "role": role})


@dataclass(frozen=True, slots=True)
class _Wish:
    """The new key that the user asked for in the form."""

    label: str
    lifetime: str

    @property
    def typed(self) -> dict[str, str]:
        """Return the typed values, to fill the form again."""
        return {"label": self.label, "lifetime": self.lifetime}


def _wished(form: Form) -> _Wish:
    """Read the form for a new key."""
    label = form.line("label", LONGEST_LABEL)
    lifetime = form.line("lifetime")
    if not label:
        form.faults["label"] = form.words("Enter a name for the key.")
    if lifetime not in LIFETIMES_NS:
        form.faults["lifetime"] = form.words("Choose an expiry.")
    return _Wish(label, lifetime)


async def _made_key(
    context: PageContext, request: PageRequest, user: UserRow, wish: _Wish, role: Role, faults: Faults
) -> str:
    """Create an API key and return it. If it is refused, add a fault to the form and return an empty text."""
    now_ns, lasts_ns = context.now_ns(), LIFETIMES_NS[wish.lifetime]
    expires_ns = now_ns + lasts_ns if lasts_ns is not None else None

    try:
        key = await context.ask(
            context.services.keys.create_own,
            user.email, user.tier, now_ns, role=role, label=wish.label, expires_ns=expires_ns,
        )  # fmt: skip
    except KeyRefused:
        faults[""] = request.words("You already have 20 active keys. Revoke one that you no longer use.")
        return ""
    await _note(context, request, user, Event.KEY_CREATED, prefix=key[:15], label=wish.label, role=role)
    return key


async def show_made(context: PageContext, request: PageRequest) -> Response:
    """Show the new key, once."""
    return await show_once(context, request, "account/key_made.html", MADE, LIST, site=site_of(request))


# -- one key


async def one_key(context: PageContext, request: PageRequest) -> Response:
    """Show a key and its actions."""
    return await _one(context, request, {}, {})


async def name_key(context: PageContext, request: PageRequest) -> Response:
    """Rename a key."""
    context.sender(request)
    form = await context.form(request)
    faults = form.faults
    label = form.line("label", LONGEST_LABEL)
    if request.user is None:
        return prove_first(context, request, f"{LIST}/{id_in_path(request, 'key_id')}", {"label": label})
    user, row = await _own(context, request)
    if not label:
        faults["label"] = request.words("Enter a name for the key.")
    if faults:
        return await _one(context, request, faults, {"label": label})
    await context.ask(context.services.keys.change_own, user.id, row.id, label)
    await _note(context, request, user, Event.KEY_CHANGED, prefix=row.prefix, label=label)
    return context.to(request, f"{LIST}/{row.id}?done=saved")


async def rotate_key(context: PageContext, request: PageRequest) -> Response:
    """Rotate a key: show the new one once; the old one works until its grace period ends."""
    user, row = await _own(context, request)
    form = await context.form(request)
    faults = form.faults
    grace = form.line("grace")
    if grace not in GRACES:
        faults["grace"] = request.words("Choose how long the old key stays valid.")
        return await _one(context, request, faults, {"grace": grace})
    try:
        context.confirmed(request)
        key = await context.ask(
            context.services.keys.rotate, user.id, row.id, GRACES[grace], context.now_ns()
        )
    except NotConfirmed:
        return prove_first(context, request, f"{LIST}/{row.id}", {"grace": grace})
    except KeyRefused:
        faults[""] = request.words(
            "This key can't be rotated: it is no longer active, was already rotated, or you have 20 keys."
        )
        return await _one(context, request, faults, {"grace": grace})
    await _note(
        context, request, user, Event.KEY_ROTATED, prefix=row.prefix, replaced_by=key[:15], grace=grace
    )
    return redirect_with_secret(
        context, request, MADE, {"key": key, "name": row.label or row.prefix, "role": row.role}
    )


async def revoke_key(context: PageContext, request: PageRequest) -> Response:
    """Revoke a key. Every process refuses the key within a second."""
    user, row = await _own(context, request)
    form = await context.form(request)
    faults = form.faults
    name = form.line("name")
    if name != (row.label or row.prefix):
        faults["name"] = request.words("The name does not match. Type it exactly as shown.")
        return await _one(context, request, faults, {"name": name})
    if await context.ask(context.services.keys.revoke_own, user.id, row.id, context.now_ns()) is not None:
        await _note(context, request, user, Event.KEY_REVOKED, prefix=row.prefix, label=row.label)
    return context.to(request, f"{LIST}?done=revoked")


async def back_to_key(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the key's page if a form's URL was opened as a page, for example after a sign-in."""
    return context.to(request, f"{LIST}/{id_in_path(request, 'key_id')}")


async def _own(context: PageContext, request: PageRequest) -> tuple[UserRow, KeyRow]:
    user, wanted = context.user(request), id_in_path(request, "key_id")
    rows = await context.ask(context.services.keys.of, user.id)
    found = next((row for row in rows if row.id == wanted), None)
    if found is None:
        raise PageMissing
    return user, found


async def _one(
    context: PageContext, request: PageRequest, faults: Faults, typed: Mapping[str, str]
) -> Response:
    _, row = await _own(context, request)
    kept = restore_typed(context, request, f"{LIST}/{row.id}")
    typed = {"label": row.label, "grace": "24h", "name": "", **kept, **typed}
    page = context.page(
        request,
        "account/key.html",
        422 if faults else 200,
        key=shown(request, row, context.now_ns()),
        typed=typed,
        faults=faults,
        done=done_code(request),
    )
    return delete_typed(request, page)


async def _note(
    context: PageContext, request: PageRequest, user: UserRow, event: Event, **details: str
) -> None:
    await context.ask(context.services.identity.note, user, event, origin_of(request), **details)


PAGES: Sequence[Page] = (
    (LIST, ("GET",), list_keys),
    (NEW, ("GET",), new_key),
    (LIST, ("POST",), make_key),
    (MADE, ("GET",), show_made),
    (f"{LIST}/{{key_id}}", ("GET",), one_key),
    (f"{LIST}/{{key_id}}/{{form:path}}", ("GET",), back_to_key),
    (f"{LIST}/{{key_id}}/name", ("POST",), name_key),
    (f"{LIST}/{{key_id}}/rotate", ("POST",), rotate_key),
    (f"{LIST}/{{key_id}}/revoke", ("POST",), revoke_key),
)
