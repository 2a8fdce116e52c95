"""One session of one contract while its rows are read: row counts, profile and traded minutes."""

from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.market.kernels import BulkFold
from outcry.market.ladder import BRACKET_MINUTES, bracket_windows
from outcry.recordings.staged_day import Counts
from outcry.sessions.completeness import Minutes, traded_minutes
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import fold_rows, on_tick, volume_of


class RecordedSession:
    """One session of one contract, whose profile is computed as rows are added."""

    def __init__(self, contract: Contract, session: Session, quality: Quality) -> None:
        self.contract, self.session, self.quality = contract, session, quality
        self.fold = BulkFold(bracket_windows(session.segments, BRACKET_MINUTES))
        self.counts = Counts()
        #: The minutes since 1970 with at least one trade, of each batch of rows.
        self.minutes: list[Minutes] = []

    def add(self, rows: Rows, tick_e9: int, late: int = 0) -> tuple[Rows, Counts]:
        """Add the rows with on-tick prices; return these rows, and the counts of all rows.

        `rows`: in order of time. `late`: how many of them were out of order in the file. Raises `RangeTooWide`.
        """
        good, ticks, off_tick = on_tick(rows, tick_e9, self.quality)
        counts = Counts(len(good), volume_of(good, self.quality), off_tick, late)
        if len(good):
            fold_rows(self.fold, good, ticks, self.quality)
            lots = good["size" if self.quality is Quality.TICKS else "volume"]
            traded = lots > 0
            times = good["ts_event"]
            self.minutes.append(traded_minutes(times if traded.all() else times[traded]))
        self.counts.add(counts, good)
        return good, counts
