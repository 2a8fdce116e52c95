"""The operator's pages on people: `/operator/users`. Listed, invited, changed, switched off.

Rules kept: none of this is shown to anybody else; what somebody may do is changed only by an operator who has just
proved who it is, and is noted where both can read it. Links that let somebody in are on a page once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from starlette.responses import Response

from outcry.access.model import Tier
from outcry.people.model import UserRole, UserRow
from outcry.people.refusals import Refused
from outcry.web.dates import Moment, moment
from outcry.web.entrance import faults_of, origin_of
from outcry.web.form_input import FormRefused
from outcry.web.forms import (
    Faults,
    before_in,
    forget_secret,
    forget_typed,
    hand_over,
    handed_over,
    line,
    note_of,
    number_in,
    prove_first,
    typed_before,
)
from outcry.web.language import Words, later
from outcry.web.page_context import Desk, NotConfirmed, NotProved, Page, PageMissing, Visit, said

USERS, INVITED = "/operator/users", "/operator/users/invited"
_PAGE = 50
TIERS: Mapping[Tier, str] = {"free": "free", "pro": "pro", "admin": "admin"}
ROLES: Mapping[UserRole, str] = {"member": later("Member"), "operator": later("Service operator")}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in the list. `keys`: how many work."""

    row: UserRow
    since: Moment | None
    keys: int


async def first_page(desk: Desk, visit: Visit) -> Response:
    """`/operator` is its first part."""
    desk.operator(visit)
    return desk.to(visit, USERS)


async def list_users(desk: Desk, visit: Visit) -> Response:
    """Everyone, and the invitations that are open."""
    return await _list(desk, visit, {}, {})


async def _list(desk: Desk, visit: Visit, typed: Mapping[str, str], faults: Faults) -> Response:
    desk.operator(visit)
    identity, keys = desk.services.identity, desk.services.keys
    wanted, before = visit.request.query_params.get("q", "").strip()[:254].lower(), before_in(visit)

    def look() -> tuple[list[UserRow], Counter[int]]:
        now_ns = desk.now_ns()
        working = Counter(row.user_id for row in keys.list() if row.is_live(now_ns))
        return sorted(identity.users(), key=lambda row: -row.id), working

    everyone, working = await desk.ask(look)
    matching = [row for row in everyone if wanted in row.email and (before is None or row.id < before)]
    people = [Person(row, moment(visit, row.created_ns), working[row.id]) for row in matching[:_PAGE]]
    kept = typed_before(desk, visit, USERS)
    page = _page(
        desk,
        visit,
        "operator/users.html",
        422 if faults else 200,
        people=people,
        wanted=wanted,
        older=people[-1].row.id if len(matching) > _PAGE else None,
        first=before is None,
        count=len(everyone),
        invitations=[(row, moment(visit, row.expires_ns)) for row in await desk.ask(identity.invitations)],
        mail=await desk.ask(identity.mail_works),
        typed={"email": "", "role": "member", "tier": "free", **kept, **typed},
        faults=faults,
        done=note_of(visit),
    )
    return forget_typed(visit, page)


# -- letting somebody in


async def invite(desk: Desk, visit: Visit) -> Response:
    """Make an invitation; its link is shown once, and mailed where mail works."""
    desk.sender(visit)
    form, faults = await desk.form(visit), Faults()
    typed = {name: line(form, name, faults, visit.words, 254) for name in ("email", "role", "tier")}
    role, tier = _role(typed["role"], faults, visit.words), _tier(typed["tier"], faults, visit.words)
    try:
        operator = desk.operator(visit)
        desk.confirmed(visit)
        if faults or role is None or tier is None:
            return await _list(desk, visit, typed, faults)
        link = await desk.ask(
            desk.services.identity.invite, operator, typed["email"], role, tier, origin_of(visit)
        )
    except NotProved:
        return prove_first(desk, visit, USERS, typed)
    except Refused as refusal:
        return await _list(desk, visit, typed, faults_of(visit, refusal))
    return hand_over(desk, visit, INVITED, {"link": link, "email": typed["email"], "kind": "invitation"})


async def withdraw(desk: Desk, visit: Visit) -> Response:
    """Take an invitation back."""
    operator = desk.operator(visit)
    await desk.form(visit)
    token_id = number_in(visit, "token_id")
    if all(row.id != token_id for row in await desk.ask(desk.services.identity.invitations)):
        raise PageMissing
    await desk.ask(desk.services.identity.withdraw, operator, token_id, origin_of(visit))
    return desk.to(visit, f"{USERS}?done=withdrawn")


async def show_link(desk: Desk, visit: Visit) -> Response:
    """A link that lets somebody in, the only time it is on a page."""
    desk.operator(visit)
    held = await handed_over(desk, visit, INVITED)
    if held is None:
        return desk.to(visit, f"{USERS}?done=shown")
    page = desk.page(
        visit, "operator/link.html", secret=True, link=held["link"], email=held["email"], kind=held["kind"],
        mail=await desk.ask(desk.services.identity.mail_works),
    )  # fmt: skip
    return forget_secret(visit, page)


# -- one of them


