"""Webhook subscriptions: `/account/webhooks`. Made, changed, tested, paused, removed.

Rules kept: an address is not given back once it is saved, and an entry left empty keeps it; where alerts go is changed
only by a user who has just proved who it is; somebody else's subscription is one that does not exist.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from starlette.responses import Response

from outcry.accounts.audit import Event
from outcry.ports.delivery import AttemptRow, SubscriptionRow, Target
from outcry.ports.identity import UserRow
from outcry.services.subscriptions import NoSubscription, SubscriptionRefused
from outcry.web.deliveries import deliveries
from outcry.web.delivery_words import OUTCOMES, PHASES, SEVERITIES, TARGETS, result_words
from outcry.web.desk import Desk, NotConfirmed, NotProved, Page, PageMissing, Visit
from outcry.web.entrance import origin_of
from outcry.web.forms import (
    Faults,
    forget_secret,
    forget_typed,
    hand_over,
    handed_over,
    note_of,
    number_in,
    prove_first,
    typed_before,
)
from outcry.web.moments import Moment, moment
from outcry.web.webhook_forms import offered, refusal_words, typed_in, wish_of

P = ParamSpec("P")
T = TypeVar("T")

LIST, NEW = "/account/webhooks", "/account/webhooks/new"
#: Tests in any minute; a test waits for the other side.
_TESTS = 5


@dataclass(frozen=True, slots=True)
class Listed:
    """A subscription of the list, with what was last attempted for it."""

    row: SubscriptionRow
    last: AttemptRow | None
    at: Moment | None


async def list_webhooks(desk: Desk, visit: Visit) -> Response:
    """All of this user's."""
    user, subscriptions = desk.user(visit), desk.services.subscriptions

    def look() -> list[Listed]:
        found: list[Listed] = []
        for row in subscriptions.of(user.id):
            last = next(iter(subscriptions.attempts(user.id, row.id, None, 1)), None)
            found.append(Listed(row, last, moment(visit, last.at_ns if last else None)))
        return found

    return _page(desk, visit, "account/webhooks.html", webhooks=await desk.ask(look), done=note_of(visit))


# -- making one


async def new_webhook(desk: Desk, visit: Visit) -> Response:
    """Where one is made."""
    desk.confirmed(visit)
    target = visit.request.query_params.get("target", "")
    usual = {"target": target if target in set(Target) else Target.HTTPS.value, "min_severity": "info"}
    typed = {"address": "", "label": "", "symbols": "", **usual, **typed_before(desk, visit, NEW)}
    return forget_typed(visit, _page(desk, visit, "account/webhook_new.html", typed=typed, faults={}))


async def make_webhook(desk: Desk, visit: Visit) -> Response:
    """Make one; the secret of an endpoint is shown once."""
    desk.sender(visit)
    typed, faults = await typed_in(desk, visit)
    try:
        user = desk.confirmed(visit)
    except NotProved:
        return prove_first(desk, visit, NEW, typed)
    wish = wish_of(desk, typed, faults, visit.words)
    if wish is not None:
        try:
            made = await desk.ask(desk.services.subscriptions.add, user.id, wish, desk.now_ns())
        except SubscriptionRefused as refusal:
            faults[refusal.field] = refusal_words(visit.words, refusal)
        else:
            kept = await desk.ask(desk.services.subscriptions.one, user.id, made.id)
            await _note(desk, visit, user, Event.SUBSCRIPTION_CREATED, kept)
            if made.secret is None:
                return desk.to(visit, f"{LIST}/{made.id}?done=made")
            return hand_over(desk, visit, f"{LIST}/{made.id}/secret", {"secret": made.secret})
    return _page(desk, visit, "account/webhook_new.html", 422, typed=typed, faults=faults)


# -- one of them


async def show_webhook(desk: Desk, visit: Visit) -> Response:
    """One of them: what it is, and what can be done with it."""
    _, row = await _own(desk, visit)
    kept = typed_before(desk, visit, f"{LIST}/{row.id}")
    typed = {
        "address": "", "label": row.label, "symbols": " ".join(row.symbols), "min_severity": row.min_severity,
        **kept, "target": row.target.value,
    }  # fmt: skip
    return forget_typed(visit, await _one(desk, visit, row, typed, {}))


