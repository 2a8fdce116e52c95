"""Webhook subscriptions: `/account/webhooks`. Create, change, pause, remove.

A saved URL is never shown again, so an empty URL field leaves it unchanged. Changing where alerts go needs a recent
confirmation of identity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from starlette.responses import Response

from outcry.delivery.model import AttemptRow, SubscriptionRow, Target
from outcry.delivery.subscriptions import Made, NoSubscription, SubscriptionRefused, Wish
from outcry.people.audit import Event
from outcry.people.model import UserRow
from outcry.web.account.deliveries import outcome_words
from outcry.web.account.delivery_health import Health, health_of
from outcry.web.account.webhook_confirming import ask_reader
from outcry.web.account.webhook_forms import refusal_words, typed_in, wish_of
from outcry.web.account.webhook_page import (
    LIST,
    ONE,
    TooOften,
    asked,
    asked_of_others,
    back_to_webhook,
    note,
    one,
    own,
    page,
    typed_of,
    with_retry_after,
)
from outcry.web.dates import LocalTime, local_time
from outcry.web.form_state import (
    delete_typed,
    done_code,
    id_in_path,
    prove_first,
    redirect_with_secret,
    restore_typed,
)
from outcry.web.page_context import NotProved, Page, PageContext, PageRequest

P = ParamSpec("P")
T = TypeVar("T")

NEW = f"{LIST}/new"
#: Host names to resolve per user and minute. Chat webhooks are exempt, because their hosts are fixed.
_HOSTS = 10
#: Default values of a new webhook.
_USUAL = {
    "address": "", "label": "", "symbols": "", "min_severity": "info", "ordered": "", "window": "hour",
    "at_once": "yes",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listed:
    """A webhook in the list. `last`: its last delivery attempt, made at `at`; `outcome`: the outcome in words."""

    row: SubscriptionRow
    health: Health
    last: AttemptRow | None
    outcome: str
    at: LocalTime | None


async def list_webhooks(context: PageContext, request: PageRequest) -> Response:
    """List the user's webhooks."""
    user, subscriptions = context.user(request), context.services.subscriptions

    def look() -> list[Listed]:
        found: list[Listed] = []
        for row in subscriptions.of(user.id):
            try:
                health = health_of(context, request, row)
            except NoSubscription:  # removed in the meantime
                continue
            last = next(iter(subscriptions.attempts(user.id, row.id, None, 1)), None)
            outcome = outcome_words(request.words, last) if last else ""
            found.append(
                Listed(row, health, last, outcome, local_time(request, last.at_ns if last else None))
            )
        return found

    return page(
        context, request, "account/webhooks.html", webhooks=await context.ask(look), done=done_code(request)
    )


# -- create


async def new_webhook(context: PageContext, request: PageRequest) -> Response:
    """Show the form for a new webhook."""
    context.confirmed(request)
    typed = {**_USUAL, **_asked_for(context, request), **restore_typed(context, request, NEW)}
    return delete_typed(request, page(context, request, "account/webhook_new.html", typed=typed, faults={}))


def _asked_for(context: PageContext, request: PageRequest) -> dict[str, str]:
    """Return initial form values from the query string: the kind of target, and possibly a URL.

    Only the URL of the demo's receiver is accepted. A link on another site must not choose where a user's alerts go.
    """
    query, sink = request.http.query_params, context.services.sink
    target, address = query.get("target", ""), query.get("address", "")
    return {
        "target": target if target in set(Target) else Target.HTTPS.value,
        "address": address if sink is not None and address == sink.address else "",
    }


async def make_webhook(context: PageContext, request: PageRequest) -> Response:
    """Create a webhook; its signing secret is shown once."""
    context.sender(request)
    typed, faults = await typed_in(context, request)
    try:
        user = context.confirmed(request)
    except NotProved:
        return prove_first(context, request, NEW, typed)
    wish = wish_of(context, typed, faults, request.words)
    if wish is not None:
        try:
            made = await _judged(
                context, user, wish, context.services.subscriptions.add, user.id, wish, context.now_ns()
            )
        except SubscriptionRefused as refusal:
            faults[refusal.field] = refusal_words(request.words, refusal)
        except TooOften as often:
            faults[""] = _too_often(request)
            refused = page(context, request, "account/webhook_new.html", typed=typed, faults=faults)
            return with_retry_after(refused, often.wait_s)
        else:
            kept = await asked(context, context.services.subscriptions.one, user.id, made.id)
            await note(context, request, user, Event.SUBSCRIPTION_CREATED, kept)
            return _made(context, request, made, await ask_reader(context, request, kept))
    return page(context, request, "account/webhook_new.html", 422, typed=typed, faults=faults)


