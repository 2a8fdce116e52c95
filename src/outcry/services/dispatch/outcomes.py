"""What an attempt makes of its message: a table from phases and signs, and the schedule behind it.

Rules kept: every alert ends delivered, held, missed or dead, and the log says why; what was asked for by the other side
is kept to; a repeat carries the same id.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from outcry.core.structure.machine import move
from outcry.core.units import NANOS_PER_SECOND
from outcry.ports.delivery import AttemptRow, Outcome, Target
from outcry.ports.outbox import Done, EntryPhase, Lane, Parcel
from outcry.ports.sender import Sent, Verdict
from outcry.services.dispatch import lanes
from outcry.services.dispatch.digests import wanted_ns
from outcry.services.dispatch.schedule import Chance, asked_ns, patience_ns, pause_ns

#: What no place was found for is tried again after this.
_BUSY_NS = NANOS_PER_SECOND


class Sign(StrEnum):
    """What moves an alert on its way to a subscription."""

    ARRIVED = "arrived"
    AGAIN = "again"  # it failed, and is tried again
    GIVEN_UP = "given up"
    REFUSED = "refused"  # it will never be taken
    SWITCHED_OFF = "switched off"  # the subscription takes nothing any more
    TOLD = "told"  # a later message has told that it was missed
    ASKED_FOR = "asked for"  # its owner wants it sent, or sent again


_P = EntryPhase
TRANSITIONS: dict[tuple[EntryPhase, Sign], EntryPhase] = {
    (_P.WAITING, Sign.ARRIVED): _P.DELIVERED,
    (_P.WAITING, Sign.AGAIN): _P.WAITING,
    (_P.WAITING, Sign.GIVEN_UP): _P.DEAD,
    (_P.WAITING, Sign.REFUSED): _P.DEAD,
    (_P.WAITING, Sign.SWITCHED_OFF): _P.HELD,
    (_P.WAITING, Sign.ASKED_FOR): _P.WAITING,
    (_P.MISSED, Sign.TOLD): _P.DEAD,
    (_P.HELD, Sign.TOLD): _P.DEAD,  # by a chat that is on again
    **{(phase, Sign.ASKED_FOR): _P.WAITING for phase in (_P.DELIVERED, _P.HELD, _P.MISSED, _P.DEAD)},
}
#: Chats are told in one line of what they missed, so what they miss is not over yet.
_TOLD_LATER = {(_P.WAITING, Sign.GIVEN_UP): _P.MISSED}

#: Only of what waits can an attempt tell anything; and only what was missed or held is told of.
NEVER = frozenset(
    {
        (phase, sign)
        for phase in (_P.DELIVERED, _P.HELD, _P.MISSED, _P.DEAD)
        for sign in (Sign.ARRIVED, Sign.AGAIN, Sign.GIVEN_UP, Sign.REFUSED, Sign.SWITCHED_OFF)
    }
    | {(phase, Sign.TOLD) for phase in (_P.WAITING, _P.DELIVERED, _P.DEAD)}
)


@dataclass(frozen=True, slots=True)
class Became:
    """What an attempt made of its message. `warn`: which warning its owner is to be told of, 0: none."""

    done: Done
    warn: int


def became(parcel: Parcel, sent: Sent, began_ns: int, now_ns: int, chance: Chance) -> Became:
    """Work out what becomes of a parcel and its lane. `began_ns`, `now_ns`: when the attempt began and ended."""
    lane = lanes.began(parcel.lane, began_ns)
    match sent.verdict:
        case Verdict.BUSY:
            due_ns = now_ns + max(_BUSY_NS, sent.wait_ns or 0)
            waits = lanes.slowed(parcel.lane, due_ns) if sent.wait_ns else parcel.lane
            return Became(Done(parcel, _P.WAITING, due_ns, waits, None), 0)
        case Verdict.ARRIVED:
            return _ended(parcel, sent, Sign.ARRIVED, lanes.arrived(lane, now_ns, sent.wait_ns), now_ns)
        case Verdict.REFUSED:  # the endpoint answered, and may take others
            return _ended(parcel, sent, Sign.REFUSED, replace(lane, failures=0), now_ns)
        case Verdict.GONE:
            return _off(parcel, sent, lanes.failed(lane, now_ns), now_ns, sent.code)
        case Verdict.SLOWER:
            return _slowed(parcel, sent, lane, now_ns)
        case Verdict.LATER | Verdict.BOUNCED:
            return _failed(parcel, sent, lane, now_ns, chance)


def _slowed(parcel: Parcel, sent: Sent, lane: Lane, now_ns: int) -> Became:
    until_ns = now_ns + asked_ns(sent.wait_ns)
    lane = lanes.slowed(lane, until_ns)
    if now_ns - wanted_ns(parcel) >= patience_ns(parcel.subscription.target):
        return _ended(parcel, sent, Sign.GIVEN_UP, lane, now_ns)
    return _again(parcel, sent, lane, until_ns, now_ns)


def _failed(parcel: Parcel, sent: Sent, lane: Lane, now_ns: int, chance: Chance) -> Became:
    target = parcel.subscription.target
    bounced = sent.verdict is Verdict.BOUNCED
    after = lanes.bounced(lane, now_ns) if bounced else lanes.failed(lane, now_ns)
    reason = lanes.reason_off(lane, after)
    if reason:
        return _off(parcel, sent, after, now_ns, reason)
    warn = max(lanes.warning_due(after), after.warned)
    news = warn if warn > after.warned else 0
    after = replace(after, warned=warn)
    if bounced:
        return replace(_ended(parcel, sent, Sign.REFUSED, after, now_ns), warn=news)
    pause = pause_ns(target, parcel.tries + 1, chance)
    if pause is None or now_ns - wanted_ns(parcel) >= patience_ns(target):
        return replace(_ended(parcel, sent, Sign.GIVEN_UP, after, now_ns), warn=news)
    due_ns = now_ns + max(pause, asked_ns(sent.wait_ns) if sent.wait_ns is not None else 0)
    if parcel.subscription.ordered:
        after = lanes.slowed(after, due_ns)
    return replace(_again(parcel, sent, after, due_ns, now_ns), warn=news)


def _ended(parcel: Parcel, sent: Sent, sign: Sign, lane: Lane, now_ns: int) -> Became:
    chat = parcel.subscription.target is not Target.HTTPS
    phase = move({**TRANSITIONS, **_TOLD_LATER} if chat else TRANSITIONS, _P.WAITING, sign)
    outcome: Outcome = "delivered" if sign is Sign.ARRIVED else "dead"
    attempt = attempt_of(parcel, sent, outcome, now_ns)
    told = sign is Sign.ARRIVED and sent.told
    return Became(Done(parcel, phase, now_ns, lane, attempt, told=told), 0)


def _again(parcel: Parcel, sent: Sent, lane: Lane, due_ns: int, now_ns: int) -> Became:
    phase = move(TRANSITIONS, _P.WAITING, Sign.AGAIN)
    attempt = attempt_of(parcel, sent, "pending", now_ns, due_ns)
    return Became(Done(parcel, phase, due_ns, lane, attempt), 0)


def _off(parcel: Parcel, sent: Sent, lane: Lane, now_ns: int, reason: str) -> Became:
    phase = move(TRANSITIONS, _P.WAITING, Sign.SWITCHED_OFF)
    attempt = attempt_of(parcel, sent, "failed", now_ns)
    return Became(Done(parcel, phase, now_ns, lane, attempt, disable=reason), 0)


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
        alerts=max(1, len(parcel.entries)), number=parcel.tries + 1, phases_ms=sent.phases_ms,
        shown=parcel.subscription.shown,
    )  # fmt: skip
