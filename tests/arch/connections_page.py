"""Writes docs/connections.md: how a connection lives, from the tables it lives by."""

import sys
from collections.abc import Iterator
from itertools import pairwise

from outcry.feeds.link import MOST_REFUSALS
from outcry.ports.connections import ConnectionPhase
from outcry.services.connections.lifecycle import RESTING, TRANSITIONS, Sign
from outcry.services.live.pausing import FIRST_PAUSE_S, LONGEST_PAUSE_S

_PHASES = {
    ConnectionPhase.CONNECTING: "It is being connected, or again after it was lost.",
    ConnectionPhase.CATCHING_UP: "The vendor sends what was traded so far.",
    ConnectionPhase.LIVE: "Every contract is up to date. Answers are live while a session is open.",
    ConnectionPhase.DEGRADED: "Some of it is not: a contract is not sent, or the market data has stopped.",
    ConnectionPhase.NEEDS_SIGN_IN: "The vendor refused the login. Nobody tries again until its owner has acted.",
    ConnectionPhase.FAILED: "The vendor will not have it, for another reason. Its owner has to act.",
    ConnectionPhase.PAUSED: "Its owner has it rest.",
}
_SIGNS = {
    Sign.ASKED: "its owner connects it, has it try again, or gives it other entries",
    Sign.PAUSED: "its owner has it rest",
    Sign.BROKE: "no contract of it has a link",
    Sign.OPENED: "history comes",
    Sign.CURRENT: "every contract is up to date",
    Sign.TROUBLED: "some contracts are not",
    Sign.LOGIN_REFUSED: f"the vendor refused the login {MOST_REFUSALS} times running, or it has ended",
    Sign.REFUSED: "the vendor refuses every contract",
}

_HEAD = """# Connections

A connection is a person's own feed: a vendor or broker, what that needs to be told, and the products it is to bring. It
answers its owner's keys and nobody else's. Which vendors there are: [brokers](brokers.md). What it is made from:
[feeds](feeds.md). Where what was entered is kept: [the vault](vault.md).

This page is made from the tables the program runs by.

## Phases

| phase | what it means |
|---|---|
"""
_BETWEEN = f"""
A phase comes with a **code**, which says why: `live`, `closed`, `link_silent`, `login_refused`, `not_entitled` …
Pages have words and a remedy for each, in the [broker guide](../src/outcry/web/templates/guide); programs find the
code as the `state` of a symbol in `GET /api/symbols` and `GET /api/context`, and among the `reasons` of a 409.

What heals by itself is tried again: after {FIRST_PAUSE_S:g} s, then twice as long each time, up to
{LONGEST_PAUSE_S:g} s, each pause shortened by chance by up to a half, so that many do not come back at once. A link
is lost when it breaks, or when nothing is heard for ten seconds longer than the vendor's own beat. However many
contracts a connection brings, it signs in once.

## What moves it

| sign | when |
|---|---|
"""
_AFTER = """
## After an interruption

A stream goes on from two seconds before the newest trade it has. What comes again is recognised there, by counting
trades that are alike, and the session stays complete. What the vendor cannot bring any more is a hole, and the
session is not complete. Where a vendor brings minutes as bars first and the trades later, trades take the bars'
place; a session that has bars left when it is over is stored as bars, all of it.

A session that ends while nobody follows its feed is stored with its hole, and anew once the feed is back and has
brought the rest. Ending a connection destroys what was entered for it and leaves the sessions it brought: they
answer as `delayed`, to their owner.

A connection made where its owner may see no completed session yet asks the vendor for the last regular session as
well, so that there are prior levels at once.
"""


def diagram() -> Iterator[str]:
    """The table as a Mermaid state diagram. What is tried moves among its phases as its contracts stand, and every
    phase goes to `paused` when its owner says so: told once each, not twelve times."""
    yield "```mermaid\nstateDiagram-v2\n    [*] --> connecting\n    state tried {\n"
    running = [phase for phase in ConnectionPhase if phase not in RESTING]
    for phase, after in pairwise(running):
        yield f"        {phase} --> {after}\n        {after} --> {phase}\n"
    yield "    }\n"
    first = running[0]
    for sign in Sign:
        to = TRANSITIONS[first, sign]
        if to in RESTING:
            yield f"    tried --> {to}: {sign}\n"
    for phase in RESTING:
        yield f"    {phase} --> {TRANSITIONS[phase, Sign.ASKED]}: {Sign.ASKED}\n"
    yield "```\n"


def table() -> Iterator[str]:
    """Where each sign leads from each phase."""
    yield "\n| | " + " | ".join(f"`{sign}`" for sign in Sign) + " |\n|---|" + "---|" * len(Sign) + "\n"
    for phase in ConnectionPhase:
        cells = (TRANSITIONS.get((phase, sign)) for sign in Sign)
        yield f"| `{phase}` | " + " | ".join(f"`{to}`" if to else "never" for to in cells) + " |\n"


def page() -> str:
    """Return the page."""
    phases = "".join(f"| `{phase}` | {_PHASES[phase]} |\n" for phase in ConnectionPhase)
    signs = "".join(f"| `{sign}` | {_SIGNS[sign]} |\n" for sign in Sign)
    return _HEAD + phases + _BETWEEN + signs + "".join(table()) + "\n" + "".join(diagram()) + _AFTER


if __name__ == "__main__":
    sys.stdout.write(page())
