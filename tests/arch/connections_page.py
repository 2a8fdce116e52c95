"""Generate the page about connections: `python -m tests.arch.connections_page > docs/reference/connections.md`."""

import sys
from collections.abc import Iterator

from tools.state_tables import connection_diagram

from outcry.base.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S
from outcry.connections.lifecycle import TRANSITIONS, Sign
from outcry.connections.model import ConnectionPhase
from outcry.feeds.shared_session import MAX_REFUSALS

_PHASES = {
    ConnectionPhase.CONNECTING: "The service is connecting, or reconnecting after a lost connection.",
    ConnectionPhase.CATCHING_UP: "The vendor is sending the earlier trades of this session.",
    ConnectionPhase.LIVE: "Every contract is up to date. Answers are live while a session is open.",
    ConnectionPhase.DEGRADED: "Some contracts are not up to date: one is not sent, or its market data has stopped.",
    ConnectionPhase.NEEDS_SIGN_IN: "The vendor refused the login. The service does not retry until the user has acted.",
    ConnectionPhase.FAILED: "The vendor refused the connection for another reason. The user has to act.",
    ConnectionPhase.PAUSED: "The user has paused the connection.",
}
_SIGNS = {
    Sign.REQUESTED: "the user starts or resumes the connection, or enters new credentials",
    Sign.PAUSED: "the user pauses the connection",
    Sign.BROKE: "no contract has a connection to the vendor any more",
    Sign.OPENED: "the vendor sends past trades",
    Sign.CURRENT: "every contract is up to date",
    Sign.TROUBLED: "some contracts are not up to date",
    Sign.LOGIN_REFUSED: f"the vendor refused the login {MAX_REFUSALS} times in a row, or the login has expired",
    Sign.REFUSED: "the vendor refuses every contract",
}

_HEAD = """# Connections

A connection is a user's own feed: a vendor or broker, its credentials, and the products to stream. Only the user's own
API keys see its data. See [brokers](../guides/brokers.md) for the supported vendors, [feeds](../contribute/feeds.md)
for how feeds work, and [vault](../guides/vault.md) for how credentials are stored.

This page is generated from the tables that the program uses.

## Phases

| phase | what it means |
|---|---|
"""
_BETWEEN = f"""
Each phase has a **code** that gives the reason: `live`, `closed`, `link_silent`, `login_refused`, `not_entitled` …
A running service explains each code and what to do on its page `/broker-guide`. Programs find the code as the `state`
of a symbol in `GET /api/symbols` and `GET /api/context`, and in the `reasons` of a 409 response.

The service retries temporary faults with exponential backoff: after {FIRST_PAUSE_S:g} s, doubling up to
{LONGEST_PAUSE_S:g} s. Random jitter shortens each pause by up to half, so that connections do not return all at once.
A connection counts as lost when it breaks, or when no message arrives for ten seconds longer than the vendor's
heartbeat interval. A connection signs in once, however many contracts it streams.

## What changes the phase

A *sign* is an event that can change the phase:

| sign | when |
|---|---|
"""
_AFTER = """
## After an interruption

A stream resumes two seconds before its newest trade. The service recognises repeated trades by counting identical
ones, and the session stays complete. Trades that the vendor can no longer send leave a gap, and the session is not
complete. Some vendors send one-minute bars first and the trades later; the trades then replace the bars. If a session
still has bars when it ends, the service stores the whole session as bars.

If a session ends while the feed is disconnected, the service stores it with its gap. When the feed is back and has sent
the missing trades, the service stores the session again. If the user
disconnects the broker, the service deletes the credentials and keeps the recorded sessions. The user still sees them,
with `dataSource` set to `delayed`.

If the user has no completed session yet, a new connection also requests the last regular session from the vendor. The
user then has prior levels at once.
"""


def diagram() -> str:
    """Return the picture of the phases, and its explanation."""
    found = connection_diagram()
    return (
        f"![{found.title}](../images/{found.file_name})\n\nThe picture shows the usual order. "
        "The service can also change from any phase in the dashed frame to any other one there.\n"
    )


def table() -> Iterator[str]:
    """Return the table of the target phase by signal and phase."""
    yield "\nThe next table gives the phase after each sign. *never* means that the sign cannot occur in this phase.\n"
    yield (
        "\n| phase before | "
        + " | ".join(f"`{sign}`" for sign in Sign)
        + " |\n|---|"
        + "---|" * len(Sign)
        + "\n"
    )
    for phase in ConnectionPhase:
        cells = (TRANSITIONS.get((phase, sign)) for sign in Sign)
        yield f"| `{phase}` | " + " | ".join(f"`{to}`" if to else "never" for to in cells) + " |\n"


def page() -> str:
    """Return the page."""
    phases = "".join(f"| `{phase}` | {_PHASES[phase]} |\n" for phase in ConnectionPhase)
    signs = "".join(f"| `{sign}` | {_SIGNS[sign]} |\n" for sign in Sign)
    return _HEAD + phases + _BETWEEN + signs + "".join(table()) + "\n" + diagram() + _AFTER


if __name__ == "__main__":
    sys.stdout.write(page())
