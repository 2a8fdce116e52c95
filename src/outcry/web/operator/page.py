"""The operator's user pages: `/operator/users`. List, invite, change and disable users.

Only operators can open these pages. Changing a user needs a recent confirmation of identity. It is logged in the
activity logs of both the operator and the user. Invitation and password reset links are shown once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from starlette.responses import Response

from outcry.access.model import Tier
from outcry.people.model import UserRole, UserRow
from outcry.people.refusals import Refused
from outcry.web.dates import LocalTime, local_time
from outcry.web.form_input import Faults, FormRefused
from outcry.web.form_state import (
    before_in_query,
    delete_secret,
    delete_typed,
    done_code,
    id_in_path,
    prove_first,
    redirect_with_secret,
    restore_typed,
    take_secret,
)
from outcry.web.language import Words, later
from outcry.web.page_context import NotConfirmed, NotProved, Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import faults_of, origin_of

USERS, INVITED = "/operator/users", "/operator/users/invited"
_PAGE = 50
TIERS: Mapping[Tier, str] = {"free": "free", "pro": "pro", "admin": "admin"}
ROLES: Mapping[UserRole, str] = {"member": later("Member"), "operator": later("Service operator")}


@dataclass(frozen=True, slots=True)
class Person:
    """A user in the list. `keys`: number of active API keys."""

    row: UserRow
    since: LocalTime | None
    keys: int


async def first_page(context: PageContext, request: PageRequest) -> Response:
    """Redirect `/operator` to the list of users."""
    context.operator(request)
    return context.to(request, USERS)


async def list_users(context: PageContext, request: PageRequest) -> Response:
    """List users and open invitations."""
    return await _list(context, request, {}, {})


async def _list(
    context: PageContext, request: PageRequest, typed: Mapping[str, str], faults: Faults
) -> Response:
    context.operator(request)
    identity, keys = context.services.identity, context.services.keys
    wanted, before = request.http.query_params.get("q", "").strip()[:254].lower(), before_in_query(request)

    def look() -> tuple[list[UserRow], Counter[int]]:
        now_ns = context.now_ns()
        working = Counter(row.user_id for row in keys.list() if row.is_live(now_ns))
        return sorted(identity.users(), key=lambda row: -row.id), working

    everyone, working = await context.ask(look)
    matching = [row for row in everyone if wanted in row.email and (before is None or row.id < before)]
    people = [Person(row, local_time(request, row.created_ns), working[row.id]) for row in matching[:_PAGE]]
    kept = restore_typed(context, request, USERS)
    page = _page(
        context,
        request,
        "operator/users.html",
        422 if faults else 200,
        people=people,
        wanted=wanted,
        older=people[-1].row.id if len(matching) > _PAGE else None,
        first=before is None,
        count=len(everyone),
        invitations=[
            (row, local_time(request, row.expires_ns)) for row in await context.ask(identity.invitations)
        ],
        mail=await context.ask(identity.mail_works),
        typed={"email": "", "role": "member", "tier": "free", **kept, **typed},
        faults=faults,
        done=done_code(request),
    )
    return delete_typed(request, page)


# -- invitations


async def invite(context: PageContext, request: PageRequest) -> Response:
    """Create an invitation. Its link is shown once, and emailed if email is set up."""
    context.sender(request)
    form = await context.form(request)
    faults = form.faults
    typed = {name: form.line(name, 254) for name in ("email", "role", "tier")}
    role, tier = _role(typed["role"], faults, request.words), _tier(typed["tier"], faults, request.words)
    try:
        operator = context.operator(request)
        context.confirmed(request)
        if faults or role is None or tier is None:
            return await _list(context, request, typed, faults)
        link = await context.ask(
            context.services.identity.invite, operator, typed["email"], role, tier, origin_of(request)
        )
    except NotProved:
        return prove_first(context, request, USERS, typed)
    except Refused as refusal:
        return await _list(context, request, typed, faults_of(request, refusal))
    return redirect_with_secret(
        context, request, INVITED, {"link": link, "email": typed["email"], "kind": "invitation"}
    )


async def withdraw(context: PageContext, request: PageRequest) -> Response:
    """Revoke an invitation of a new user."""
    operator = context.operator(request)
    await context.form(request)
    token_id = id_in_path(request, "token_id")
    if all(row.id != token_id for row in await context.ask(context.services.identity.invitations)):
        raise PageMissing
    await context.ask(context.services.identity.withdraw, operator, token_id, origin_of(request))
    return context.to(request, f"{USERS}?done=withdrawn")


async def show_link(context: PageContext, request: PageRequest) -> Response:
    """Show a new invitation or password reset link once."""
    context.operator(request)
    held = await take_secret(context, request, INVITED)
    if held is None:
        return context.to(request, f"{USERS}?done=shown")
    page = context.page(
        request, "operator/link.html", secret=True, link=held["link"], email=held["email"], kind=held["kind"],
        mail=await context.ask(context.services.identity.mail_works),
    )  # fmt: skip
    return delete_secret(request, page)


# -- one user


async def show_user(context: PageContext, request: PageRequest) -> Response:
    """Show one user's settings to the operator."""
    return await _user(context, request, {}, {})


