"""What an attempt makes of its message: a table from phases and signs, and the schedule behind it.

Rules kept: every alert ends delivered, held, missed or dead, and the log says why; what was asked for by the other side
is kept to, and costs no try; a repeat carries the same id; what is past its use is not sent.
"""

from dataclasses import dataclass, replace

from outcry.delivery import queue_breaker
from outcry.delivery.digests import wanted_ns
from outcry.delivery.model import AttemptRow, Outcome, Target
from outcry.delivery.outbox_model import TRANSITIONS, Done, EntryPhase, Lane, Parcel, Sign
from outcry.delivery.schedule import Chance, asked_ns, patience_ns, pause_ns
from outcry.delivery.sender import Sent, Verdict
from outcry.market.alerts.machine import move
from outcry.market.units import NANOS_PER_SECOND

#: What no place was found for is tried again after this.
_BUSY_NS = NANOS_PER_SECOND


_P = EntryPhase
#: Chats are told in one line of what they missed, so what they miss is not over yet.
_TOLD_LATER = {(_P.WAITING, Sign.GIVEN_UP): _P.MISSED}


@dataclass(frozen=True, slots=True)
class Became:
    """What an attempt made of its message. `warn`: which warning its owner is to be told of, 0: none."""

    done: Done
    warn: int


def became(parcel: Parcel, sent: Sent, began_ns: int, now_ns: int, chance: Chance) -> Became:
    """Work out what becomes of a parcel and its lane. `began_ns`, `now_ns`: when the attempt began and ended."""
    lane = queue_breaker.began(parcel.lane, began_ns, sent.took_ms)
    match sent.verdict:
        case Verdict.BUSY:
            due_ns = now_ns + max(_BUSY_NS, sent.wait_ns or 0)
            waits = queue_breaker.slowed(parcel.lane, due_ns) if sent.wait_ns else parcel.lane
            return Became(Done(parcel, _P.WAITING, due_ns, waits, None, parcel.tries), 0)
        case Verdict.ARRIVED:
            return _ended(
                parcel, sent, Sign.ARRIVED, queue_breaker.arrived(lane, now_ns, sent.wait_ns), now_ns
            )
        case Verdict.REFUSED:
            return _ended(
                parcel, sent, Sign.REFUSED, _left_alone(queue_breaker.answered(lane), sent, now_ns), now_ns
            )
        case Verdict.GONE:
            return _off(parcel, sent, queue_breaker.failed(lane, now_ns), now_ns, sent.code)
        case Verdict.SLOWER:
            after = queue_breaker.slowed(
                queue_breaker.nothing_arrived(lane, now_ns), now_ns + asked_ns(sent.wait_ns)
            )
        case Verdict.LATER:
            after = _left_alone(queue_breaker.failed(lane, now_ns), sent, now_ns)
        case Verdict.BOUNCED:
            after = _left_alone(queue_breaker.bounced(lane, now_ns), sent, now_ns)
    return _came_to_nothing(parcel, sent, after, now_ns, chance)


def expired(parcel: Parcel, now_ns: int) -> Became | None:
    """What becomes of a parcel that nobody wants any more, before it is sent; None of any other: it waited behind a
    lane that was closed, paused, or had more to do than it could."""
    if now_ns - wanted_ns(parcel) < patience_ns(parcel.subscription.target):
        return None
    return _ended(parcel, Sent(Verdict.LATER, "expired"), Sign.GIVEN_UP, parcel.lane, now_ns)


def _left_alone(lane: Lane, sent: Sent, now_ns: int) -> Lane:
    """The whole lane, for as long as was asked for, whatever the answer was."""
    return lane if sent.wait_ns is None else queue_breaker.slowed(lane, now_ns + asked_ns(sent.wait_ns))


def _came_to_nothing(parcel: Parcel, sent: Sent, lane: Lane, now_ns: int, chance: Chance) -> Became:
    reason = queue_breaker.reason_off(lane)
    if reason:
        return _off(parcel, sent, lane, now_ns, reason)
    after = queue_breaker.warned(lane, now_ns)
    result = _next(parcel, sent, after, now_ns, chance)
    return replace(result, warn=after.warned if after.warned > lane.warned else 0)


def _next(parcel: Parcel, sent: Sent, lane: Lane, now_ns: int, chance: Chance) -> Became:
    target, tries = parcel.subscription.target, parcel.tries
    if sent.verdict is Verdict.BOUNCED:
        return _ended(parcel, sent, Sign.REFUSED, lane, now_ns)
    wait_ns = 0 if sent.wait_ns is None else asked_ns(sent.wait_ns)
    if sent.verdict is Verdict.SLOWER:  # not that it could not: the schedule stays whole
        pause = asked_ns(sent.wait_ns)
    else:
        tries += 1
        pause = pause_ns(target, tries, chance)
    if pause is None or now_ns - wanted_ns(parcel) >= patience_ns(target):
        return _ended(parcel, sent, Sign.GIVEN_UP, lane, now_ns)
    due_ns = now_ns + max(pause, wait_ns)
    if parcel.subscription.ordered:
        lane = queue_breaker.slowed(lane, due_ns)
    return _again(parcel, sent, lane, due_ns, tries, now_ns)


def _ended(parcel: Parcel, sent: Sent, sign: Sign, lane: Lane, now_ns: int) -> Became:
    chat = parcel.subscription.target is not Target.HTTPS
    phase = move({**TRANSITIONS, **_TOLD_LATER} if chat else TRANSITIONS, _P.WAITING, sign)
    outcome: Outcome = "delivered" if sign is Sign.ARRIVED else "dead"
    attempt = attempt_of(parcel, sent, outcome, now_ns)
    told = sign is Sign.ARRIVED and sent.told
    return Became(Done(parcel, phase, now_ns, lane, attempt, parcel.tries, told=told), 0)


def _again(parcel: Parcel, sent: Sent, lane: Lane, due_ns: int, tries: int, now_ns: int) -> Became:
    phase = move(TRANSITIONS, _P.WAITING, Sign.AGAIN)
    attempt = attempt_of(parcel, sent, "pending", now_ns, due_ns)
    return Became(Done(parcel, phase, due_ns, lane, attempt, tries), 0)


def _off(parcel: Parcel, sent: Sent, lane: Lane, now_ns: int, reason: str) -> Became:
    phase = move(TRANSITIONS, _P.WAITING, Sign.SWITCHED_OFF)
    attempt = attempt_of(parcel, sent, "failed", now_ns)
    return Became(Done(parcel, phase, now_ns, lane, attempt, parcel.tries, disable=reason), 0)


def attempt_of(
    parcel: Parcel, sent: Sent, outcome: Outcome, now_ns: int, next_ns: int | None = None
) -> AttemptRow:
    """The line of the log. A parcel without entries is a test."""
    first = parcel.entries[0].alert if parcel.entries else None
    return AttemptRow(
        id=0, subscription_id=parcel.subscription.id, at_ns=now_ns,
        alert_key=first.key if first else "", alert_type=first.type.value if first else "webhook-test",
        symbol=first.symbol if first else "", outcome=outcome, code=sent.code, status=sent.status,
        took_ms=sent.took_ms, excerpt=sent.excerpt, next_ns=next_ns, message_id=parcel.message_id,
        alerts=max(1, len(parcel.entries)), number=parcel.attempts + 1, phases_ms=sent.phases_ms,
        shown=parcel.subscription.shown,
    )  # fmt: skip
