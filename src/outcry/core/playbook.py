"""The playbook: a table of levels and scenarios with conditions a program can check (rules §7)."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Where a scenario stands."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class LevelLine:
    """One line of the table. `side`: `above`, `below` or `at` the last price; distance in ticks, not negative."""

    price_ticks: int
    label: str
    kind: str
    side: str
    distance_ticks: int


@dataclass(frozen=True, slots=True)
class ScenarioState:
    """A scenario: its conditions with prices in ticks, and where it stands."""

    id: str
    if_: str
    then: str
    reference: str
    confirm: str
    invalidate: str
    status: Status
