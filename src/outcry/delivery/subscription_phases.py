"""Where a subscription stands, and what moves it.

Rules kept: of an e-mail address the reader's word goes before the owner's; one that is disabled is active again only by
a test that arrives.
"""

from dataclasses import replace
from enum import StrEnum

from outcry.delivery.model import SubscriptionPhase, SubscriptionRow
from outcry.market.alerts.machine import move


class Sign(StrEnum):
    """What moves a subscription."""

    PAUSED = "paused"  # by its owner
    RESUMED = "resumed"  # by its owner
    REFUSED = "refused"  # its endpoint will not take anything any more
    TEST_PASSED = "test passed"
    CONFIRMED = "confirmed"  # by whoever reads at its address
    UNSUBSCRIBED = "unsubscribed"  # by whoever reads at its address
    MOVED = "moved"  # its owner gave it another address, whose reader has not been asked


_UNCONFIRMED, _ACTIVE = SubscriptionPhase.UNCONFIRMED, SubscriptionPhase.ACTIVE
_PAUSED, _DISABLED = SubscriptionPhase.PAUSED, SubscriptionPhase.DISABLED
#: The last three are of e-mail alone, where the reader's word goes before the owner's.
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
    (_ACTIVE, Sign.RESUMED): _ACTIVE,  # asked twice
    (_ACTIVE, Sign.REFUSED): _DISABLED,
    (_ACTIVE, Sign.TEST_PASSED): _ACTIVE,
    (_PAUSED, Sign.PAUSED): _PAUSED,
    (_PAUSED, Sign.RESUMED): _ACTIVE,
    (_PAUSED, Sign.REFUSED): _DISABLED,  # an attempt was under way
    (_PAUSED, Sign.TEST_PASSED): _PAUSED,  # its owner's pause holds
    (_DISABLED, Sign.PAUSED): _DISABLED,
    (_DISABLED, Sign.RESUMED): _DISABLED,  # only a test that passes tells that it would be of use
    (_DISABLED, Sign.REFUSED): _DISABLED,
    (_DISABLED, Sign.TEST_PASSED): _ACTIVE,
}


def moved_on(row: SubscriptionRow, sign: Sign, reason: str = "") -> SubscriptionRow:
    """The subscription after a sign. `reason`: why it stands where it then does; without one, what it says if it stays
    where it is."""
    phase = move(TRANSITIONS, row.phase, sign)
    return replace(row, phase=phase, reason=reason or (row.reason if phase is row.phase else ""))
