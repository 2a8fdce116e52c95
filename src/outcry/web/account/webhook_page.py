"""Shared functions of the pages of one webhook: access checks, rendering, and the user's activity log.

A webhook of another user gives the same response as one that does not exist. A webhook may be removed in another tab at
any time.
"""

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from starlette.responses import Response

from outcry.delivery.model import SubscriptionRow, Target
from outcry.delivery.subscriptions import NoSubscription
from outcry.people.audit import Event
from outcry.people.model import UserRow
from outcry.web.account.deliveries import deliveries
from outcry.web.account.delivery_health import health_of
from outcry.web.account.delivery_words import (
    ASKED,
    OVERLAPS,
    SEVERITIES,
    TARGETS,
    USUAL_OVERLAP,
    WINDOWS,
    result_words,
)
from outcry.web.account.webhook_forms import offered
from outcry.web.background import TooManyTasks
from outcry.web.dates import local_time
from outcry.web.form_input import Faults
from outcry.web.form_state import done_code, id_in_path, whole_number
from outcry.web.page_context import PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import origin_of

P = ParamSpec("P")
T = TypeVar("T")

LIST = "/account/webhooks"
ONE = f"{LIST}/{{webhook_id}}"


async def own(context: PageContext, request: PageRequest) -> tuple[UserRow, SubscriptionRow]:
    """Return the signed-in user and the user's webhook with the id in the URL path.

    Raises `NotSignedIn`, and `PageMissing` unless the user owns the webhook.
    """
    user, wanted = context.user(request), id_in_path(request, "webhook_id")
    return user, await asked(context, context.services.subscriptions.one, user.id, wanted)


async def asked(context: PageContext, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a database call about a webhook and return its result.

    Raises `PageMissing` if the webhook no longer exists.
    """
    try:
        return await context.ask(work, *args, **kwargs)
    except NoSubscription:
        raise PageMissing from None


class TooOften(Exception):
    """The user made too many requests that make this service contact other hosts.

    `wait_s`: seconds until the next request is allowed; 0 if the user has to wait for a running one.
    """

    def __init__(self, wait_s: int) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


async def asked_of_others(
    context: PageContext, user: UserRow, counted: tuple[str, int] | None, work: Callable[P, T], *args: P.args,
    **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """Run work that contacts other hosts in the background, and return its result.

    `counted`: kind of the work, and how often a user may run it per minute; None if there is no such limit. Raises
    `TooOften`, and `PageMissing` if the webhook no longer exists.
    """
    if counted is not None:
        kind, most = counted
        verdict = await context.counted(f"{kind}:{user.id}", most)
        if not verdict.allowed:
            raise TooOften(-(-verdict.retry_after_ms // 1000))
    try:
        return await context.background.run(user.id, work, *args, **kwargs)
    except NoSubscription:
        raise PageMissing from None
    except TooManyTasks:
        raise TooOften(0) from None


def with_retry_after(response: Response, wait_s: int) -> Response:
    """Set a response's status to 429 and its `retry-after` header to `wait_s`; return the response."""
    response.status_code = 429
    if wait_s:
        response.headers["retry-after"] = str(wait_s)
    return response


async def one(
    context: PageContext, request: PageRequest, row: SubscriptionRow, typed: Mapping[str, str], faults: Faults
) -> Response:
    """Render the page of one webhook.

    `typed`: values in its form. `faults`: errors by form field; the response has status 422 if there are any.
    """
    health = await asked(context, health_of, context, request, row)
    return page(
        context,
        request,
        "account/webhook.html",
        422 if faults else 200,
        webhook=row,
        typed=typed,
        faults=faults,
        done=done_code(request),
        count=whole_number(request.http.query_params.get("count", "")) or 0,
        made=local_time(request, row.created_ns),
        overlap=local_time(request, row.old_until_ns if (row.old_until_ns or 0) > context.now_ns() else None),
        overlaps={code: request.words(text) for code, (_, text) in OVERLAPS.items()},
        usual_overlap=USUAL_OVERLAP,
        asked_words={code: request.words(text) for code, text in ASKED.items()},
        reason_words=result_words(request.words, row.reason, row.target) if row.reason else "",
        health=health,
        **await deliveries(context, request, row, health.closed_ns),
    )


def page(
    context: PageContext, request: PageRequest, template: str, status: int = 200, **values: Any
) -> Response:
    """Render a page about webhooks, with the labels that all of these pages use."""
    return context.page(
        request,
        template,
        status,
        targets={target.value: request.words(name) for target, name in TARGETS.items()},
        severities={code: request.words(name) for code, name in SEVERITIES.items()},
        windows={code: request.words(name) for code, name in WINDOWS.items()},
        offered=offered(context),
        shut=_shut(context, request),
        running=context.services.subscriptions.running,
        sink=context.services.sink,
        **values,
    )


def _shut(context: PageContext, request: PageRequest) -> dict[str, str]:
    """Return the kinds of webhook (HTTPS, email, …) to which this service cannot deliver, each with the reason."""
    return {} if context.services.consent.able else {Target.EMAIL.value: request.words("email not set up")}


def typed_of(row: SubscriptionRow) -> dict[str, str]:
    """Return the values of a stored webhook, to fill its form. The URL is empty, because a saved URL is never shown."""
    return {
        "address": "", "label": row.label, "symbols": " ".join(row.symbols), "min_severity": row.min_severity,
        "ordered": "yes" if row.ordered else "", "window": row.window, "at_once": "yes" if row.at_once else "",
        "target": row.target.value,
    }  # fmt: skip


async def note(
    context: PageContext, request: PageRequest, user: UserRow, event: Event, row: SubscriptionRow, **more: str
) -> None:
    """Record an action in the user's activity log."""
    details = {"label": row.label, "target": row.target.value, "shown": row.shown, **more}
    await context.ask(context.services.identity.note, user, event, origin_of(request), **details)


async def back_to_webhook(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the webhook's page if a form's URL was opened as a page."""
    return context.to(request, f"{LIST}/{id_in_path(request, 'webhook_id')}")
