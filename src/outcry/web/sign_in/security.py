"""Security settings: `/account/security`. Password, email address, sign-in methods and signed-in browsers.

To change a sign-in method, the user must have confirmed their identity within the last ten minutes; the page asks for
this before it shows the form. Signing out a browser needs no confirmation, because it may be urgent.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.people.refusals import Refused
from outcry.web.dates import local_time
from outcry.web.form_state import delete_typed, done_code, id_of, prove_first, restore_typed
from outcry.web.language import later
from outcry.web.page_context import NotProved, Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import origin_of, passkeys_work, private_connection_only, refused
from outcry.web.user_agents import device

_HERE = "/account/security"
_EMAIL = f"{_HERE}/email"
#: Notice at the top of the page, by the `done` code in the query string.
_DONE = {
    "password": later("Password changed. You are signed out of all other browsers."),
    "passkey-removed": later("Passkey removed."),
    "totp-off": later("Two-factor authentication is off."),
    "email": later("We sent a link to the new email address. The change takes effect when you open it."),
    "session": later("Browser signed out."),
    "sessions": later("All other browsers signed out."),
}


async def show(context: PageContext, request: PageRequest) -> Response:
    """Show sign-in methods and signed-in browsers."""
    user = context.user(request)
    identity = context.services.identity
    passkeys = await context.ask(identity.passkeys, user)
    codes_left = await context.ask(identity.recovery_codes_left, user)
    sessions = await context.ask(identity.sessions, user)
    current_id = request.session.id if request.session else 0
    done = _DONE.get(done_code(request), "")
    return context.page(
        request,
        "security/security.html",
        done=request.words(done) if done else "",
        user=user,
        passkeys=passkeys,
        passkeys_work=passkeys_work(request),
        codes_left=codes_left,
        mail=identity.mail_works(),
        sessions=[
            {
                "id": row.id,
                "device": device(request.words, row.agent),
                "address": row.address,
                "began": local_time(request, row.created_ns),
                "seen": local_time(request, row.seen_ns),
                "here": row.id == current_id,
            }
            for row in sessions
        ],
    )


async def end_sessions(context: PageContext, request: PageRequest) -> Response:
    """Sign out one browser, or all others."""
    user = context.user(request)
    assert request.session is not None
    form = await context.form(request)
    identity = context.services.identity
    if "others" in form:
        await context.ask(identity.end_other_sessions, user, request.session, origin_of(request))
        return context.to(request, f"{_HERE}?done=sessions")
    number = id_of(form.raw("session"))
    await context.ask(identity.end_session, user, number, origin_of(request))
    return context.to(request, f"{_HERE}?done=session")


async def back(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the security settings if a form's URL was opened as a page, for example after a sign-in."""
    return context.to(request, _HERE)


async def password_form(context: PageContext, request: PageRequest) -> Response:
    """Show the form for a new password."""
    user = context.confirmed(request)
    return context.page(request, "security/password.html", secret=True, faults={}, user=user)


async def password(context: PageContext, request: PageRequest) -> Response:
    """Change the password and sign out all other browsers."""
    user = context.confirmed(request)
    assert request.session is not None
    form = await context.form(request)
    try:
        await context.ask(
            context.services.identity.change_password,
            user,
            request.session,
            form.secret("password"),
            origin_of(request),
        )
    except Refused as refusal:
        return refused(context, request, "security/password.html", refusal, user=user)
    return context.to(request, f"{_HERE}?done=password")


async def email_form(context: PageContext, request: PageRequest) -> Response:
    """Show the form for a new email address. Raises `PageMissing` if email is not set up."""
    user = context.confirmed(request)
    if not context.services.identity.mail_works():
        raise PageMissing
    typed = restore_typed(context, request, _EMAIL).get("email", "")
    return delete_typed(
        request, context.page(request, "security/email.html", faults={}, user=user, email=typed)
    )


async def email(context: PageContext, request: PageRequest) -> Response:
    """Email a confirmation link to the new address. The account's address changes when the user follows it."""
    context.sender(request)
    form = await context.form(request)
    typed = form.text("email")
    try:
        user = context.confirmed(request)
    except NotProved:  # the confirmation expired while the user was typing
        return prove_first(context, request, _EMAIL, {"email": typed})
    try:
        await context.ask(context.services.identity.begin_email, user, typed, origin_of(request))
    except Refused as refusal:
        return refused(context, request, "security/email.html", refusal, user=user, email=typed)
    return context.to(request, f"{_HERE}?done=email")


PAGES: Sequence[Page] = (
    (_HERE, ("GET",), show),
    (f"{_HERE}/sessions", ("GET",), back),
    (f"{_HERE}/sessions", ("POST",), end_sessions),
    (f"{_HERE}/password", ("GET",), private_connection_only(password_form)),
    (f"{_HERE}/password", ("POST",), private_connection_only(password)),
    (_EMAIL, ("GET",), private_connection_only(email_form)),
    (_EMAIL, ("POST",), private_connection_only(email)),
)
