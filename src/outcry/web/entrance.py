"""The entrance: what the pages have in common on which somebody comes in, or proves anew who it is.

Rules kept: a password is asked for only where nobody on the way can read it; a browser that comes in, or goes out, is
tied to new forms and a new token; a refusal keeps what was typed, but for secrets.
"""

from functools import wraps
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from outcry.http.host_names import host_name, is_ip_address, is_loopback_name
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.refusals import Reason, Refused
from outcry.people.service import SecondFactorRequired
from outcry.web.language import later
from outcry.web.page_context import Handler, PageContext, PageRequest, browser_cookie, new_binding, safe_path

#: The ticket of somebody whose password was right and whose second factor is still wanted.
HALF_WAY_COOKIE = "outcry-half-way"
_HALF_WAY_S = 300
_SIGNED_IN_S = 90 * 24 * 3600
_LONGEST_NEXT = 2000
_LONGEST_AGENT = 300

#: English, as the catalogues know it.
_REFUSALS = {
    Reason.WRONG: later("Wrong email address or password."),
    Reason.LINK: later(
        "This link or token is no longer valid. It was used, has expired, or was requested in "
        "another browser."
    ),
    Reason.TOO_OFTEN: later("Too many attempts. Wait a minute and try again."),
    Reason.DISABLED: later("This account is disabled. Ask the operator to enable it."),
    Reason.CHANGED: later("Your sign-in details were changed in the meantime. Please sign in again."),
    Reason.EMAIL_TAKEN: later("An account with this email address already exists."),
    Reason.EMAIL_FORM: later("Enter an email address such as ann@example.com, without accents before the @."),
    Reason.PASSWORD_SHORT: later("Use at least 12 characters."),
    Reason.PASSWORD_LONG: later("Use at most 256 characters."),
    Reason.PASSWORD_COMMON: later(
        "This password is too easy to guess: it is common, or contains your email address or "
        "this service's name."
    ),
    Reason.SET_UP: later("This service is already set up. Sign in instead."),
    Reason.NO_MAIL: later("This service has no mail server."),
    Reason.MAIL_FAILED: later(
        "The email could not be sent. Try again later. The operator can find the reason in the log."
    ),
    Reason.LAST_WAY_IN: later("This is your only sign-in method. Add another one first."),
    Reason.LAST_OPERATOR: later(
        "The service needs at least one operator. Make another user an operator first."
    ),
    Reason.PASSKEY: later("The passkey was not accepted. Try again, or sign in another way."),
    Reason.CODE: later(
        "Wrong or expired code. Codes change every 30 seconds and work once. Enter the next one."
    ),
    Reason.NOT_INVITED: later("No account has this email address. Ask the operator for an invitation."),
    Reason.SIGN_IN_SERVICE: later(
        "The sign-in service did not confirm your identity. Try again, or sign in another way."
    ),
    Reason.CODE_TOO: later(
        "Two-factor authentication is on, so the sign-in service alone is not enough. Use your "
        "password and a code, or a passkey. Or sign out and sign in again."
    ),
}
#: What says more at one entry of a form.
_THERE = {
    (Reason.WRONG, "password"): later("Wrong password."),
    (Reason.LINK, "token"): later(
        "That token is no longer valid. Each restart of the service creates a new one."
    ),
}


def origin_of(request: PageRequest) -> Origin:
    """Where a request comes from, as it is kept: printable, and no longer than it has to be."""
    http = request.http
    agent = http.headers.get("user-agent", "")[:_LONGEST_AGENT]
    address = http.client.host if http.client else ""
    agent = "".join(mark if mark.isprintable() else " " for mark in agent)
    return Origin(address, agent, request.secure)


def next_of(request: PageRequest) -> str:
    """Where to go once signed in: a path of ours, whatever the address said."""
    wanted = request.http.query_params.get("next", "/")
    return safe_path(wanted) if len(wanted) <= _LONGEST_NEXT else "/"


def host_of(request: PageRequest) -> str:
    """The name the browser used for this service."""
    return host_name(request.http.headers.get("host", ""))