async def change_user(context: PageContext, request: PageRequest) -> Response:
    """Change a user's role and tier."""
    operator, row = await _wanted(context, request)
    form = await context.form(request)
    faults = form.faults
    typed = {name: form.line(name) for name in ("role", "tier")}
    role, tier = _role(typed["role"], faults, request.words), _tier(typed["tier"], faults, request.words)
    if faults:
        return await _user(context, request, typed, faults)
    return await _changed(context, request, operator, row, typed, role=role, tier=tier)


async def switch_user(context: PageContext, request: PageRequest) -> Response:
    """Disable or enable a user.

    Disabling signs the user out everywhere, and the user's keys stop working.
    """
    operator, row = await _wanted(context, request)
    wanted = (await context.form(request)).text("disabled")
    if wanted not in {"yes", "no"}:
        raise FormRefused
    return await _changed(context, request, operator, row, {}, disabled=wanted == "yes")


async def make_reset_link(context: PageContext, request: PageRequest) -> Response:
    """Create a password reset link for a user and show it once."""
    operator, row = await _wanted(context, request)
    await context.form(request)
    try:
        context.confirmed(request)
        link = await context.ask(context.services.identity.reset_link, operator, row.id, origin_of(request))
    except NotConfirmed:
        return prove_first(context, request, f"{USERS}/{row.id}", {})
    except Refused as refusal:
        return await _user(context, request, {}, faults_of(request, refusal))
    return redirect_with_secret(
        context, request, INVITED, {"link": link, "email": row.email, "kind": "reset"}
    )


async def back_to_user(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the user's page if a form's URL was opened as a page."""
    return context.to(request, f"{USERS}/{id_in_path(request, 'user_id')}")


async def _changed(
    context: PageContext,
    request: PageRequest,
    operator: UserRow,
    row: UserRow,
    typed: Mapping[str, str],
    **wish: Any,
) -> Response:
    try:
        context.confirmed(request)
        await context.ask(context.services.identity.change_user, operator, row.id, origin_of(request), **wish)
    except NotConfirmed:
        return prove_first(context, request, f"{USERS}/{row.id}", typed)
    except Refused as refusal:
        return await _user(context, request, typed, faults_of(request, refusal))
    return context.to(request, f"{USERS}/{row.id}?done=saved")


async def _wanted(context: PageContext, request: PageRequest) -> tuple[UserRow, UserRow]:
    operator, wanted = context.operator(request), id_in_path(request, "user_id")
    found = next(
        (row for row in await context.ask(context.services.identity.users) if row.id == wanted), None
    )
    if found is None:
        raise PageMissing
    return operator, found


async def _user(
    context: PageContext, request: PageRequest, typed: Mapping[str, str], faults: Faults
) -> Response:
    _, row = await _wanted(context, request)
    keys = await context.ask(context.services.keys.of, row.id)
    kept = restore_typed(context, request, f"{USERS}/{row.id}")
    page = _page(
        context,
        request,
        "operator/user.html",
        422 if faults else 200,
        person=row,
        since=local_time(request, row.created_ns),
        disabled=local_time(request, row.disabled_ns),
        keys=sum(key.is_live(context.now_ns()) for key in keys),
        typed={"role": row.role, "tier": row.tier, **kept, **typed},
        faults=faults,
        done=done_code(request),
    )
    return delete_typed(request, page)


def _page(context: PageContext, request: PageRequest, template: str, status: int, **values: Any) -> Response:
    roles = {code: request.words(name) for code, name in ROLES.items()}
    return context.page(request, template, status, roles=roles, tiers=TIERS, **values)


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
