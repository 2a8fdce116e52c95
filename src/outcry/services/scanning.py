"""The scan universe in one look: what each product is answered now, and by what its distances are measured.

Rule kept: the same answers as `GET /api/symbols` and `GET /api/levels` give, put side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outcry.services.answers import DatedLevel, LevelsAnswer, SymbolState
from outcry.services.chart_answer import Notation


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One product. `levels`: None where nothing may be seen of it. `close`: last price of the newest completed session;
    `average_range`: of up to twenty regular sessions; both None where there are none. `heard`:
    when its feed last brought anything (ISO 8601 UTC), where that has fallen silent. `touched`: of the naked POCs in
    `levels`, those the open session has traded at."""

    state: SymbolState
    levels: LevelsAnswer | None
    close: float | None
    average_range: float | None
    notation: Notation
    heard: str | None = None
    touched: Sequence[DatedLevel] = ()