async def show_user(desk: Desk, visit: Visit) -> Response:
    """What one may do, and what can be changed of that."""
    return await _user(desk, visit, {}, {})


async def change_user(desk: Desk, visit: Visit) -> Response:
    """Change role and tier."""
    operator, row = await _wanted(desk, visit)
    form, faults = await desk.form(visit), Faults()
    typed = {name: line(form, name, faults, visit.words) for name in ("role", "tier")}
    role, tier = _role(typed["role"], faults, visit.words), _tier(typed["tier"], faults, visit.words)
    if faults:
        return await _user(desk, visit, typed, faults)
    return await _changed(desk, visit, operator, row, typed, role=role, tier=tier)


async def switch_user(desk: Desk, visit: Visit) -> Response:
    """Switch somebody off, who is signed out everywhere then and whose keys stop; or on again."""
    operator, row = await _wanted(desk, visit)
    wanted = said(await desk.form(visit), "disabled")
    if wanted not in {"yes", "no"}:
        raise FormRefused
    return await _changed(desk, visit, operator, row, {}, disabled=wanted == "yes")


async def make_reset_link(desk: Desk, visit: Visit) -> Response:
    """A link with which somebody can choose a new password, shown once."""
    operator, row = await _wanted(desk, visit)
    await desk.form(visit)
    try:
        desk.confirmed(visit)
        link = await desk.ask(desk.services.identity.reset_link, operator, row.id, origin_of(visit))
    except NotConfirmed:
        return prove_first(desk, visit, f"{USERS}/{row.id}", {})
    except Refused as refusal:
        return await _user(desk, visit, {}, faults_of(visit, refusal))
    return hand_over(desk, visit, INVITED, {"link": link, "email": row.email, "kind": "reset"})


async def back_to_user(desk: Desk, visit: Visit) -> Response:
    """An address that only takes forms, opened as a page."""
    return desk.to(visit, f"{USERS}/{number_in(visit, 'user_id')}")


async def _changed(
    desk: Desk, visit: Visit, operator: UserRow, row: UserRow, typed: Mapping[str, str], **wish: Any
) -> Response:
    try:
        desk.confirmed(visit)
        await desk.ask(desk.services.identity.change_user, operator, row.id, origin_of(visit), **wish)
    except NotConfirmed:
        return prove_first(desk, visit, f"{USERS}/{row.id}", typed)
    except Refused as refusal:
        return await _user(desk, visit, typed, faults_of(visit, refusal))
    return desk.to(visit, f"{USERS}/{row.id}?done=saved")


async def _wanted(desk: Desk, visit: Visit) -> tuple[UserRow, UserRow]:
    operator, wanted = desk.operator(visit), number_in(visit, "user_id")
    found = next((row for row in await desk.ask(desk.services.identity.users) if row.id == wanted), None)
    if found is None:
        raise PageMissing
    return operator, found


async def _user(desk: Desk, visit: Visit, typed: Mapping[str, str], faults: Faults) -> Response:
    _, row = await _wanted(desk, visit)
    keys = await desk.ask(desk.services.keys.of, row.id)
    kept = typed_before(desk, visit, f"{USERS}/{row.id}")
    page = _page(
        desk,
        visit,
        "operator/user.html",
        422 if faults else 200,
        person=row,
        since=moment(visit, row.created_ns),
        disabled=moment(visit, row.disabled_ns),
        keys=sum(key.is_live(desk.now_ns()) for key in keys),
        typed={"role": row.role, "tier": row.tier, **kept, **typed},
        faults=faults,
        done=note_of(visit),
    )
    return forget_typed(visit, page)


def _page(desk: Desk, visit: Visit, template: str, status: int, **values: Any) -> Response:
    roles = {code: visit.words(name) for code, name in ROLES.items()}
    return desk.page(visit, template, status, roles=roles, tiers=TIERS, **values)


def _role(text: str, faults: Faults, words: Words) -> UserRole | None:
    found: UserRole | None = next((role for role in get_args(UserRole) if role == text), None)
    if found is None:
        faults["role"] = words("Choose a role from the list.")
    return found


def _tier(text: str, faults: Faults, words: Words) -> Tier | None:
    found: Tier | None = next((tier for tier in get_args(Tier) if tier == text), None)
    if found is None:
        faults["tier"] = words("Choose a tier from the list.")
    return found


PAGES: Sequence[Page] = (
    ("/operator", ("GET",), first_page),
    (USERS, ("GET",), list_users),
    (f"{USERS}/invite", ("POST",), invite),
    (INVITED, ("GET",), show_link),
    (f"{USERS}/invitations/{{token_id}}/withdraw", ("POST",), withdraw),
    (f"{USERS}/{{user_id}}", ("GET",), show_user),
    (f"{USERS}/{{user_id}}", ("POST",), change_user),
    (f"{USERS}/{{user_id}}/switch", ("POST",), switch_user),
    (f"{USERS}/{{user_id}}/reset-link", ("POST",), make_reset_link),
    *((f"{USERS}/{{user_id}}/{form}", ("GET",), back_to_user) for form in ("switch", "reset-link")),
)