async def _judged(
    context: PageContext, user: UserRow, wish: Wish, save: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Save a webhook with `save`. If it has a new URL or email address, do so in the background.

    Checking the new one takes time, because its host name must be resolved.
    """
    if not wish.address:
        return await asked(context, save, *args, **kwargs)
    counted = ("host", _HOSTS) if wish.target is Target.HTTPS else None
    return await asked_of_others(context, user, counted, save, *args, **kwargs)


def _too_often(request: PageRequest) -> str:
    return request.words("Not saved: too many of your URLs are being checked at once. Try again in a moment.")


def _made(context: PageContext, request: PageRequest, made: Made, mail: str | None) -> Response:
    """Redirect to the new webhook, or first to the page with its signing secret.

    `mail`: result of asking the recipient for consent, if it is an email digest.
    """
    place, done = f"{LIST}/{made.id}", mail or _done(made.verdict, "made")
    if made.secret is None:
        return context.to(request, f"{place}?done={done}")
    return redirect_with_secret(context, request, f"{place}/secret", {"secret": made.secret, "done": done})


def _done(verdict: str, done: str) -> str:
    return "unverified" if verdict == "unverified" else done


# -- one webhook


async def show_webhook(context: PageContext, request: PageRequest) -> Response:
    """Show a webhook and its actions."""
    _, row = await own(context, request)
    kept = restore_typed(context, request, f"{LIST}/{row.id}")
    typed = {**typed_of(row), **kept, "target": row.target.value}
    return delete_typed(request, await one(context, request, row, typed, {}))


async def change_webhook(context: PageContext, request: PageRequest) -> Response:
    """Change a webhook; an empty URL keeps the saved one."""
    context.sender(request)
    typed, faults = await typed_in(context, request)
    try:
        user, row = await own(context, request)
        context.confirmed(request)
    except NotProved:
        return prove_first(context, request, f"{LIST}/{id_in_path(request, 'webhook_id')}", typed)
    typed["target"] = row.target.value
    wish = wish_of(context, typed, faults, request.words)
    if wish is not None:
        try:
            change = context.services.subscriptions.change
            changed = await _judged(context, user, wish, change, user.id, row.id, wish)
        except SubscriptionRefused as refusal:
            faults[refusal.field] = refusal_words(request.words, refusal)
        except TooOften as often:
            faults[""] = _too_often(request)
            return with_retry_after(await one(context, request, row, typed, faults), often.wait_s)
        else:
            row = changed.row
            await note(context, request, user, Event.SUBSCRIPTION_CHANGED, row)
            mail = await ask_reader(context, request, row) if wish.address else None
            return context.to(request, f"{LIST}/{row.id}?done={mail or _done(changed.verdict, 'saved')}")
    return await one(context, request, row, typed, faults)


async def pause_webhook(context: PageContext, request: PageRequest) -> Response:
    """Pause a webhook."""
    return await _move(
        context, request, context.services.subscriptions.pause, Event.SUBSCRIPTION_PAUSED, "paused"
    )


async def resume_webhook(context: PageContext, request: PageRequest) -> Response:
    """Resume a webhook. A webhook that was disabled must pass a test first."""
    return await _move(
        context, request, context.services.subscriptions.resume, Event.SUBSCRIPTION_RESUMED, "resumed"
    )


async def _move(
    context: PageContext, request: PageRequest, move: Callable[[int, int], bool], event: Event, done: str
) -> Response:
    """Pause or resume a webhook and log it in the user's activity log, unless nothing changes."""
    user, row = await own(context, request)
    await context.form(request)
    if not await asked(context, move, user.id, row.id):
        return context.to(request, f"{LIST}/{row.id}")
    await note(context, request, user, event, row)
    return context.to(request, f"{LIST}/{row.id}?done={done}")


async def ask_remove(context: PageContext, request: PageRequest) -> Response:
    """Ask for confirmation before removing a webhook."""
    _, row = await own(context, request)
    return context.page(request, "account/webhook_remove.html", webhook=row)


async def remove_webhook(context: PageContext, request: PageRequest) -> Response:
    """Remove a webhook and its delivery log."""
    user, row = await own(context, request)
    await context.form(request)
    await asked(context, context.services.subscriptions.remove, user.id, row.id)
    await note(context, request, user, Event.SUBSCRIPTION_REMOVED, row)
    return context.to(request, f"{LIST}?done=removed")


PAGES: Sequence[Page] = (
    (LIST, ("GET",), list_webhooks),
    (NEW, ("GET",), new_webhook),
    (LIST, ("POST",), make_webhook),
    (ONE, ("GET",), show_webhook),
    (ONE, ("POST",), change_webhook),
    (f"{ONE}/remove", ("GET",), ask_remove),
    (f"{ONE}/remove", ("POST",), remove_webhook),
    (f"{ONE}/pause", ("POST",), pause_webhook),
    (f"{ONE}/resume", ("POST",), resume_webhook),
    *((f"{ONE}/{form}", ("GET",), back_to_webhook) for form in ("pause", "resume")),
)
