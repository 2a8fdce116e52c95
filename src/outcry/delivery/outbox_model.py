"""The port for the outbox: what is to be delivered to whom, and how that went.

Rules kept: an entry is written in the transaction that records its alert, once for each subscription; who delivers
holds the lane of a subscription by a lease, so one lane carries one message at a time and no lane waits for another's;
what became of a message is written in one transaction with its attempt; an entry moves by the one table here, whoever
moves it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from outcry.access.licences import Scope
from outcry.delivery.model import AttemptRow, SubscriptionPhase, SubscriptionRow, Target
from outcry.live.model import AlertRow
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND

#: Alerts one message carries at most. A chat's or a mail's tells of them all, though it shows only some.
MOST_ALERTS = {Target.HTTPS: 20, Target.SLACK: 200, Target.DISCORD: 200, Target.EMAIL: 500}
#: Between two messages of a lane at least, unless a full one waits and the target is `https`: what fires meanwhile goes
#: together.
GATHER_NS = NANOS_PER_SECOND
#: An endpoint whose last attempt took so long is slow: no more than a share of all places is given to those.
SLOW_MS = 1_000
#: What is over is remembered for so long, and nothing older is sent on request: nobody would know what arrived.
KEPT_NS = 30 * NANOS_PER_DAY


class EntryPhase(StrEnum):
    """Where one alert stands on its way to one subscription."""

    WAITING = "waiting"  # for its time, or for the answer to an attempt under way
    DELIVERED = "delivered"
    HELD = "held"  # the subscription was disabled meanwhile: sent when its owner asks for it; a chat is told of it
    MISSED = "missed"  # given up by a chat; the next message that arrives says so
    DEAD = "dead"  # given up for good; sent again only when its owner asks for it


class Sign(StrEnum):
    """What moves an alert on its way to a subscription."""

    ARRIVED = "arrived"
    AGAIN = "again"  # it failed, and is tried again
    GIVEN_UP = "given up"
    REFUSED = "refused"  # it will never be taken
    SWITCHED_OFF = "switched off"  # the subscription takes nothing any more
    TOLD = "told"  # a later message has told that it was missed
    ASKED_FOR = "asked for"  # its owner wants it sent, or sent again
    FORGOTTEN = "forgotten"  # the alert itself is no more, so nobody can be sent it


_P = EntryPhase
TRANSITIONS: Mapping[tuple[EntryPhase, Sign], EntryPhase] = {
    (_P.WAITING, Sign.ARRIVED): _P.DELIVERED,
    (_P.WAITING, Sign.AGAIN): _P.WAITING,
    (_P.WAITING, Sign.GIVEN_UP): _P.DEAD,
    (_P.WAITING, Sign.REFUSED): _P.DEAD,
    (_P.WAITING, Sign.SWITCHED_OFF): _P.HELD,
    (_P.WAITING, Sign.ASKED_FOR): _P.WAITING,
    (_P.MISSED, Sign.TOLD): _P.DEAD,
    (_P.HELD, Sign.TOLD): _P.DEAD,  # by a chat that is on again
    **{(phase, Sign.ASKED_FOR): _P.WAITING for phase in (_P.DELIVERED, _P.HELD, _P.MISSED, _P.DEAD)},
    **{(phase, Sign.FORGOTTEN): _P.DEAD for phase in (_P.WAITING, _P.HELD)},
    **{(phase, Sign.FORGOTTEN): phase for phase in (_P.DELIVERED, _P.MISSED, _P.DEAD)},
}

#: Only of what waits can an attempt tell anything; and only what was missed or held is told of.
NEVER = frozenset(
    {
        (phase, sign)
        for phase in (_P.DELIVERED, _P.HELD, _P.MISSED, _P.DEAD)
        for sign in (Sign.ARRIVED, Sign.AGAIN, Sign.GIVEN_UP, Sign.REFUSED, Sign.SWITCHED_OFF)
    }
    | {(phase, Sign.TOLD) for phase in (_P.WAITING, _P.DELIVERED, _P.DEAD)}
)


def moved_by(sign: Sign) -> frozenset[EntryPhase]:
    """The phases that a sign moves on from: of many entries at once, those it is done to."""
    return frozenset(phase for (phase, by), to in TRANSITIONS.items() if by is sign and to is not phase)


@dataclass(frozen=True, slots=True)
class Entry:
    """An alert on its way to a subscription. `number`: its place among this subscription's alerts of its symbol, from
    1, without a gap."""

    id: int
    number: int
    alert: AlertRow


@dataclass(frozen=True, slots=True)
class Lane:
    """How delivering to a subscription stands. `sent_ns`: when its last attempt began; `took_ms`: how long that took;
    `closed_until_ns`: nothing is tried before, for it was asked for, or tries keep failing; `failures`: attempts in a
    row that failed; `failing_since_ns`: when the first came to nothing since anything arrived, be it that fewer
    messages were asked for, `failed_ns` the last; `arrived_ns`: when anything last arrived; `warned`: of how many of
    the warnings about it the owner has been told, `warned_ns` when of the last; `bounces`: mails in a row that were
    refused for good."""

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
    """Whose a subscription is, as far as delivering needs to know."""

    email: str
    language: str
    time_zone: str
    digest_hour: int


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message to one subscription. `message_id`: stays the same however often it is tried. `entries`: in the order
    they were written, the same at every try; empty for a test. `missed`: of a chat or mail, entries given up or held
    that no message has told of yet. `tries`: how much of its schedule is spent; `attempts`: how often it was tried.
    `created_ns`: since when it is wanted: since its first entry was written, or its owner asked for it again. `lease`:
    the claim it came by, empty for a test."""

    message_id: str
    subscription: SubscriptionRow
    reader: Reader
    lane: Lane
    entries: tuple[Entry, ...]
    missed: int
    tries: int
    created_ns: int
    attempts: int = 0
    lease: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a parcel, and of its lane. `phase`: of all its entries; WAITING: again at `due_ns`. `lane`: as it
    is from now on. `attempt`: None where nothing was sent (its id is ignored). `tries`: how much of its schedule is
    spent from now on. `told`: the entries counted as `missed` have been told of, and are DEAD. `disable`: why the
    subscription is to be switched off, empty where it is not: then whatever waits is held."""

    parcel: Parcel
    phase: EntryPhase
    due_ns: int
    lane: Lane
    attempt: AttemptRow | None
    tries: int
    told: bool = False
    disable: str = ""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many alerts of a subscription wait, are held, and were given up; those that are forgotten do not count."""

    waiting: int
    held: int
    dead: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How delivering stands in all: subscriptions by phase; of the active ones how many `failing`, and how many are
    `late`: something has been due there for a minute and more."""

    phases: Mapping[SubscriptionPhase, int]
    failing: int
    late: int


class Outbox(Protocol):
    """What is to be delivered. Every method may raise `StoreBusy`. Times are the machine's, ns UTC."""

    def attend(self, worker: str, now_ns: int) -> int:
        """Say every few seconds that this worker is there, as long as it is; free the lanes of those that ended without
        a word, where that can be known before their leases run out, and return how many."""
        ...

    def leave(self) -> None:
        """Say that it is there no longer."""
        ...

    def claim(self, worker: str, now_ns: int, lease_ns: int, most: int, most_slow: int) -> Sequence[Parcel]:
        """Lease up to `most` lanes with something due, those first that waited longest, and return a parcel for each;
        of lanes whose last attempt took `SLOW_MS` or more at most `most_slow`.

        Due is an entry whose time has come, of a subscription that is active and whose user is not disabled, in a lane
        that is neither leased nor closed and whose last message is `GATHER_NS` past (or, of `https`, when a full
        message waits). The entries of a message that was tried, or claimed by a worker that died, come together again
        under the same `message_id`; the oldest first. Entries not yet in a message are gathered into a new one, up to
        `MOST_ALERTS` of the target; its `message_id` is on the disk before this returns."""
        ...

    def put_back(self, parcel: Parcel, entries: Sequence[Entry], due_ns: int) -> None:
        """Let entries that were claimed with a parcel and are not to be sent with it be gathered anew, at `due_ns`.
        Done before the others are sent: what is sent under an id stays what it was, whatever happens then. Where these
        are all of them, the lane is free again too. Nothing is done where the lease is lost."""
        ...

    def record(self, done: Sequence[Done]) -> Sequence[Done]:
        """Keep what became of parcels, and free their lanes, in one transaction; return those whose subscription was
        switched off by it. Entries removed meanwhile, and lanes that are leased anew by now, are left as they are; the
        attempt is kept all the same. Where another address was given while it was under way, the lane is not judged by
        it, and what did not arrive at the old one waits for the new one, due now."""
        ...

    def keep_attempt(self, attempt: AttemptRow, lane: Lane | None) -> None:
        """Keep an attempt that is no parcel's: a test; with it, unless None, the lane as it is from now on."""
        ...

    def lane(self, subscription_id: int) -> Lane:
        """How delivering to a subscription stands."""
        ...

    def backlog(self, user_id: int, subscription_id: int) -> Backlog:
        """What there is of one of this user's."""
        ...

    def standing(self, now_ns: int) -> Standing:
        """How it stands with everybody's."""
        ...

    def resend_one(
        self, user_id: int, subscription_id: int, message_id: str, now_ns: int, scope: Scope | None = None
    ) -> int:
        """Let the alerts of one message of this user's wait again, from its first try, under the same id, unless it
        waits already; return how many there are. Those forgotten meanwhile are left out, and
        those of feeds that the scope, if one is given, does not see now."""
        ...

    def resend_failed(
        self, user_id: int, subscription_id: int, since_ns: int, now_ns: int, scope: Scope | None = None
    ) -> int:
        """The same of every entry written since then that is held, missed or dead."""
        ...

    def resend_missing(self, scope: Scope, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """Write entries for alerts recorded since then that one of this user's subscriptions is for and has no entry of
        (it was paused, or made later), of the feeds that the scope sees now; return how many. It reaches back no
        further than `KEPT_NS`, for what arrived before that is not known any more."""
        ...

    def forget_old(self, before_ns: int) -> None:
        """Remove attempts from before then, and entries that ended before, or were wanted before and wait still, behind
        a pause; the newest entry of a subscription and symbol stays, for numbers go on from it."""
        ...
