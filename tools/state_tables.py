"""State diagrams of the documents, from the transition tables of the program."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple, TypeVar

from outcry.connections.lifecycle import RESTING, Sign
from outcry.connections.lifecycle import TRANSITIONS as CONNECTION
from outcry.connections.model import ConnectionPhase
from outcry.market import bias, scenarios
from outcry.market.alerts import ib_break, naked_poc, poor, va_accept, va_reject, va_test

P = TypeVar("P", bound=StrEnum)
S = TypeVar("S", bound=StrEnum)

#: The families of alerts in the order in which one event fires their alerts.
FAMILIES: dict[str, ModuleType] = {
    "ib-break": ib_break, "va-reject": va_reject, "va-accept": va_accept, "naked-poc": naked_poc, "va-test": va_test,
    "poor": poor,
}  # fmt: skip
#: A state that stands for every state of a group.
ANY = "any of these"


class Transition(NamedTuple):
    """A change from one state to another, and the sign that causes it."""

    of: str
    to: str
    sign: str


@dataclass(frozen=True)
class StateDiagram:
    """States in reading order, of which the first is the initial one, and their transitions.

    group: the number of states at the beginning for which the state `ANY` stands; it follows them. 0 for no group.
    """

    name: str
    title: str
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]
    group: int = 0

    @property
    def file_name(self) -> str:
        """Name of the picture in docs/images."""
        return f"states-{self.name}.svg"

    @property
    def final(self) -> frozenset[str]:
        """The states that no transition leaves."""
        return frozenset(self.states) - {one.of for one in self.transitions}


def _from_table(name: str, title: str, phases: type[P], table: Mapping[tuple[P, S], P]) -> StateDiagram:
    """Return the diagram of a table, without transitions from a state to itself."""
    transitions = tuple(Transition(of, to, sign) for (of, sign), to in table.items() if of is not to)
    return StateDiagram(name, title, tuple(phases), transitions)


def alert_diagram(family: str) -> StateDiagram:
    """Return the diagram of a family of alerts."""
    module = FAMILIES[family]
    return _from_table(family, f"States of {family} alerts", module.Phase, module.TRANSITIONS)


def bias_diagram() -> StateDiagram:
    """Return the diagram of the bias."""
    return _from_table("bias", "States of the bias", bias.Phase, bias.TRANSITIONS)


def scenario_diagram() -> StateDiagram:
    """Return the diagram of a scenario of the playbook."""
    return _from_table("scenario", "States of a scenario", scenarios.Phase, scenarios.TRANSITIONS)


def connection_diagram() -> StateDiagram:
    """Return the diagram of a broker connection.

    Every running phase can follow every other one, by signs of the vendor. The diagram shows the usual order instead of
    these twelve transitions, and has one transition for all running phases where they agree.
    """
    running = [phase for phase in ConnectionPhase if phase not in RESTING]
    usual = [(a, b) for pair in pairwise(running) for a, b in (pair, pair[::-1])]
    signs = {to: sign for (_, sign), to in CONNECTION.items() if to in running and sign is not Sign.REQUESTED}
    resting = [phase for phase in ConnectionPhase if phase in RESTING]
    leaving = [Transition(ANY, to, sign) for sign in Sign if (to := CONNECTION[running[0], sign]) in RESTING]
    resumed = [Transition(of, CONNECTION[of, Sign.REQUESTED], Sign.REQUESTED) for of in resting]
    return StateDiagram(
        "connection", "Phases of a connection", (*running, ANY, *resting),
        (*(Transition(of, to, signs[to]) for of, to in usual), *leaving, *resumed), len(running),
    )  # fmt: skip


def diagrams() -> Iterator[StateDiagram]:
    """Yield every diagram of the documents."""
    yield from map(alert_diagram, FAMILIES)
    yield bias_diagram()
    yield scenario_diagram()
    yield connection_diagram()
