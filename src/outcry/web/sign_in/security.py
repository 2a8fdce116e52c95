"""How one signs in, and which browsers are signed in: `/account/security`.

Rules kept: whoever looks is told what is in force; whoever changes a way in has proved within ten minutes who it is,
before typing anything. A browser can be signed out without that: it may be urgent.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.people.refusals import Refused
from outcry.web.dates import moment
from outcry.web.entrance import guarded, origin_of, passkeys_work, refused, secret_in
from outcry.web.forms import forget_typed, id_of, note_of, prove_first, typed_before
from outcry.web.language import later
from outcry.web.page_context import Desk, NotProved, Page, PageMissing, Visit, said
from outcry.web.user_agents import device

_HERE = "/account/security"
_EMAIL = f"{_HERE}/email"
#: What was just done, by what a page that did it adds to the address: said once, at the top.
_DONE = {
    "password": later("Password changed. You are signed out of all other browsers."),
    "passkey-removed": later("Passkey removed."),
    "totp-off": later("Two-factor authentication is off."),
    "email": later("We sent a link to the new email address. The change takes effect when you open it."),
    "session": later("Browser signed out."),
    "sessions": later("All other browsers signed out."),
}


async def show(desk: Desk, visit: Visit) -> Response:
    """Everything about coming in, and every browser that has."""
    user = desk.user(visit)
    identity = desk.services.identity
    passkeys = await desk.ask(identity.passkeys, user)
    codes_left = await desk.ask(identity.recovery_codes_left, user)
    sessions = await desk.ask(identity.sessions, user)
    here = visit.session.id if visit.session else 0
    done = _DONE.get(note_of(visit), "")
    return desk.page(
        visit,
        "security/security.html",
        done=visit.words(done) if done else "",
        user=user,
        passkeys=passkeys,
        passkeys_work=passkeys_work(visit),
        codes_left=codes_left,
        mail=identity.mail_works(),
        sessions=[
            {
                "id": row.id,
                "device": device(visit.words, row.agent),
                "address": row.address,
                "began": moment(visit, row.created_ns),
                "seen": moment(visit, row.seen_ns),
                "here": row.id == here,
            }
            for row in sessions
        ],
    )


async def end_sessions(desk: Desk, visit: Visit) -> Response:
    """Sign out one browser, or all others."""
    user = desk.user(visit)
    assert visit.session is not None
    form = await desk.form(visit)
    identity = desk.services.identity
    if "others" in form:
        await desk.ask(identity.end_other_sessions, user, visit.session, origin_of(visit))
        return desk.to(visit, f"{_HERE}?done=sessions")
    number = id_of(form.get("session", ""))
    await desk.ask(identity.end_session, user, number, origin_of(visit))
    return desk.to(visit, f"{_HERE}?done=session")


async def back(desk: Desk, visit: Visit) -> Response:
    """Where somebody is sent who had to sign in before ending a session."""
    return desk.to(visit, _HERE)


async def password_form(desk: Desk, visit: Visit) -> Response:
    """Where a new password is chosen."""
    user = desk.confirmed(visit)
    return desk.page(visit, "security/password.html", secret=True, faults={}, user=user)


async def password(desk: Desk, visit: Visit) -> Response:
    """Choose it."""
    user = desk.confirmed(visit)
    assert visit.session is not None
    form = await desk.form(visit)
    try:
        await desk.ask(
            desk.services.identity.change_password,
            user,
            visit.session,
            secret_in(form, "password"),
            origin_of(visit),
        )
    except Refused as refusal:
        return refused(desk, visit, "security/password.html", refusal, user=user)
    return desk.to(visit, f"{_HERE}?done=password")


async def email_form(desk: Desk, visit: Visit) -> Response:
    """Where another address is asked for."""
    user = desk.confirmed(visit)
    if not desk.services.identity.mail_works():
        raise PageMissing
    typed = typed_before(desk, visit, _EMAIL).get("email", "")
    return forget_typed(visit, desk.page(visit, "security/email.html", faults={}, user=user, email=typed))


async def email(desk: Desk, visit: Visit) -> Response:
    """Mail a link to it."""
    desk.sender(visit)
    form = await desk.form(visit)
    typed = said(form, "email")
    try:
        user = desk.confirmed(visit)
    except NotProved:  # ten minutes went by while it was typed
        return prove_first(desk, visit, _EMAIL, {"email": typed})
    try:
        await desk.ask(desk.services.identity.begin_email, user, typed, origin_of(visit))
    except Refused as refusal:
        return refused(desk, visit, "security/email.html", refusal, user=user, email=typed)
    return desk.to(visit, f"{_HERE}?done=email")


PAGES: Sequence[Page] = (
    (_HERE, ("GET",), show),
    (f"{_HERE}/sessions", ("GET",), back),
    (f"{_HERE}/sessions", ("POST",), end_sessions),
    (f"{_HERE}/password", ("GET",), guarded(password_form)),
    (f"{_HERE}/password", ("POST",), guarded(password)),
    (_EMAIL, ("GET",), guarded(email_form)),
    (_EMAIL, ("POST",), guarded(email)),
)
