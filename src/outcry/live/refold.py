"""Computes a session again from its stream's log entries, after trades were cancelled, corrected or replaced."""

from collections.abc import Iterable

from outcry.live import entries as log
from outcry.live.amendments import amended_rows
from outcry.market.kernels import BulkFold
from outcry.market.ladder import BRACKET_MINUTES, MAX_SESSION_ROWS, Ladder, RangeTooWide, bracket_windows
from outcry.market.opening import Opening
from outcry.trades.records import Quality
from outcry.trades.rows import fold_rows, on_tick


def refolded(opening: Opening, history: Iterable[log.LogEntry], tick_e9: int) -> Ladder | None:
    """Compute a session's ladder again from log entries; return None if none of its trades remains.

    history: the entries since the session opened. tick_e9: the tick of the product. Raises `RangeTooWide`.
    """
    fold = BulkFold(bracket_windows(opening.segments, BRACKET_MINUTES))
    for entry in amended_rows(list(history)):
        rows = entry.rows
        of_session = rows[(rows["ts_event"] >= opening.open_ns) & (rows["ts_event"] < opening.close_ns)]
        if len(of_session):
            quality = entry.quality if isinstance(entry, log.BarRows) else Quality.TICKS
            valid, ticks, _ = on_tick(of_session, tick_e9, quality)
            fold_rows(fold, valid, ticks, quality)
    ladder = fold.ladder()
    if ladder is not None and len(ladder.volume) > MAX_SESSION_ROWS:
        raise RangeTooWide(ladder.low_ticks, ladder.high_ticks, MAX_SESSION_ROWS)
    return ladder
