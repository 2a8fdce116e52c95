"""Determine which sessions are complete, by comparing each with recent sessions of its product."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.market.windows import merged
from outcry.recordings.session_splitting import ImportContext
from outcry.sessions.completeness import RECENT, Minutes, Usual, by_minute, unexplained
from outcry.sessions.store_model import SessionRow, Traded
from outcry.trades.coverage import GRACE_NS, Span
from outcry.trades.records import Quality

#: Open (ns UTC), source and quality of a session of one product, for any of its contracts.
RecordingKey = tuple[int, str, Quality]


@dataclass(frozen=True, slots=True)
class FoldedSession:
    """A computed session of which it is not determined yet whether it is complete or has holes (missing data).

    `uncovered`: the spans (ns UTC) of the session that its recordings do not cover. `from_feed`: the recordings come
    from a live feed, which was unavailable in those spans.
    """

    row: SessionRow
    session: Session
    contract: Contract
    minutes: Minutes
    uncovered: Sequence[Span]
    from_feed: bool

    @property
    def recording(self) -> RecordingKey:
        """Return the key of the recording that the session was computed from."""
        return self.row.open_ns, self.row.source, self.row.quality


def minutes_by_recording(folded: Iterable[FoldedSession]) -> dict[RecordingKey, dict[Contract, Minutes]]:
    """Return the minutes in which each contract traded, by recording."""
    found: dict[RecordingKey, dict[Contract, Minutes]] = {}
    for one in folded:
        found.setdefault(one.recording, {})[one.contract] = one.minutes
    return found


class CompletenessCheck:
    """Determines which sessions are complete, by comparing each with recent sessions of its product.

    Pass sessions in order of time. `stored`: whether to compare a session with those in the store too; otherwise it is
    compared only with sessions that this object has processed.
    """

    def __init__(self, context: ImportContext, owner: int, now_ns: int, *, stored: bool) -> None:
        self._context, self._owner, self._now_ns, self._stored = context, owner, now_ns, stored
        self._recorded: dict[str, list[Traded]] = {}

    def judge(self, folded: FoldedSession, recorded: Mapping[Contract, Minutes]) -> SessionRow:
        """Return the session's database row, with its holes (missing data) and whether the session is complete.

        A session that is not over yet stays incomplete without holes. `recorded`: the traded minutes of all contracts
        in the same recording. If the front contract is one of them, the minutes of all contracts together reveal holes.
        This finds holes in a contract that trades too rarely to reveal them itself.
        """
        row, session = folded.row, folded.session
        if self._now_ns < session.close_ns + GRACE_NS:
            return row
        product = self._context.universe.products[row.root]
        recent = self._of(row.root, row.trade_date)
        front = self._context.universe.front(row.root, row.trade_date)
        minutes = folded.minutes
        if front != folded.contract and front in recorded:
            minutes = by_minute(list(recorded.values()))
        gaps = unexplained(
            minutes, session, product, Usual(product, session, recent),
            front=front in {folded.contract, *recorded}, uncovered=folded.uncovered,
        )  # fmt: skip
        holes = merged([*gaps, *(folded.uncovered if folded.from_feed else ())])
        return replace(row, holes=holes, complete=not holes)

    def note(self, row: SessionRow) -> None:
        """Add a complete session to those with which later sessions are compared; ignore an incomplete one."""
        if row.complete:
            known = self._of(row.root, row.trade_date)
            known.append(Traded(row.contract, row.trade_date, row.kind, row.volume, row.activity))

    def _of(self, root: str, day: date) -> list[Traded]:
        if root not in self._recorded:
            found = (
                self._context.store.traded(self._owner, root, day - RECENT, date.max) if self._stored else []
            )
            self._recorded[root] = list(found)
        return self._recorded[root]
