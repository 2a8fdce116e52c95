"""Phases of a subscription and their transitions.

For an email address the reader's choice takes precedence over the owner's. A disabled subscription becomes active
only by a successful test.
"""

from dataclasses import replace
from enum import StrEnum

from outcry.delivery.model import SubscriptionPhase, SubscriptionRow
from outcry.market.alerts.machine import move


class Sign(StrEnum):
    """An event that changes the phase of a subscription, such as a pause by its owner."""

    PAUSED = "paused"  # by its owner
    RESUMED = "resumed"  # by its owner
    REFUSED = "refused"  # its endpoint accepts nothing any more
    TEST_PASSED = "test passed"
    CONFIRMED = "confirmed"  # by the reader of its email address
    UNSUBSCRIBED = "unsubscribed"  # by the reader of its email address
    MOVED = "moved"  # its owner changed the address; the new reader has not agreed


_UNCONFIRMED, _ACTIVE = SubscriptionPhase.UNCONFIRMED, SubscriptionPhase.ACTIVE
_PAUSED, _DISABLED = SubscriptionPhase.PAUSED, SubscriptionPhase.DISABLED
#: The last three apply to email only, where the reader's choice takes precedence.
TRANSITIONS: dict[tuple[SubscriptionPhase, Sign], SubscriptionPhase] = {
    (_UNCONFIRMED, Sign.PAUSED): _UNCONFIRMED,
    (_UNCONFIRMED, Sign.RESUMED): _UNCONFIRMED,
    (_UNCONFIRMED, Sign.REFUSED): _UNCONFIRMED,  # an attempt was under way
    (_UNCONFIRMED, Sign.TEST_PASSED): _UNCONFIRMED,
    **{(phase, Sign.UNSUBSCRIBED): _UNCONFIRMED for phase in SubscriptionPhase},
    **{(phase, Sign.MOVED): _UNCONFIRMED for phase in SubscriptionPhase},
    (_UNCONFIRMED, Sign.CONFIRMED): _ACTIVE,
    (_ACTIVE, Sign.CONFIRMED): _ACTIVE,  # pressed twice
    (_PAUSED, Sign.CONFIRMED): _PAUSED,
    (_DISABLED, Sign.CONFIRMED): _DISABLED,
    (_ACTIVE, Sign.PAUSED): _PAUSED,
    (_ACTIVE, Sign.RESUMED): _ACTIVE,  # resumed twice
    (_ACTIVE, Sign.REFUSED): _DISABLED,
    (_ACTIVE, Sign.TEST_PASSED): _ACTIVE,
    (_PAUSED, Sign.PAUSED): _PAUSED,
    (_PAUSED, Sign.RESUMED): _ACTIVE,
    (_PAUSED, Sign.REFUSED): _DISABLED,  # an attempt was under way
    (_PAUSED, Sign.TEST_PASSED): _PAUSED,  # the owner's pause continues
    (_DISABLED, Sign.PAUSED): _DISABLED,
    (_DISABLED, Sign.RESUMED): _DISABLED,  # only a successful test shows that it would work
    (_DISABLED, Sign.REFUSED): _DISABLED,
    (_DISABLED, Sign.TEST_PASSED): _ACTIVE,
}


def moved_on(row: SubscriptionRow, sign: Sign, reason: str = "") -> SubscriptionRow:
    """Return the subscription in the phase that an event (`Sign`) leads to.

    `reason`: code of the new phase. If it is empty and the phase stays, the stored reason stays too.
    """
    phase = move(TRANSITIONS, row.phase, sign)
    return replace(row, phase=phase, reason=reason or (row.reason if phase is row.phase else ""))
