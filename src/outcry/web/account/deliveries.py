"""Delivery log of a webhook, shown page by page.

The response of an endpoint is untrusted and is shown as plain text only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlencode

from outcry.answers.alert_phrases import EVENTS
from outcry.delivery.model import AttemptRow, Outcome, SubscriptionPhase, SubscriptionRow
from outcry.web.account.delivery_times import Part, timed
from outcry.web.account.delivery_words import HELD, OUTCOMES, result_words
from outcry.web.as_text import as_seen
from outcry.web.dates import LocalTime, local_time
from outcry.web.form_state import before_in_query
from outcry.web.language import Words
from outcry.web.page_context import PageContext, PageRequest

PER_PAGE = 20
#: Alert type of a test message.
TEST = "webhook-test"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery attempt, as a page shows it.

    - `next`: time of the next attempt, if this is the newest attempt of its message.
    - `alert`: event of the message's first alert.
    - `diagnosis`: why the attempt failed; empty if it succeeded.
    - `times`: duration of each phase.
    - `excerpt`: start of the response, with control characters made visible.
    - `went`: masked URL or email address of this attempt, if the webhook has another one now.
    - `again`: whether the user can resend the message.
    """

    row: AttemptRow
    at: LocalTime | None
    next: LocalTime | None
    alert: str
    diagnosis: str
    times: list[Part]
    excerpt: str
    went: str
    again: bool
    outcome: str


async def deliveries(
    context: PageContext, request: PageRequest, webhook: SubscriptionRow, closed_ns: int
) -> Mapping[str, Any]:
    """Return one page of the delivery log for a template. The query string selects the outcome and the position.

    `closed_ns`: the queue is paused until this time (ns UTC), so no attempt starts before.
    """
    wanted = next((one for one in get_args(Outcome) if one == request.http.query_params.get("outcome")), None)
    before = before_in_query(request)
    rows = await context.ask(
        context.services.subscriptions.attempts, webhook.user_id, webhook.id, before, PER_PAGE + 1, wanted
    )
    shown = rows[:PER_PAGE]
    whole = wanted is None and before is None
    tries = _tries(shown, closed_ns, context.now_ns(), whole=whole) if _sends(webhook) else {}
    return {
        "attempts": [_delivery(request, webhook, row, tries.get(row.id)) for row in shown],
        "filtered": not whole,
        "filters": _filters(request, webhook, wanted),
        "newest": _address(webhook, wanted) if before is not None else None,
        "older": _address(webhook, wanted, shown[-1].id) if len(rows) > PER_PAGE else None,
    }


def _sends(webhook: SubscriptionRow) -> bool:
    return webhook.phase is SubscriptionPhase.ACTIVE


def _tries(shown: Sequence[AttemptRow], closed_ns: int, now_ns: int, *, whole: bool) -> Mapping[int, int]:
    """Return the time of each message's next delivery attempt (ns UTC), by the id of the message's newest attempt.

    Retries that were due in the past are left out, because a newer attempt may exist that is not in `shown`.
    `closed_ns`: end of the queue's pause. `whole`: whether `shown` includes the newest attempts; if so, a retry that
    was due in the past but waits for the end of the pause is included.
    """
    newest = {row.message_id: row for row in reversed(shown)}
    due = [row for row in newest.values() if row.outcome == "pending" and row.next_ns is not None]
    return {
        row.id: max(row.next_ns or 0, closed_ns)
        for row in due
        if (row.next_ns or 0) > now_ns or (whole and closed_ns > now_ns)
    }


def _delivery(
    request: PageRequest, webhook: SubscriptionRow, row: AttemptRow, next_ns: int | None
) -> Delivery:
    words = request.words
    name, test = EVENTS.get(row.alert_type), row.alert_type == TEST
    ended = row.outcome in {"delivered", "dead"}
    return Delivery(
        row=row,
        at=local_time(request, row.at_ns),
        next=local_time(request, next_ns),
        alert=words(name) if name else words("Test") if test else row.alert_type,
        diagnosis=""
        if row.outcome == "delivered"
        else result_words(words, row.code, webhook.target, row.status),
        times=timed(words, row.phases_ms, row.took_ms),
        excerpt=as_seen(row.excerpt),
        went=row.shown if row.shown != webhook.shown else "",
        again=ended and not test and bool(row.message_id) and _sends(webhook),
        outcome=outcome_words(words, row),
    )


def outcome_words(words: Words, row: AttemptRow) -> str:
    """Return the outcome of an attempt in words.

    The outcome `failed` is worded as "on hold" for an alert, but not for a test.
    """
    held = row.outcome == "failed" and row.alert_type != TEST
    outcome = HELD if held else OUTCOMES[row.outcome]
    return words(outcome)


def _filters(
    request: PageRequest, webhook: SubscriptionRow, wanted: Outcome | None
) -> list[tuple[str, str, bool]]:
    chosen = [
        (_address(webhook, one), request.words(OUTCOMES[one]), one == wanted) for one in get_args(Outcome)
    ]
    return [(_address(webhook, None), request.words("All"), wanted is None), *chosen]


def _address(webhook: SubscriptionRow, outcome: Outcome | None, before: int | None = None) -> str:
    asked = {"outcome": outcome, "before": before}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    return f"/account/webhooks/{webhook.id}" + (f"?{query}" if query else "")
