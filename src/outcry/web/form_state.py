"""What a form must remember between two pages: what the user typed, or a secret that the next page shows once.

Typed entries are kept while the user confirms their identity. The service stores none of this. It travels in encrypted
cookies: typed entries are bound to the user, a secret to the session. A secret expires after two minutes and is shown
once. The service records that it was shown, so a reload shows nothing, whatever cookie is sent.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from outcry.market.units import NANOS_PER_SECOND
from outcry.people.tickets import Tickets
from outcry.web.page_context import NotSignedIn, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import delete_cookie, with_next

TYPED_COOKIE = "outcry-typed"
SECRET_COOKIE = "outcry-once"  # noqa: S105 - a cookie's name
_TYPED_S = 15 * 60
_SECRET_S = 2 * 60
#: Name of the id of a secret among the encrypted values.
_NUMBER = "number"
#: Browsers limit a cookie to 4096 bytes, including its name and attributes.
_MOST_COOKIE = 3800
#: Ids are 32-bit integers in the database.
_MOST_ID = 2**31 - 1
_MOST_DIGITS = 15


def whole_number(text: str) -> int | None:
    """Parse a non-negative integer of at most 15 digits; return None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def id_of(text: str) -> int:
    """Parse an id. Raises `PageMissing` if the text is not a valid id."""
    number = whole_number(text)
    if number is None or not 0 < number <= _MOST_ID:
        raise PageMissing
    return number


def id_in_path(request: PageRequest, name: str) -> int:
    """Return the id in the URL path. Raises `PageMissing` for an invalid one."""
    return id_of(str(request.http.path_params[name]))


def before_in_query(request: PageRequest) -> int | None:
    """Return the query parameter `before`, the id at which a list continues.

    Returns None if it is missing or invalid: the list then starts at its beginning.
    """
    return whole_number(request.http.query_params.get("before", ""))


def done_code(request: PageRequest) -> str:
    """Return the code of the action that redirected to this page. The page shows a notice for codes that it knows."""
    return request.http.query_params.get("done", "")


# -- typed entries


def prove_first(context: PageContext, request: PageRequest, path: str, typed: Mapping[str, str]) -> Response:
    """Redirect to the confirmation or sign-in page, and keep what was typed into the form at `path`, except secrets."""
    response = context.to(request, with_next("/confirm" if request.user else "/sign-in", path))
    lasting_ns = _TYPED_S * NANOS_PER_SECOND
    sealed = _tickets(context).give(_typed_purpose(request, path), lasting_ns, **typed)
    if len(sealed) <= _MOST_COOKIE:
        context.set_cookie(request, response, TYPED_COOKIE, sealed, _TYPED_S)
    return response


def restore_typed(context: PageContext, request: PageRequest, path: str) -> dict[str, str]:
    """Return what was typed into the form at `path` before a confirmation; empty if nothing was."""
    found = _tickets(context).read(_typed_purpose(request, path), request.http.cookies.get(TYPED_COOKIE, ""))
    if found is not None:
        request.http.state.typed_again = True  # the page asks to submit again
    return found or {}


def delete_typed(request: PageRequest, response: Response) -> Response:
    """Delete the cookie that kept the typed entries, which the form now shows again. Return the response."""
    if TYPED_COOKIE in request.http.cookies:
        delete_cookie(request, response, TYPED_COOKIE)
    return response


# -- secrets that are shown once


def redirect_with_secret(
    context: PageContext, request: PageRequest, path: str, secret: Mapping[str, str]
) -> Response:
    """Redirect to the page at `path`, which shows a secret once."""
    response = context.to(request, path)
    values = {**secret, _NUMBER: secrets.token_urlsafe(16)}
    sealed = _tickets(context).give(_secret_purpose(request, path), _SECRET_S * NANOS_PER_SECOND, **values)
    context.set_cookie(request, response, SECRET_COOKIE, sealed, _SECRET_S)
    return response


async def take_secret(context: PageContext, request: PageRequest, path: str) -> dict[str, str] | None:
    """Return the secret for this page and record that it was shown; None if it was shown before or has expired."""
    held = _tickets(context).read(_secret_purpose(request, path), request.http.cookies.get(SECRET_COOKIE, ""))
    if held is None:
        return None
    first = await context.ask(
        context.services.identity.shown_first, held.pop(_NUMBER), _SECRET_S * NANOS_PER_SECOND
    )
    return held if first else None


async def show_once(
    context: PageContext, request: PageRequest, template: str, path: str, back: str, **values: Any
) -> Response:
    """Render the page that shows a secret once; the template receives the secret as `held`.

    Redirects to `back` if the secret is gone.
    """
    context.user(request)
    held = await take_secret(context, request, path)
    if held is None:
        return context.to(request, f"{back}?done=shown")
    return delete_secret(
        request, context.page(request, template, secret=True, held=held, back=back, **values)
    )


def delete_secret(request: PageRequest, response: Response) -> Response:
    """Delete the cookie with the secret that was shown."""
    delete_cookie(request, response, SECRET_COOKIE)
    return response


def _tickets(context: PageContext) -> Tickets:
    return Tickets(context.services.form_secret, context.services.clock)


def _typed_purpose(request: PageRequest, path: str) -> str:
    """Return the text that binds the encrypted cookie with typed entries to a form and the user.

    It is bound to the user, not the session, because a sign-in may have changed the session since.
    """
    session = request.session or request.lapsed
    if session is None:
        raise NotSignedIn
    return f"typed:{path}:{session.user_id}"


def _secret_purpose(request: PageRequest, path: str) -> str:
    """Return the text that binds the encrypted cookie with a secret to its page and session.

    It is the session that created the secret.
    """
    if request.session is None:
        raise NotSignedIn
    return f"once:{path}:{request.session.id}"
