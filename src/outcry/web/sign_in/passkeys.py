"""Passkeys (WebAuthn): endpoints for the browser script that signs in, confirms and adds passkeys.

Browsers offer WebAuthn to scripts only, so only these pages need a script. Requests are JSON and pass the same checks
as forms. The response names the next page, always on this site, or gives the reason of a refusal in the reader's
language.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps

import msgspec
from starlette.responses import Response

from outcry.people.refusals import Reason, Refused
from outcry.web.form_input import FormRefused
from outcry.web.page_context import Handler, NotConfirmed, NotSignedIn, Page, PageContext, PageRequest
from outcry.web.sign_in_flow import (
    faults_of,
    host_of,
    next_of,
    origin_of,
    private_connection_only,
    renew,
    sign_in_browser,
    site_of,
    with_next,
)

SECURITY = "/account/security"
ADDING = "/account/security/passkeys"


class Answered(msgspec.Struct, frozen=True):
    """The script's request with the passkey's answer.

    `ticket`: from `Options`. `answer`: WebAuthn JSON from the passkey. `label`: name of a new passkey.
    """

    ticket: str
    answer: msgspec.Raw
    label: str = ""


class Options(msgspec.Struct, frozen=True):
    """Options for a passkey, as the response to the script. `options`: WebAuthn JSON.

    `ticket`: to send with the answer.
    """

    ticket: str
    options: msgspec.Raw


class Onward(msgspec.Struct, frozen=True):
    """Response to the script after a success. `to`: path of the next page."""

    to: str


class Complaint(msgspec.Struct, frozen=True):
    """Response to the script after a refusal. `message`: the reason.

    `to`: path of a page on which the user can solve it.
    """

    message: str
    to: str = ""


def _json(context: PageContext, request: PageRequest, value: msgspec.Struct, status: int = 200) -> Response:
    response = Response(msgspec.json.encode(value), status, media_type="application/json")
    return context.with_page_headers(request, response, secret=True)


def _spoken(handler: Handler) -> Handler:
    """Wrap a handler so that it returns every refusal as a `Complaint`, which the script shows."""

    @wraps(handler)
    async def answer(context: PageContext, request: PageRequest) -> Response:
        try:
            return await handler(context, request)
        except Refused as refusal:
            status = 429 if refusal.reason is Reason.TOO_OFTEN else 422
            return _json(context, request, Complaint(" ".join(faults_of(request, refusal).values())), status)
        except NotSignedIn:
            return _json(context, request, Complaint("", with_next("/sign-in", SECURITY)), 401)
        except NotConfirmed:
            return _json(context, request, Complaint("", with_next("/confirm", ADDING)), 401)
        except FormRefused:
            old = request.words("This page has expired. Reload it.")
            return _json(context, request, Complaint(old), 400)

    return private_connection_only(answer)


async def _answered(context: PageContext, request: PageRequest) -> Answered:
    message = await context.message(request)
    try:
        # Decode to text first: the JSON decoder does not validate UTF-8 inside the raw `answer`.
        return msgspec.json.decode(message.decode(), type=Answered)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FormRefused from None


# -- sign-in


async def sign_in_options(context: PageContext, request: PageRequest) -> Response:
    """Return the options with which the script asks a passkey for a sign-in."""
    await context.message(request)
    options, ticket = await context.ask(context.services.identity.passkey_options, host_of(request))
    return _json(context, request, Options(ticket, msgspec.Raw(options.encode())))


async def sign_in(context: PageContext, request: PageRequest) -> Response:
    """Sign in with a passkey's answer."""
    given = await _answered(context, request)
    came = await context.ask(
        context.services.identity.passkey_sign_in,
        given.ticket,
        bytes(given.answer).decode(),
        host_of(request),
        site_of(request),
        origin_of(request),
    )
    next_query = _json(context, request, Onward(next_of(request)))
    return await sign_in_browser(context, request, came, response=next_query)


# -- confirmation


async def confirm_options(context: PageContext, request: PageRequest) -> Response:
    """Return the options with which the script asks the signed-in user's passkeys for a confirmation."""
    context.user(request)
    return await sign_in_options(context, request)


async def confirm(context: PageContext, request: PageRequest) -> Response:
    """Confirm the user's identity with a passkey's answer."""
    context.user(request)
    assert request.session is not None
    given = await _answered(context, request)
    token = await context.ask(
        context.services.identity.passkey_confirm,
        request.session,
        given.ticket,
        bytes(given.answer).decode(),
        host_of(request),
        site_of(request),
        origin_of(request),
    )
    return renew(context, request, token, _json(context, request, Onward(next_of(request))))


# -- add a passkey


async def new_options(context: PageContext, request: PageRequest) -> Response:
    """Return the options with which the script creates a passkey."""
    user = context.confirmed(request)
    await context.message(request)
    options, ticket = await context.ask(context.services.identity.new_passkey_options, user, host_of(request))
    return _json(context, request, Options(ticket, msgspec.Raw(options.encode())))


async def add(context: PageContext, request: PageRequest) -> Response:
    """Store the new passkey."""
    user = context.confirmed(request)
    given = await _answered(context, request)
    await context.ask(
        context.services.identity.add_passkey,
        user,
        given.ticket,
        bytes(given.answer).decode(),
        given.label.strip()[:60],
        host_of(request),
        site_of(request),
        origin_of(request),
    )
    return _json(context, request, Onward(ADDING))


_TALK: Sequence[tuple[str, Callable[[PageContext, PageRequest], Awaitable[Response]]]] = (
    ("/sign-in/passkey/options", sign_in_options),
    ("/sign-in/passkey", sign_in),
    ("/confirm/passkey/options", confirm_options),
    ("/confirm/passkey", confirm),
    ("/account/security/passkeys/options", new_options),
    ("/account/security/passkeys/new", add),
)
PAGES: Sequence[Page] = tuple((path, ("POST",), _spoken(handler)) for path, handler in _TALK)
