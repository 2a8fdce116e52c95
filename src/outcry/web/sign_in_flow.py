"""What all sign-in and confirmation pages share: refusals in words, cookies, and the page to open next.

Pages ask for passwords over HTTPS or on this machine only. Each sign-in and sign-out gives the browser new form tokens
and a new session token. A refused form keeps what was typed, except secrets.
"""

from functools import wraps
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from outcry.base.host_names import is_ip_address, is_loopback_name
from outcry.http.host_names import host_name
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.refusals import Reason, Refused
from outcry.people.service import SecondFactorRequired
from outcry.web.language import later
from outcry.web.page_context import Handler, PageContext, PageRequest, browser_cookie, new_binding, safe_path

#: Ticket of a user whose password was correct and whose second factor is still missing.
HALF_WAY_COOKIE = "outcry-half-way"
_HALF_WAY_S = 300
_SIGNED_IN_S = 90 * 24 * 3600
_LONGEST_NEXT = 2000
_LONGEST_AGENT = 300

#: English; the catalogues translate it.
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
#: More specific texts for single form entries.
_FIELD_REFUSALS = {
    (Reason.WRONG, "password"): later("Wrong password."),
    (Reason.LINK, "token"): later(
        "That token is no longer valid. Each restart of the service creates a new one."
    ),
}


def origin_of(request: PageRequest) -> Origin:
    """Return the sender of a request for the log: IP address and user agent, printable and limited in length."""
    http = request.http
    agent = http.headers.get("user-agent", "")[:_LONGEST_AGENT]
    address = http.client.host if http.client else ""
    agent = "".join(mark if mark.isprintable() else " " for mark in agent)
    return Origin(address, agent, request.secure)


def next_of(request: PageRequest) -> str:
    """Return the path to open after sign-in, which is always on this site."""
    wanted = request.http.query_params.get("next", "/")
    return safe_path(wanted) if len(wanted) <= _LONGEST_NEXT else "/"


def host_of(request: PageRequest) -> str:
    """Return the host name in the request, by which the browser reached this service."""
    return host_name(request.http.headers.get("host", ""))


def site_of(request: PageRequest) -> str:
    """Return the origin (scheme, host and port) that the browser used."""
    url = request.http.url
    return f"{url.scheme}://{url.netloc}"


def passkeys_work(request: PageRequest) -> bool:
    """Return whether passkeys work here. They need a host name, not an IP address, and a private connection."""
    return not is_ip_address(host_of(request)) and _is_private_connection(request)


def _is_private_connection(request: PageRequest) -> bool:
    """Return whether the connection is private: over HTTPS, or from this machine."""
    return request.secure or is_loopback_name(host_of(request))


def private_connection_only(handler: Handler) -> Handler:
    """Wrap a page that asks for secrets: over plain HTTP it only shows how to open it over HTTPS."""

    @wraps(handler)
    async def answer(context: PageContext, request: PageRequest) -> Response:
        if _is_private_connection(request):
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


async def sign_in_browser(
    context: PageContext,
    request: PageRequest,
    outcome: SignedIn | SecondFactorRequired,
    to: str = "/",
    response: Response | None = None,
) -> Response:
    """Sign this browser in and redirect to `to`, or first ask for the second factor.

    An earlier session of the browser ends. `response`: sent instead of the redirect if given.
    """
    if isinstance(outcome, SecondFactorRequired):
        asking = context.to(request, with_next("/sign-in/code", to))
        context.set_cookie(request, asking, HALF_WAY_COOKIE, outcome.ticket, _HALF_WAY_S)
        return _not_cached(asking)
    if request.session is not None:
        await context.ask(context.services.identity.sign_out, request.session, origin_of(request))
    response = response or context.to(request, to)
    context.set_cookie(request, response, browser_cookie(secure=request.secure), new_binding())
    delete_cookie(request, response, HALF_WAY_COOKIE)
    return renew(context, request, outcome.token, response)


def renew(context: PageContext, request: PageRequest, token: str, response: Response) -> Response:
    """Set a new session token in this browser's cookie."""
    context.set_cookie(request, response, context.cookie_name(secure=request.secure), token, _SIGNED_IN_S)
    return _not_cached(response)


def sign_out_browser(context: PageContext, request: PageRequest, to: str = "/") -> Response:
    """Sign this browser out: delete its cookies and redirect."""
    response = context.to(request, to)
    context.set_cookie(request, response, browser_cookie(secure=request.secure), new_binding())
    delete_cookie(request, response, context.cookie_name(secure=request.secure))
    delete_cookie(request, response, HALF_WAY_COOKIE)
    return _not_cached(response)


def delete_cookie(request: PageRequest, response: Response, name: str) -> None:
    """Delete a cookie."""
    response.delete_cookie(name, path="/", secure=request.secure, httponly=True, samesite="lax")


def _not_cached(response: Response) -> Response:
    response.headers["cache-control"] = "no-store"
    return response


def with_next(path: str, to: str) -> str:
    """Return a path with a query parameter `next`, which names the page to open afterwards."""
    return path + next_query(to)


def next_query(to: str) -> str:
    """Return the query part `next=…` for a path; empty for the start page."""
    return "" if to == "/" else f"?next={quote(to, safe='/')}"


def faults_of(request: PageRequest, refusal: Refused) -> dict[str, str]:
    """Return the reason of a refusal in the reader's language, by form field. An empty name means the whole form."""
    text = _FIELD_REFUSALS.get((refusal.reason, refusal.field), _REFUSALS[refusal.reason])
    return {refusal.field: request.words(text)}


def refused(
    context: PageContext, request: PageRequest, template: str, refusal: Refused, /, **values: Any
) -> Response:
    """Render a sign-in form again with its errors. `values`: what was typed, without secrets."""
    often = refusal.reason is Reason.TOO_OFTEN
    response = context.page(
        request, template, 429 if often else 422, secret=True, faults=faults_of(request, refusal), **values
    )
    if often:
        response.headers["retry-after"] = str(max(1, refusal.retry_after_s))
    return response
