"""Data types and interface of the outbox: which alerts to deliver to which subscriptions, and the results.

The transaction that records an alert also writes its outbox entries, one for each matching subscription. The entries of
a subscription form its queue. A worker leases a queue while it sends, so a queue sends one message at a time and queues
do not wait for each other. One transaction writes the result of a message and its attempt. `TRANSITIONS` lists every
change of an entry's phase.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from outcry.delivery.model import AttemptRow, SubscriptionPhase, SubscriptionRow, Target
from outcry.live.model import AlertRow
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND

#: Maximum number of alerts in a message. Chat messages and emails show only some alerts and count the others.
MOST_ALERTS = {Target.HTTPS: 20, Target.SLACK: 200, Target.DISCORD: 200, Target.EMAIL: 500}
#: Minimum time between two messages of a queue, so that alerts close together are batched. A full message of an
#: `https` target does not wait.
GATHER_NS = NANOS_PER_SECOND
#: A subscription is slow if its last attempt took at least this long. Slow subscriptions share a part of the slots.
SLOW_MS = 1_000
#: Retention of completed entries. Older entries cannot be resent, because their results are deleted.
RETENTION_NS = 30 * NANOS_PER_DAY


class EntryPhase(StrEnum):
    """Phase of an outbox entry, that is, of the delivery of one alert to one subscription.

    HELD: on hold while the subscription is disabled.
    """

    WAITING = "waiting"  # due now or later, or in an attempt
    DELIVERED = "delivered"
    HELD = "held"  # the subscription was disabled: sent on the owner's request; a chat reports the number
    MISSED = "missed"  # the chat's retries are used up; its next message reports the number
    DEAD = "dead"  # failed permanently; resent only on the owner's request


class Sign(StrEnum):
    """An event that changes the phase of an outbox entry, such as a delivery or the disabling of the subscription."""

    ARRIVED = "arrived"
    AGAIN = "again"  # the attempt failed and will be retried
    GIVEN_UP = "given up"
    REFUSED = "refused"  # the receiver will never accept it
    SWITCHED_OFF = "switched off"  # the subscription was disabled
    COUNTED = "told"  # a later message counted it as missed
    ASKED_FOR = "asked for"  # the owner asked to send it, or to resend it
    FORGOTTEN = "forgotten"  # the alert was deleted, so it cannot be sent


_P = EntryPhase
TRANSITIONS: Mapping[tuple[EntryPhase, Sign], EntryPhase] = {
    (_P.WAITING, Sign.ARRIVED): _P.DELIVERED,
    (_P.WAITING, Sign.AGAIN): _P.WAITING,
    (_P.WAITING, Sign.GIVEN_UP): _P.DEAD,
    (_P.WAITING, Sign.REFUSED): _P.DEAD,
    (_P.WAITING, Sign.SWITCHED_OFF): _P.HELD,
    (_P.WAITING, Sign.ASKED_FOR): _P.WAITING,
    (_P.MISSED, Sign.COUNTED): _P.DEAD,
    (_P.HELD, Sign.COUNTED): _P.DEAD,  # by a chat that was enabled again
    **{(phase, Sign.ASKED_FOR): _P.WAITING for phase in (_P.DELIVERED, _P.HELD, _P.MISSED, _P.DEAD)},
    **{(phase, Sign.FORGOTTEN): _P.DEAD for phase in (_P.WAITING, _P.HELD)},
    **{(phase, Sign.FORGOTTEN): phase for phase in (_P.DELIVERED, _P.MISSED, _P.DEAD)},
}

#: Only waiting entries have attempts. Only missed and held entries are reported later.
NEVER = frozenset(
    {
        (phase, sign)
        for phase in (_P.DELIVERED, _P.HELD, _P.MISSED, _P.DEAD)
        for sign in (Sign.ARRIVED, Sign.AGAIN, Sign.GIVEN_UP, Sign.REFUSED, Sign.SWITCHED_OFF)
    }
    | {(phase, Sign.COUNTED) for phase in (_P.WAITING, _P.DELIVERED, _P.DEAD)}
)


def moved_by(sign: Sign) -> frozenset[EntryPhase]:
    """Return the phases from which an event (`Sign`) moves an outbox entry to another phase.

    A bulk update for the event changes only entries in these phases.
    """
    return frozenset(phase for (phase, by), to in TRANSITIONS.items() if by is sign and to is not phase)


@dataclass(frozen=True, slots=True)
class Entry:
    """An alert in the outbox of one subscription.

    `number` counts the subscription's alerts of a symbol from 1, without gaps.
    """

    id: int
    number: int
    alert: AlertRow


@dataclass(frozen=True, slots=True)
class Queue:
    """Delivery state of a subscription: its last attempt, failures and warnings.

    - `sent_ns`, `took_ms`: start and duration of the last attempt.
    - `closed_until_ns`: no attempt before this time, because the receiver asked for a pause or attempts keep failing.
    - `failures`: consecutive failed attempts.
    - `failing_since_ns`, `failed_ns`: first and last attempt since the last success that delivered nothing, rate limits
      included.
    - `arrived_ns`: last successful delivery.
    - `warned`, `warned_ns`: how many warnings the owner received, and when the last one was sent.
    - `bounces`: consecutive emails that the mailbox rejected permanently.
    """

    sent_ns: int = 0
    closed_until_ns: int = 0
    failures: int = 0
    failing_since_ns: int | None = None
    failed_ns: int | None = None
    arrived_ns: int | None = None
    warned: int = 0
    bounces: int = 0
    warned_ns: int | None = None
    took_ms: int = 0


@dataclass(frozen=True, slots=True)
class Reader:
    """The owner's settings that affect the content of messages, such as language and time zone."""

    email: str
    language: str
    time_zone: str
    digest_hour: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is to be sent to one subscription, with its alerts.

    - `message_id`: the same at every attempt.
    - `entries`: in the order they were written, the same at every attempt; empty for a test.
    - `missed`: for chats and email, the number of alerts that failed or are on hold, and that no message has reported.
    - `tries`: used steps of the retry schedule; `attempts`: number of all attempts.
    - `created_ns`: when its first entry was written, or the owner asked to resend it.
    - `lease`: name of the claim that returned the message; empty for a test.
    """

    message_id: str
    subscription: SubscriptionRow
    reader: Reader
    queue: Queue
    entries: tuple[Entry, ...]
    missed: int
    tries: int
    created_ns: int
    attempts: int = 0
    lease: str = ""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of an attempt to send a message, and the new state of the subscription's queue.

    - `phase`: new phase of all entries (alerts) of the message. With WAITING they are retried at `due_ns`.
    - `queue`: new state of the queue.
    - `attempt`: row of the delivery log, None if nothing was sent. Its id is ignored.
    - `tries`: used steps of the retry schedule.
    - `reported_missed`: the message reported the entries counted in `missed`; they become DEAD.
    - `disable`: code of the reason to disable the subscription and hold its waiting entries; empty to keep it.
    """

    message: Message
    phase: EntryPhase
    due_ns: int
    queue: Queue
    attempt: AttemptRow | None
    tries: int
    reported_missed: bool = False
    disable: str = ""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Number of a subscription's alerts that wait, are on hold because it is disabled, or failed.

    Deleted alerts do not count.
    """

    waiting: int
    held: int
    dead: int


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """Number of subscriptions by phase, for all users.

    Also two counts of active subscriptions: `failing`, whose attempts fail, and `late`, which have had a due entry for
    at least one minute.
    """

    phases: Mapping[SubscriptionPhase, int]
    failing: int
    late: int