def site_of(request: PageRequest) -> str:
    """Scheme, name and port, as a browser writes an origin."""
    url = request.http.url
    return f"{url.scheme}://{url.netloc}"


def passkeys_work(request: PageRequest) -> bool:
    """Whether passkeys can be used under this name: they belong to a name, not to a number."""
    return not is_ip_address(host_of(request)) and _private_line(request)


def _private_line(request: PageRequest) -> bool:
    """Whether nobody on the way can read along: https, or this very machine."""
    return request.secure or is_loopback_name(host_of(request))


def guarded(handler: Handler) -> Handler:
    """Keep a page that asks for secrets from being used over an open line; it says what to do instead."""

    @wraps(handler)
    async def answer(context: PageContext, request: PageRequest) -> Response:
        if _private_line(request):
            return await handler(context, request)
        public = context.services.public_url
        status = 200 if request.http.method in ("GET", "HEAD") else 403
        return context.page(
            request,
            "signin/open_line.html",
            status,
            public_url=public if public.startswith("https://") else "",
            port=request.http.url.port or 80,
        )

    return answer


# -- cookies


async def let_in(
    context: PageContext,
    request: PageRequest,
    came: SignedIn | SecondFactorRequired,
    to: str = "/",
    response: Response | None = None,
) -> Response:
    """Sign this browser in and go on; where a second factor is wanted, ask for it first. Who was signed in here before
    no longer is. `response`: to go on in another way than by a redirect."""
    if isinstance(came, SecondFactorRequired):
        asking = context.to(request, with_next("/sign-in/code", to))
        context.set_cookie(request, asking, HALF_WAY_COOKIE, came.ticket, _HALF_WAY_S)
        return _unkept(asking)
    if request.session is not None:
        await context.ask(context.services.identity.sign_out, request.session, origin_of(request))
    response = response or context.to(request, to)
    context.set_cookie(request, response, browser_cookie(secure=request.secure), new_binding())
    forget(request, response, HALF_WAY_COOKIE)
    return renew(context, request, came.token, response)


def renew(context: PageContext, request: PageRequest, token: str, response: Response) -> Response:
    """Give this browser the token it goes by from now on."""
    context.set_cookie(request, response, context.cookie_name(secure=request.secure), token, _SIGNED_IN_S)
    return _unkept(response)


def let_out(context: PageContext, request: PageRequest, to: str = "/") -> Response:
    """Forget who this browser was."""
    response = context.to(request, to)
    context.set_cookie(request, response, browser_cookie(secure=request.secure), new_binding())
    forget(request, response, context.cookie_name(secure=request.secure))
    forget(request, response, HALF_WAY_COOKIE)
    return _unkept(response)


def forget(request: PageRequest, response: Response, name: str) -> None:
    """Have the browser give a cookie up."""
    response.delete_cookie(name, path="/", secure=request.secure, httponly=True, samesite="lax")


def _unkept(response: Response) -> Response:
    response.headers["cache-control"] = "no-store"
    return response


def with_next(path: str, to: str) -> str:
    """An address that leads on to another."""
    return path + onward(to)


def onward(to: str) -> str:
    """The end of such an address; nothing where it leads to the first page anyway."""
    return "" if to == "/" else f"?next={quote(to, safe='/')}"


def faults_of(request: PageRequest, refusal: Refused) -> dict[str, str]:
    """A refusal in the reader's words, by the entry it is about; by the empty name where it is about none."""
    text = _THERE.get((refusal.reason, refusal.field), _REFUSALS[refusal.reason])
    return {refusal.field: request.words(text)}


def refused(
    context: PageContext, request: PageRequest, template: str, refusal: Refused, /, **values: Any
) -> Response:
    """The form once more, with what is wrong. `values`: what was typed, but for secrets."""
    often = refusal.reason is Reason.TOO_OFTEN
    response = context.page(
        request, template, 429 if often else 422, secret=True, faults=faults_of(request, refusal), **values
    )
    if often:
        response.headers["retry-after"] = str(max(1, refusal.retry_after_s))
    return response
