"""Passkeys: what the browser's script and the service say to each other. A browser speaks of passkeys only to scripts,
so these are the only pages that need one.

Rules kept: a script's message is taken under the rules of a form; where it leads is said in the answer, and is a page
of ours; a refusal is worded here, in the reader's language.
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
    """What a browser answers: `ticket` as given with the options, `answer` as the passkey gave it."""

    ticket: str
    answer: msgspec.Raw
    label: str = ""


class Options(msgspec.Struct, frozen=True):
    """What a browser is to ask a passkey. `options`: JSON of WebAuthn."""

    ticket: str
    options: msgspec.Raw


class Onward(msgspec.Struct, frozen=True):
    """Where to go now."""

    to: str


class Complaint(msgspec.Struct, frozen=True):
    """Why not, in words. `to`: where to go to do something about it."""

    message: str
    to: str = ""


def _json(context: PageContext, request: PageRequest, value: msgspec.Struct, status: int = 200) -> Response:
    response = Response(msgspec.json.encode(value), status, media_type="application/json")
    return context.with_page_headers(request, response, secret=True)


def _spoken(handler: Handler) -> Handler:
    """Answer a script, whatever happens, with something it can show or go to."""

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
        # As text first: what is passed on unread, `answer`, is not looked at by the decoder.
        return msgspec.json.decode(message.decode(), type=Answered)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FormRefused from None


# -- coming in


async def sign_in_options(context: PageContext, request: PageRequest) -> Response:
    """What to ask a passkey to sign in with it."""
    await context.message(request)
    options, ticket = await context.ask(context.services.identity.passkey_options, host_of(request))
    return _json(context, request, Options(ticket, msgspec.Raw(options.encode())))


async def sign_in(context: PageContext, request: PageRequest) -> Response:
    """Sign in with what it answered."""
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


# -- proving it anew


async def confirm_options(context: PageContext, request: PageRequest) -> Response:
    """What to ask a passkey of this user's."""
    context.user(request)
    return await sign_in_options(context, request)


async def confirm(context: PageContext, request: PageRequest) -> Response:
    """Take what it answered for a proof."""
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


# -- a new one


async def new_options(context: PageContext, request: PageRequest) -> Response:
    """What to ask a browser to make a passkey."""
    user = context.confirmed(request)
    await context.message(request)
    options, ticket = await context.ask(context.services.identity.new_passkey_options, user, host_of(request))
    return _json(context, request, Options(ticket, msgspec.Raw(options.encode())))


async def add(context: PageContext, request: PageRequest) -> Response:
    """Keep the one it made."""
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
