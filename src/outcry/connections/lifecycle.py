"""The state machine of a broker connection.

A connection stops if the vendor refused the login twice or refused the connection, or if the user paused it. It then
waits for the user. In any other state the service retries automatically.
"""

from enum import StrEnum

from outcry.connections.model import ConnectionPhase as Phase
from outcry.market.alerts.machine import move


class Sign(StrEnum):
    """Event that moves a connection to another phase, such as a lost feed or a user's request."""

    REQUESTED = "asked"  # the user created it, resumed it or changed its credentials
    PAUSED = "paused"  # the user paused it
    BROKE = "broke"  # none of its streams is connected
    OPENED = "opened"  # history is being received
    CURRENT = "current"  # every stream is up to date
    TROUBLED = "troubled"  # some streams are not up to date
    LOGIN_REFUSED = "login refused"  # twice in a row, so it is not retried
    REFUSED = "refused"  # the vendor refused it for another reason


#: Next phase of a running connection, whatever its current phase.
_TRIED = {
    Sign.REQUESTED: Phase.CONNECTING,
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
_BY_PERSONS = (Sign.REQUESTED, Sign.PAUSED)

TRANSITIONS: dict[tuple[Phase, Sign], Phase] = {
    **{(phase, sign): after for phase in RUNNING for sign, after in _TRIED.items()},
    **{(phase, sign): _TRIED[sign] for phase in RESTING for sign in _BY_PERSONS},
}
#: A stopped connection has no streams, so they cannot report anything.
NEVER: frozenset[tuple[Phase, Sign]] = frozenset(
    (phase, sign) for phase in RESTING for sign in Sign if sign not in _BY_PERSONS
)


def moved(phase: Phase, sign: Sign) -> Phase:
    """Return the phase that follows after an event (`Sign`). Raises for a pair that cannot occur."""
    return move(TRANSITIONS, phase, sign)
