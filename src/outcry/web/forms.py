"""What the forms of the account pages share: entries read, what was typed kept across a confirmation, and a secret on
its way from the form that made it to the page that shows it once.

Rules kept: nothing of this is kept by the service: it travels with the browser, sealed to its user, a secret to its
session. A secret is good for two minutes and once: that it was shown is noted, so a page loaded again does not hold it,
whatever cookie is sent, and does not make another.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from outcry.market.units import NANOS_PER_SECOND
from outcry.people.tickets import Tickets
from outcry.web.entrance import forget, with_next
from outcry.web.page_context import NotSignedIn, PageContext, PageMissing, PageRequest

TYPED_COOKIE = "outcry-typed"
SECRET_COOKIE = "outcry-once"  # noqa: S105 - a cookie's name
_TYPED_S = 15 * 60
_SECRET_S = 2 * 60
#: What a secret on its way is known by, among what is sealed with it.
_NUMBER = "number"
#: What a browser keeps of one cookie, its name and attributes taken off.
_MOST_COOKIE = 3800
#: Ids are counted by a database that keeps them in 32 bits, or 64.
_MOST_ID = 2**31 - 1
_MOST_DIGITS = 15


def whole(text: str) -> int | None:
    """A whole number as programs write it, not longer than a store counts; None of what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def id_of(text: str) -> int:
    """The number something is known by. Raises `PageMissing` for one that nothing can have."""
    number = whole(text)
    if number is None or not 0 < number <= _MOST_ID:
        raise PageMissing
    return number


def number_in(request: PageRequest, name: str) -> int:
    """A number of the address. Raises `PageMissing` for one that nothing can have."""
    return id_of(str(request.http.path_params[name]))


def before_in(request: PageRequest) -> int | None:
    """From where a list goes on; None: from its beginning, also where the address says what cannot be."""
    return whole(request.http.query_params.get("before", ""))


def note_of(request: PageRequest) -> str:
    """What was done on the way to this page, as a code the page has words for, or not."""
    return request.http.query_params.get("done", "")


# -- what was typed


def prove_first(context: PageContext, request: PageRequest, path: str, typed: Mapping[str, str]) -> Response:
    """Have this user confirmed, or signed in again, and bring what was typed, without secrets, back to the form at
    `path`."""
    response = context.to(request, with_next("/confirm" if request.user else "/sign-in", path))
    lasting_ns = _TYPED_S * NANOS_PER_SECOND
    sealed = _tickets(context).give(_typed_place(request, path), lasting_ns, **typed)
    if len(sealed) <= _MOST_COOKIE:
        context.set_cookie(request, response, TYPED_COOKIE, sealed, _TYPED_S)
    return response


def typed_before(context: PageContext, request: PageRequest, path: str) -> dict[str, str]:
    """What was typed into the form at `path` before its user was confirmed; empty where nothing was."""
    found = _tickets(context).read(_typed_place(request, path), request.http.cookies.get(TYPED_COOKIE, ""))
    if found is not None:
        request.http.state.typed_again = True  # the page says that the button is to be pressed once more
    return found or {}


def forget_typed(request: PageRequest, response: Response) -> Response:
    """It stands in the form again: the browser need not keep it."""
    if TYPED_COOKIE in request.http.cookies:
        forget(request, response, TYPED_COOKIE)
    return response


# -- what is shown once


def hand_over(context: PageContext, request: PageRequest, path: str, secret: Mapping[str, str]) -> Response:
    """On to the page at `path`, which shows a secret once."""
    response = context.to(request, path)
    values = {**secret, _NUMBER: secrets.token_urlsafe(16)}
    sealed = _tickets(context).give(_once_place(request, path), _SECRET_S * NANOS_PER_SECOND, **values)
    context.set_cookie(request, response, SECRET_COOKIE, sealed, _SECRET_S)
    return response


async def handed_over(context: PageContext, request: PageRequest, path: str) -> dict[str, str] | None:
    """The secret this page is to show, which from now on was shown; None where it was before or is too old."""
    held = _tickets(context).read(_once_place(request, path), request.http.cookies.get(SECRET_COOKIE, ""))
    if held is None:
        return None
    first = await context.ask(
        context.services.identity.shown_first, held.pop(_NUMBER), _SECRET_S * NANOS_PER_SECOND
    )
    return held if first else None


async def show_once(
    context: PageContext, request: PageRequest, template: str, path: str, back: str, **values: Any
) -> Response:
    """The page at `path` with the secret handed over to it as `held`; back to where it came from where there is none
    any more."""
    context.user(request)
    held = await handed_over(context, request, path)
    if held is None:
        return context.to(request, f"{back}?done=shown")
    return forget_secret(
        request, context.page(request, template, secret=True, held=held, back=back, **values)
    )


def forget_secret(request: PageRequest, response: Response) -> Response:
    """It was shown: the browser gives it up."""
    forget(request, response, SECRET_COOKIE)
    return response


def _tickets(context: PageContext) -> Tickets:
    return Tickets(context.services.form_secret, context.services.clock)


def _typed_place(request: PageRequest, path: str) -> str:
    """What was typed belongs to its user, who may have signed in again meanwhile."""
    session = request.session or request.lapsed
    if session is None:
        raise NotSignedIn
    return f"typed:{path}:{session.user_id}"


def _once_place(request: PageRequest, path: str) -> str:
    """A secret belongs to the session it was made in."""
    if request.session is None:
        raise NotSignedIn
    return f"once:{path}:{request.session.id}"