async def change_webhook(desk: Desk, visit: Visit) -> Response:
    """Change what it sends, and where to; an address left empty stays."""
    desk.sender(visit)
    typed, faults = await typed_in(desk, visit)
    try:
        user, row = await _own(desk, visit)
        desk.confirmed(visit)
    except NotProved:
        return prove_first(desk, visit, f"{LIST}/{number_in(visit, 'webhook_id')}", typed)
    typed["target"] = row.target.value
    wish = wish_of(desk, typed, faults, visit.words)
    if wish is not None:
        try:
            row = await _asked(desk, desk.services.subscriptions.change, user.id, row.id, wish)
        except SubscriptionRefused as refusal:
            faults[refusal.field] = refusal_words(visit.words, refusal)
        else:
            await _note(desk, visit, user, Event.SUBSCRIPTION_CHANGED, row)
            return desk.to(visit, f"{LIST}/{row.id}?done=saved")
    return await _one(desk, visit, row, typed, faults)


async def pause_webhook(desk: Desk, visit: Visit) -> Response:
    """Send nothing until it is resumed."""
    return await _move(desk, visit, desk.services.subscriptions.pause, Event.SUBSCRIPTION_PAUSED, "paused")


async def resume_webhook(desk: Desk, visit: Visit) -> Response:
    """Send again; one that was disabled has to pass a test."""
    return await _move(desk, visit, desk.services.subscriptions.resume, Event.SUBSCRIPTION_RESUMED, "resumed")


async def _move(
    desk: Desk, visit: Visit, move: Callable[[int, int], bool], event: Event, done: str
) -> Response:
    """Move one of this user's on; where it stands so already nothing is noted."""
    user, row = await _own(desk, visit)
    await desk.form(visit)
    if not await _asked(desk, move, user.id, row.id):
        return desk.to(visit, f"{LIST}/{row.id}")
    await _note(desk, visit, user, event, row)
    return desk.to(visit, f"{LIST}/{row.id}?done={done}")


async def rotate_secret(desk: Desk, visit: Visit) -> Response:
    """Sign with a new secret, shown once; the old one signs too for a day."""
    user, row = await _own(desk, visit)
    await desk.form(visit)
    try:
        desk.confirmed(visit)
        secret = await _asked(desk, desk.services.subscriptions.rotate, user.id, row.id, desk.now_ns())
    except NotConfirmed:
        return prove_first(desk, visit, f"{LIST}/{row.id}", {})
    except SubscriptionRefused:
        raise PageMissing from None  # the form for it is only where something is signed
    await _note(desk, visit, user, Event.SUBSCRIPTION_ROTATED, row)
    return hand_over(desk, visit, f"{LIST}/{row.id}/secret", {"secret": secret, "rotated": "yes"})


async def show_secret(desk: Desk, visit: Visit) -> Response:
    """A signing secret just made, the only time it is on a page."""
    _, row = await _own(desk, visit)
    held = await handed_over(desk, visit, f"{LIST}/{row.id}/secret")
    if held is None:
        return desk.to(visit, f"{LIST}/{row.id}?done=shown")
    rotated = held.get("rotated") == "yes"
    page = desk.page(
        visit, "account/webhook_secret.html", secret=True, webhook=row, value=held["secret"], rotated=rotated
    )
    return forget_secret(visit, page)


