"""Where a connection stands and what moves it, as one table.

Rules kept: a connection whose login was refused twice, or that the vendor will not have, rests until a person acts; one
that a person has paused does nothing until that person wants it; everything else heals by itself.
"""

from enum import StrEnum

from outcry.connections.model import ConnectionPhase as Phase
from outcry.market.alerts.machine import move


class Sign(StrEnum):
    """What moves a connection."""

    ASKED = "asked"  # a person connects it, resumes it, or gives it other entries
    PAUSED = "paused"  # a person has it rest
    BROKE = "broke"  # no stream of it has a link
    OPENED = "opened"  # history comes
    CURRENT = "current"  # every stream is up to date
    TROUBLED = "troubled"  # some are not
    LOGIN_REFUSED = "login refused"  # twice, so nobody tries again
    REFUSED = "refused"  # the vendor will not have it, for another reason


#: What a connection that is tried does, whatever it did before.
_TRIED = {
    Sign.ASKED: Phase.CONNECTING,
    Sign.PAUSED: Phase.PAUSED,
    Sign.BROKE: Phase.CONNECTING,
    Sign.OPENED: Phase.CATCHING_UP,
    Sign.CURRENT: Phase.LIVE,
    Sign.TROUBLED: Phase.DEGRADED,
    Sign.LOGIN_REFUSED: Phase.NEEDS_SIGN_IN,
    Sign.REFUSED: Phase.FAILED,
}
RUNNING = (Phase.CONNECTING, Phase.CATCHING_UP, Phase.LIVE, Phase.DEGRADED)
RESTING = (Phase.NEEDS_SIGN_IN, Phase.FAILED, Phase.PAUSED)
_BY_PERSONS = (Sign.ASKED, Sign.PAUSED)

TRANSITIONS: dict[tuple[Phase, Sign], Phase] = {
    **{(phase, sign): after for phase in RUNNING for sign, after in _TRIED.items()},
    **{(phase, sign): _TRIED[sign] for phase in RESTING for sign in _BY_PERSONS},
}
#: What rests is followed by nobody, so nothing is heard of it.
NEVER: frozenset[tuple[Phase, Sign]] = frozenset(
    (phase, sign) for phase in RESTING for sign in Sign if sign not in _BY_PERSONS
)


def moved(phase: Phase, sign: Sign) -> Phase:
    """Where a sign leads. Raises for a pair that never happens."""
    return move(TRANSITIONS, phase, sign)
