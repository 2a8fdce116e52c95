"""Texts for the status of feeds and connections: the effect on the user's symbols, and the next step.

A stream has the same status labels as a symbol (`status_labels`). A connection has a label for each phase. A code has
the same text on every page.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from outcry.connections.model import CheckStep, ConnectionPhase, ConnectionRow, Finding
from outcry.connections.pushed import PUSHED
from outcry.web.account.vendor_words import code_means, cure_of, guide_address
from outcry.web.language import Words, later
from outcry.web.status_labels import Kind, StatusLabel, status_label

#: Style and label of each phase.
_PHASES: Mapping[ConnectionPhase, tuple[Kind, str]] = {
    ConnectionPhase.CONNECTING: ("connecting", later("Connecting")),
    ConnectionPhase.CATCHING_UP: ("connecting", later("Catching up")),
    ConnectionPhase.LIVE: ("live", later("Connected")),
    ConnectionPhase.DEGRADED: ("stale", later("Degraded")),
    ConnectionPhase.NEEDS_SIGN_IN: ("delayed", later("Sign-in required")),
    ConnectionPhase.FAILED: ("error", later("Failed")),
    ConnectionPhase.PAUSED: ("closed", later("Paused")),
}
#: Phases that wait for the user. `PAUSED` is not one, because the user chose it.
WAITING = frozenset({ConnectionPhase.NEEDS_SIGN_IN, ConnectionPhase.FAILED})
PHASE_WORDS: Mapping[ConnectionPhase, str] = {phase: word for phase, (_, word) in _PHASES.items()}
_DELAYED = later(
    "Until then, its symbols show completed sessions (delayed) unless another feed provides them."
)
#: What each phase means for the symbols of the connection.
_ANSWERS: Mapping[ConnectionPhase, str] = {
    ConnectionPhase.CONNECTING: _DELAYED,
    ConnectionPhase.CATCHING_UP: _DELAYED,
    ConnectionPhase.LIVE: later("Its symbols are live while their sessions are open."),
    ConnectionPhase.DEGRADED: later("Symbols that still receive data are live. The others are delayed."),
    ConnectionPhase.NEEDS_SIGN_IN: _DELAYED,
    ConnectionPhase.FAILED: _DELAYED,
    ConnectionPhase.PAUSED: _DELAYED,
}
#: Next step and URL for each code. Codes that end without the user are not listed.
_STEPS: Mapping[str, tuple[str, str]] = {
    "no_connection": (later("Connect a broker or send trades"), "/account/brokers"),
    "unsubscribed": (later("View incoming data"), "/account/brokers"),
    "stale_link": (later("View incoming data"), "/account/brokers"),
    "degraded": (later("View incoming data"), "/account/brokers"),
    "disconnected": (later("View connection status"), "/account/brokers"),
    "ended": (later("Restart the feed"), "/account/brokers"),
    "no_prior": (later("Import an earlier session"), "/broker-guide"),
    **dict.fromkeys(
        (
            "login_refused", "login_expired", "not_entitled", "unknown_contract", "too_many_sessions",
            "not_allowed", "wrong_entry",
        ),
        (later("View the vendor's error and how to fix it"), "/account/brokers"),
    ),
}  # fmt: skip
#: Codes for which the connection page shows the step from `_STEPS`, because no vendor remedy exists.
_OF_THE_READER = frozenset({"no_prior", "ended"})
#: Steps of a connection check.
STEPS: Mapping[CheckStep, str] = {
    CheckStep.SIGN_IN: later("Sign-in"),
    CheckStep.SUBSCRIBED: later("Contract data"),
    CheckStep.HISTORY: later("Trade history"),
    CheckStep.LIVE: later("Current data"),
}
#: Findings of a check that are not connection codes.
_FOUND: Mapping[str, str] = {
    "ok": later("OK."),
    "ticks": later("Individual trades: levels are exact."),
    "bars_1s": later("One-second bars: levels are nearly exact, volume by price is estimated."),
    "bars_1m": later("One-minute bars: highs and lows are exact, volume by price is estimated."),
    "none": later("No history: a session is complete only if the connection was up from its open."),
    "closed": later("The market is closed, so no data is expected."),
    "not_tried": later("Not tested because an earlier step failed."),
}


@dataclass(frozen=True, slots=True)
class Explained:
    """Explanation of a code that a feed reported.

    It states the meaning of the code, its effect on the symbols and what to do, with a link to the guide.
    """

    code: str
    means: str
    answers: str
    cure: str
    href: str


@dataclass(frozen=True, slots=True)
class Found:
    """A finding of a connection check, in words. `passed`: None if the step was not tested."""

    step: str
    contract: str
    passed: bool | None
    code: str
    means: str
    cure: str
    href: str


def connection_state(words: Words, row: ConnectionRow) -> StatusLabel:
    """Return the status label of a connection.

    A feed that has ended is in phase `PAUSED` although no user paused it, so its label is "Ended".
    """
    kind, word = _PHASES[row.phase]
    named = words("Ended") if row.code == "ended" else words(word)
    return StatusLabel(
        row.code, kind, named, _reason(words, row.code), guide_address(vendor_of(row), row.code)
    )


def explained(words: Words, row: ConnectionRow) -> Explained:
    """Return the explanation of a connection's current code: its meaning, its effect and what to do."""
    vendor = vendor_of(row)
    cure, answers = cure_of(words, vendor, row.code), words(_ANSWERS[row.phase])
    if not cure and row.code in _OF_THE_READER:
        cure = f"{words(_STEPS[row.code][0])}."
    return Explained(row.code, _reason(words, row.code), answers, cure, guide_address(vendor, row.code))


def vendor_of(row: ConnectionRow) -> str:
    """Return the vendor id of a connection; for a feed that the user's program pushes, the label is this id."""
    return row.label if row.broker == PUSHED else row.broker


def found(words: Words, broker: str, finding: Finding) -> Found:
    """Return a finding of a connection check in words."""
    text = _FOUND.get(finding.code)
    return Found(
        words(STEPS[finding.step]), finding.contract, finding.passed, finding.code,
        words(text) if text else _reason(words, finding.code),
        "" if finding.passed or text else cure_of(words, broker, finding.code),
        "" if finding.passed or text else guide_address(broker, finding.code),
    )  # fmt: skip


def _reason(words: Words, code: str) -> str:
    return code_means(words, code) or status_label(words, code).reason


def next_step(words: Words, code: str) -> tuple[str, str] | None:
    """Return what the user can do about a code, and a URL for it; None if the user need not act."""
    known = _STEPS.get(code)
    return (words(known[0]), known[1]) if known else None