async def test_webhook(desk: Desk, visit: Visit) -> Response:
    """Send the test alert now, and tell what came of it."""
    user, row = await _own(desk, visit)
    await desk.form(visit)
    verdict = desk.services.limiter.take(f"test:{user.id}", _TESTS, desk.now_ns())
    if not verdict.allowed:
        wait_s = -(-verdict.retry_after_ms // 1000)
        page = desk.page(visit, "account/webhook_test.html", 429, webhook=row, result=None, wait_s=wait_s)
        page.headers["retry-after"] = str(wait_s)
        return page
    result = await _asked(desk, desk.services.subscriptions.test, user.id, row.id)
    await _note(desk, visit, user, Event.SUBSCRIPTION_TESTED, row, code=result.code)
    _, after = await _own(desk, visit)
    return desk.page(
        visit,
        "account/webhook_test.html",
        webhook=after,
        was=row,
        result=result,
        diagnosis=result_words(visit.words, result.code),
        phases=[(visit.words(PHASES.get(name, name)), took_ms) for name, took_ms in result.phases_ms],
    )


async def ask_remove(desk: Desk, visit: Visit) -> Response:
    """Ask before it is removed."""
    _, row = await _own(desk, visit)
    return desk.page(visit, "account/webhook_remove.html", webhook=row)


async def remove_webhook(desk: Desk, visit: Visit) -> Response:
    """Forget it, and its log."""
    user, row = await _own(desk, visit)
    await desk.form(visit)
    await _asked(desk, desk.services.subscriptions.remove, user.id, row.id)
    await _note(desk, visit, user, Event.SUBSCRIPTION_REMOVED, row)
    return desk.to(visit, f"{LIST}?done=removed")


async def back_to_webhook(desk: Desk, visit: Visit) -> Response:
    """An address that only takes forms, opened as a page."""
    return desk.to(visit, f"{LIST}/{number_in(visit, 'webhook_id')}")


# -- what they share


async def _own(desk: Desk, visit: Visit) -> tuple[UserRow, SubscriptionRow]:
    user, wanted = desk.user(visit), number_in(visit, "webhook_id")
    return user, await _asked(desk, desk.services.subscriptions.one, user.id, wanted)


async def _asked(desk: Desk, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Ask something of one of them, which may be removed at any moment, in another tab."""
    try:
        return await desk.ask(work, *args, **kwargs)
    except NoSubscription:
        raise PageMissing from None


async def _one(
    desk: Desk, visit: Visit, row: SubscriptionRow, typed: Mapping[str, str], faults: Faults
) -> Response:
    return _page(
        desk,
        visit,
        "account/webhook.html",
        422 if faults else 200,
        webhook=row,
        typed=typed,
        faults=faults,
        done=note_of(visit),
        made=moment(visit, row.created_ns),
        overlap=moment(visit, row.old_until_ns if (row.old_until_ns or 0) > desk.now_ns() else None),
        disabled_words=result_words(visit.words, row.reason) if row.reason else "",
        **await deliveries(desk, visit, row),
    )


def _page(desk: Desk, visit: Visit, template: str, status: int = 200, **values: Any) -> Response:
    return desk.page(
        visit,
        template,
        status,
        targets={target.value: visit.words(name) for target, name in TARGETS.items()},
        severities={code: visit.words(name) for code, name in SEVERITIES.items()},
        outcomes={code: visit.words(name) for code, name in OUTCOMES.items()},
        offered=offered(desk),
        running=desk.services.subscriptions.running,
        **values,
    )


async def _note(
    desk: Desk, visit: Visit, user: UserRow, event: Event, row: SubscriptionRow, **more: str
) -> None:
    details = {"label": row.label, "target": row.target.value, "shown": row.shown, **more}
    await desk.ask(desk.services.identity.note, user, event, origin_of(visit), **details)


PAGES: Sequence[Page] = (
    (LIST, ("GET",), list_webhooks),
    (NEW, ("GET",), new_webhook),
    (LIST, ("POST",), make_webhook),
    (f"{LIST}/{{webhook_id}}", ("GET",), show_webhook),
    (f"{LIST}/{{webhook_id}}", ("POST",), change_webhook),
    (f"{LIST}/{{webhook_id}}/secret", ("GET",), show_secret),
    (f"{LIST}/{{webhook_id}}/remove", ("GET",), ask_remove),
    (f"{LIST}/{{webhook_id}}/remove", ("POST",), remove_webhook),
    (f"{LIST}/{{webhook_id}}/pause", ("POST",), pause_webhook),
    (f"{LIST}/{{webhook_id}}/resume", ("POST",), resume_webhook),
    (f"{LIST}/{{webhook_id}}/rotate", ("POST",), rotate_secret),
    (f"{LIST}/{{webhook_id}}/test", ("POST",), test_webhook),
    *(
        (f"{LIST}/{{webhook_id}}/{form}", ("GET",), back_to_webhook)
        for form in ("pause", "resume", "rotate", "test")
    ),
)
