"""The scan: a table of every product with its current levels, its last close and its average range.

The answers equal those of `GET /api/symbols` and `GET /api/levels`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outcry.wire.answers import DatedLevel, LevelsAnswer, SymbolState
from outcry.wire.chart import Notation


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One product of the scan (the table of all products), with its current levels.

    `levels` is None if the caller has no access. `close`: the last price of the last completed session.
    `average_range`: the mean range of up to twenty regular sessions. Both are None without such sessions.
    `last_data_at` is the time (ISO 8601 UTC) of the last data of an idle feed. `touched` lists the naked POCs in
    `levels` at which the open session has traded.
    """

    state: SymbolState
    levels: LevelsAnswer | None
    close: float | None
    average_range: float | None
    notation: Notation
    last_data_at: str | None = None
    touched: Sequence[DatedLevel] = ()
