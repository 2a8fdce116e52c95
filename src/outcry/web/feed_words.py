"""How feeds and connections stand, in words, and the one step that changes it.

Rule kept: a stream's state is worded as a symbol's is (`states`); a connection's phase has a word and a shape of its
own, and its code the same reason everywhere.
"""

from collections.abc import Mapping

from outcry.ports.connections import ConnectionPhase, ConnectionRow
from outcry.web.language import Words, later
from outcry.web.states import Kind, State, state_of

#: Shape and colour of a phase, and its word.
_PHASES: Mapping[ConnectionPhase, tuple[Kind, str]] = {
    ConnectionPhase.CONNECTING: ("connecting", later("Connecting")),
    ConnectionPhase.CATCHING_UP: ("connecting", later("Catching up")),
    ConnectionPhase.LIVE: ("live", later("Connected")),
    ConnectionPhase.DEGRADED: ("stale", later("In trouble")),
    ConnectionPhase.NEEDS_SIGN_IN: ("delayed", later("Sign-in needed")),
    ConnectionPhase.FAILED: ("error", later("Failed")),
    ConnectionPhase.PAUSED: ("closed", later("Ended")),
}
#: What the reader can do about a state, and where; one that passes by itself is not here.
_STEPS: Mapping[str, tuple[str, str]] = {
    "no_connection": (later("Connect a broker, or send your own trades"), "/account/brokers"),
    "unsubscribed": (later("See what your feeds send"), "/account/brokers"),
    "stale_link": (later("See what your feeds send"), "/account/brokers"),
    "degraded": (later("See what your feeds send"), "/account/brokers"),
    "disconnected": (later("See why the connection is lost"), "/account/brokers"),
    "ended": (later("Start the feed again"), "/account/brokers"),
    "no_prior": (later("Import a session from before it"), "/broker-guide"),
}


def connection_state(words: Words, row: ConnectionRow) -> State:
    """How a connection stands, for a chip."""
    kind, word = _PHASES[row.phase]
    return State(row.code, kind, words(word), state_of(words, row.code).reason, "/broker-guide")


def next_step(words: Words, code: str) -> tuple[str, str] | None:
    """What the reader can do about a state, and the address where; None where it passes by itself."""
    found = _STEPS.get(code)
    return (words(found[0]), found[1]) if found else None
