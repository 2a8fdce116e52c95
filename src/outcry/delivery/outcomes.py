"""Determine the new state of a message and its queue after an attempt.

The state follows from the table of phases (`outbox_model.TRANSITIONS`) and the retry schedule. Every alert ends
delivered, held, missed or dead, with a reason in the log. If the receiver asks for a pause, no attempt is made during
the pause, and no retry is used up. A retry has the same message id. Expired messages are not sent.
"""

from dataclasses import dataclass, replace

from outcry.delivery import queue_breaker
from outcry.delivery.digest_timing import is_expired
from outcry.delivery.model import AttemptRow, Outcome, Target
from outcry.delivery.outbox_model import TRANSITIONS, DeliveryResult, EntryPhase, Message, Queue, Sign
from outcry.delivery.schedule import Chance, asked_ns, pause_ns
from outcry.delivery.sender import SendResult, Verdict
from outcry.market.alerts.machine import move
from outcry.market.units import NANOS_PER_SECOND

#: Delay before the next attempt of a message that found no free slot.
_BUSY_NS = NANOS_PER_SECOND


_P = EntryPhase
#: The next chat message reports missed alerts, so they are not dead yet.
_COUNTED_LATER = {(_P.WAITING, Sign.GIVEN_UP): _P.MISSED}


@dataclass(frozen=True, slots=True)
class Decision:
    """The new state of a message and its queue. `warn`: number of the warning to send to the owner, 0 for none."""

    done: DeliveryResult
    warn: int


def became(message: Message, sent: SendResult, began_ns: int, now_ns: int, chance: Chance) -> Decision:
    """Return the new state of a message and its queue after an attempt.

    `began_ns`, `now_ns`: start and end of the attempt.
    """
    queue = queue_breaker.began(message.queue, began_ns, sent.took_ms)
    match sent.verdict:
        case Verdict.EXPIRED:
            return _ended(message, sent, Sign.GIVEN_UP, message.queue, began_ns)
        case Verdict.BUSY:
            due_ns = now_ns + max(_BUSY_NS, sent.wait_ns or 0)
            waits = queue_breaker.slowed(message.queue, due_ns) if sent.wait_ns else message.queue
            return Decision(DeliveryResult(message, _P.WAITING, due_ns, waits, None, message.tries), 0)
        case Verdict.ARRIVED:
            return _ended(
                message, sent, Sign.ARRIVED, queue_breaker.arrived(queue, now_ns, sent.wait_ns), now_ns
            )
        case Verdict.REFUSED:
            return _ended(
                message, sent, Sign.REFUSED, _left_alone(queue_breaker.answered(queue), sent, now_ns), now_ns
            )
        case Verdict.GONE:
            return _off(message, sent, queue_breaker.failed(queue, now_ns), now_ns, sent.code)
        case Verdict.SLOWER:
            after = queue_breaker.slowed(
                queue_breaker.nothing_arrived(queue, now_ns), now_ns + asked_ns(sent.wait_ns)
            )
        case Verdict.LATER:
            after = _left_alone(queue_breaker.failed(queue, now_ns), sent, now_ns)
        case Verdict.BOUNCED:
            after = _left_alone(queue_breaker.bounced(queue, now_ns), sent, now_ns)
    return _came_to_nothing(message, sent, after, now_ns, chance)


def _left_alone(queue: Queue, sent: SendResult, now_ns: int) -> Queue:
    """Pause the whole queue for as long as the receiver asked, whatever the status code of its response."""
    return queue if sent.wait_ns is None else queue_breaker.slowed(queue, now_ns + asked_ns(sent.wait_ns))


def _came_to_nothing(
    message: Message, sent: SendResult, queue: Queue, now_ns: int, chance: Chance
) -> Decision:
    reason = queue_breaker.reason_off(queue)
    if reason:
        return _off(message, sent, queue, now_ns, reason)
    after = queue_breaker.warned(queue, now_ns)
    result = _next(message, sent, after, now_ns, chance)
    return replace(result, warn=after.warned if after.warned > queue.warned else 0)


def _next(message: Message, sent: SendResult, queue: Queue, now_ns: int, chance: Chance) -> Decision:
    target, tries = message.subscription.target, message.tries
    if sent.verdict is Verdict.BOUNCED:
        return _ended(message, sent, Sign.REFUSED, queue, now_ns)
    wait_ns = 0 if sent.wait_ns is None else asked_ns(sent.wait_ns)
    if sent.verdict is Verdict.SLOWER:  # not a failure: no retry is used
        pause = asked_ns(sent.wait_ns)
    else:
        tries += 1
        pause = pause_ns(target, tries, chance)
    if pause is None or is_expired(message, now_ns):
        return _ended(message, sent, Sign.GIVEN_UP, queue, now_ns)
    due_ns = now_ns + max(pause, wait_ns)
    if message.subscription.ordered:
        queue = queue_breaker.slowed(queue, due_ns)
    return _again(message, sent, queue, due_ns, tries, now_ns)


def _ended(message: Message, sent: SendResult, sign: Sign, queue: Queue, now_ns: int) -> Decision:
    chat = message.subscription.target is not Target.HTTPS
    phase = move({**TRANSITIONS, **_COUNTED_LATER} if chat else TRANSITIONS, _P.WAITING, sign)
    outcome: Outcome = "delivered" if sign is Sign.ARRIVED else "dead"
    attempt = attempt_of(message, sent, outcome, now_ns)
    reported = sign is Sign.ARRIVED and sent.reported_missed
    return Decision(
        DeliveryResult(message, phase, now_ns, queue, attempt, message.tries, reported_missed=reported), 0
    )


def _again(
    message: Message, sent: SendResult, queue: Queue, due_ns: int, tries: int, now_ns: int
) -> Decision:
    phase = move(TRANSITIONS, _P.WAITING, Sign.AGAIN)
    attempt = attempt_of(message, sent, "pending", now_ns, due_ns)
    return Decision(DeliveryResult(message, phase, due_ns, queue, attempt, tries), 0)


def _off(message: Message, sent: SendResult, queue: Queue, now_ns: int, reason: str) -> Decision:
    phase = move(TRANSITIONS, _P.WAITING, Sign.SWITCHED_OFF)
    attempt = attempt_of(message, sent, "failed", now_ns)
    return Decision(DeliveryResult(message, phase, now_ns, queue, attempt, message.tries, disable=reason), 0)


def attempt_of(
    message: Message, sent: SendResult, outcome: Outcome, now_ns: int, next_ns: int | None = None
) -> AttemptRow:
    """Return the row of the delivery log for an attempt. A message without entries is a test."""
    first = message.entries[0].alert if message.entries else None
    return AttemptRow(
        id=0, subscription_id=message.subscription.id, at_ns=now_ns,
        alert_key=first.key if first else "", alert_type=first.type.value if first else "webhook-test",
        symbol=first.symbol if first else "", outcome=outcome, code=sent.code, status=sent.status,
        took_ms=sent.took_ms, excerpt=sent.excerpt, next_ns=next_ns, message_id=message.message_id,
        alerts=max(1, len(message.entries)), number=message.attempts + 1, phases_ms=sent.phases_ms,
        shown=message.subscription.shown,
    )  # fmt: skip
