"""One session as it happens: the fold, the alert machines, bias and playbook, driven by one event after the other.

An answer is a fold over trades: what this object says is a function of its `Opening` and the ordered events it was
given, however they were batched. `dump` and `load` cut it anywhere.
"""

from dataclasses import dataclass

from outcry.core.bias import BiasReading
from outcry.core.ladder import Ladder
from outcry.core.opening import Opening
from outcry.core.playbook import LevelLine, ScenarioState
from outcry.core.profile import SessionProfile


@dataclass(frozen=True, slots=True)
class LiveView:
    """A session as it stands, for whoever describes it. Prices in ticks, times ns UTC.

    last_ns: exchange time of the newest event folded in; revision: how often folded trades were amended since.
    overnight: high and low; of an ETH session, its own so far. ib_complete: whether the first 60 minutes are over.
    """

    opening: Opening
    ladder: Ladder
    profile: SessionProfile
    last_ticks: int
    last_ns: int
    ib_complete: bool
    overnight: tuple[int, int] | None
    bias: BiasReading
    levels: tuple[LevelLine, ...]
    scenarios: tuple[ScenarioState, ...]
    revision: int
