"""Answers `GET /api/match`: which settings of a profile reproduce the levels of another platform.

The search counts the trades on the tape. If they are gone, as in the demo, it counts the stored profile.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from outcry.access.licences import Scope
from outcry.answers.live_answers import QueryResult
from outcry.answers.match_words import reason, wire_name
from outcry.answers.selection import ResolvedSymbol, Selector
from outcry.base.errors import NotFound, Occupied
from outcry.market.bar_columns import BarColumns, Columns, TradeColumns
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.instruments import Product
from outcry.market.matching.counting import RecordingCounts
from outcry.market.matching.hours import choices
from outcry.market.matching.nearest import Match
from outcry.market.matching.rows import LadderCounts
from outcry.market.matching.search import Found, Window, search
from outcry.market.matching.setting import EXACT, Setting, default_setting, differences
from outcry.market.matching.target import Target
from outcry.market.windows import Segment, clipped
from outcry.recordings.session_trades import ReadTape
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.session_history import StoredSession
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import RecordingRow
from outcry.sessions.visible_sessions import VisibleSessions
from outcry.trades.coverage import uncovered
from outcry.trades.records import Rows
from outcry.wire.answers import number
from outcry.wire.match import GivenLevels, MatchAnswer, MatchedSetting, SettingDifference

#: Trade dates before and after a session whose recordings may have trades of its hours.
_BEFORE, _AFTER = timedelta(days=10), timedelta(days=4)
#: Hours of other contracts of the product; a chart of the wrong contract has usual hours.
_OTHER_HOURS = frozenset({"rth", "full", "trade_date"})
_MAX_OTHER_CONTRACTS = 2
#: A recording covers hours if it lacks no more than this share of their trading time.
_MAX_MISSING = 10
_RETRY_MS = 2_000


@dataclass(frozen=True, slots=True)
class GivenPrices:
    """The levels of the other platform in 10⁻⁹."""

    poc_e9: int
    vah_e9: int
    val_e9: int
    vpoc_e9: int | None


@dataclass(frozen=True, slots=True)
class _Counted:
    """The windows that can be searched, the hours that cannot, and what was counted."""

    windows: Sequence[Window]
    missing: Sequence[str]
    recorded: bool


class Matches:
    """Answers searches. Thread-safe; one search runs at a time, because it uses a core for up to two seconds."""

    def __init__(
        self, store: SqlStore, calendar: Calendar, selector: Selector, read_tape: ReadTape | None
    ) -> None:
        self._store, self._calendar, self._selector, self._read_tape = store, calendar, selector, read_tape
        self._searching = threading.Lock()

    def answer(
        self, scope: Scope, named: ResolvedSymbol, day: date, given: GivenPrices, now_ns: int
    ) -> QueryResult[MatchAnswer]:
        """Answer for a completed regular session. Raises `NotFound`, `NoLicensedSource` and `Occupied`."""
        completed = self._selector.completed(scope, named, now_ns)
        session = next((s.session for s in completed.sessions if s.trade_date == day), None)
        if session is None:
            raise NotFound("not_found.session", symbol=completed.product.root, date=str(day))
        if not self._searching.acquire(blocking=False):
            raise Occupied("rate_limited.match", retry_after_ms=_RETRY_MS)
        try:
            counted = self._counted(scope, completed.product, completed.visible, session, now_ns)
            target = Target(
                given.poc_e9, given.val_e9, given.vah_e9, given.vpoc_e9, completed.product.tick_e9
            )
            found = search(counted.windows, target, session.contract.key)
        finally:
            self._searching.release()
        answer = _answer(completed.product, session, given, counted, found)
        return QueryResult(answer, completed.fresh_until_ns)

    def _counted(
        self, scope: Scope, product: Product, visible: VisibleSessions, session: StoredSession, now_ns: int
    ) -> _Counted:  # fmt: skip
        hours = choices(self._calendar, product.root, session.row.trade_date)
        try:
            windows = self._recorded(scope, product, session, hours, now_ns)
        except TapeDamaged:  # the stored profile remains; `outcry doctor` reports the file
            windows = []
        recorded = any(window.hours == "rth" for window in windows)
        if not recorded:
            windows = list(_stored(visible, session))
        else:
            for other in visible.on(session.row.trade_date, session.contract)[:_MAX_OTHER_CONTRACTS]:
                usual = {name: segments for name, segments in hours.items() if name in _OTHER_HOURS}
                windows += self._recorded(scope, product, other, usual, now_ns)
        own = {window.hours for window in windows if window.contract == session.contract.key}
        return _Counted(windows, [name for name in hours if name not in own], recorded)

    def _recorded(
        self, scope: Scope, product: Product, session: StoredSession, hours: Mapping[str, Sequence[Segment]],
        now_ns: int,
    ) -> list[Window]:  # fmt: skip
        """Return the windows of a contract whose trades are on the tape and visible to the caller."""
        if self._read_tape is None:
            return []
        row = session.row
        first, last = row.trade_date - _BEFORE, row.trade_date + _AFTER
        recordings = [
            recording
            for recording in self._store.recordings(row.owner, row.contract, first, last)
            if (recording.source, recording.quality) == (row.source, row.quality)
            and self._may_see(scope, recording, product.root, now_ns)
        ]
        covered = {
            name: segments
            for name, segments in hours.items()
            if self._covers(recordings, product.root, segments)
        }
        if not covered:
            return []
        start = min(segments[0][0] for segments in covered.values())
        end = max(segments[-1][1] for segments in covered.values())
        files = [r.file for r in recordings if r.first_ns < end and r.last_ns >= start]
        columns = _columns(self._read_tape(files, row.quality), product.tick_e9)
        counted = {name: RecordingCounts(columns, segments) for name, segments in covered.items()}
        return [Window(row.contract, name, counts) for name, counts in counted.items() if not counts.is_empty]

    def _may_see(self, scope: Scope, recording: RecordingRow, root: str, now_ns: int) -> bool:
        """Return whether a caller may see a whole recorded trade date: embargoes begin at its end."""
        (day, *_) = self._calendar.trading_days(root, recording.trade_date, recording.trade_date) or (None,)
        closes_ns = recording.last_ns if day is None else day.close_ns
        return scope.may_see(recording.owner, root, recording.trade_date, closes_ns, now_ns)

    def _covers(self, recordings: Sequence[RecordingRow], root: str, segments: Sequence[Segment]) -> bool:
        """Return whether recordings have almost all of the trading time in some windows."""
        trading = [
            part
            for day in self._calendar.trade_dates(root, segments[0][0], segments[-1][1])
            for start, end in segments
            for part in clipped(day.segments, start, end)
        ]
        if not trading:
            return False
        whole = Session(root, date.min, SessionKind.RTH, tuple(sorted(trading)), short=False)
        spans = [span for recording in recordings for span in recording.spans]
        missing = sum(end - start for start, end in uncovered(spans, whole))
        return missing * _MAX_MISSING <= sum(end - start for start, end in trading)


def _stored(visible: VisibleSessions, session: StoredSession) -> Iterator[Window]:
    """Yield the windows that stored profiles have."""
    key, overnight = session.contract.key, visible.overnight_of(session)
    yield Window(key, "rth", LadderCounts([session.ladder]))
    if overnight is not None:
        yield Window(key, "full", LadderCounts([overnight.ladder, session.ladder]))
        yield Window(key, "overnight", LadderCounts([overnight.ladder]))


def _columns(rows: Rows, tick_e9: int) -> Columns:
    """Return rows of the tape, whose prices are multiples of the tick, as columns in ticks."""
    names = rows.dtype.names or ()
    if "price" in names:
        return TradeColumns(rows["ts_event"], rows["price"] // tick_e9, rows["size"])
    opened, high, low, close = (rows[name] // tick_e9 for name in ("open", "high", "low", "close"))
    return BarColumns(rows["ts_event"], opened, high, low, close, rows["volume"].astype("int64"))


def _answer(
    product: Product, session: StoredSession, given: GivenPrices, counted: _Counted, found: Found
) -> MatchAnswer:  # fmt: skip
    trades = any(window.counts.finest == EXACT for window in counted.windows)
    ours, tick_e9 = default_setting(session.contract.key), product.tick_e9
    matches = [_matched(match, ours, tick_e9, trades=trades) for match in found.matches]
    own = [window.hours for window in counted.windows if window.contract == ours.contract]
    return MatchAnswer(
        symbol=product.root,
        contract=ours.contract,
        date=str(session.row.trade_date),
        tick_size=number(tick_e9),
        recording="profile" if not counted.recorded else "trades" if trades else "bars",
        given=GivenLevels(
            poc=number(given.poc_e9), vah=number(given.vah_e9), val=number(given.val_e9),
            vpoc=None if given.vpoc_e9 is None else number(given.vpoc_e9),
        ),
        exact=bool(matches) and matches[0].distance == 0,
        ours=found.ours and _matched(found.ours, ours, tick_e9, trades=trades),
        matches=matches,
        searched=own,
        not_searched=list(counted.missing),
    )  # fmt: skip


def _matched(match: Match, ours: Setting, tick_e9: int, *, trades: bool) -> MatchedSetting:
    setting, method = match.setting, match.setting.method

    def price(half_ticks: int) -> float:
        return number(half_ticks * tick_e9 // 2)

    return MatchedSetting(
        distance=match.distance, poc=price(match.numbers.poc), vah=price(match.numbers.vah),
        val=price(match.numbers.val), vpoc=price(match.numbers.vpoc), alike=match.alike, preset=setting.preset,
        contract=setting.contract, hours=setting.hours, basis=method.basis, placement=method.placement,
        bars=setting.sampling.bar_minutes, row=setting.row_ticks, row_count=setting.row_count,
        shift=setting.shift_ticks, label=setting.label, percent=method.percent,
        step=method.step, pair=method.pair, side_tie=method.side_tie, stop=method.stop, poc_tie=method.poc_tie,
        rows=method.rows,
        differences=[
            SettingDifference(
                part=wire_name(part), value=value, ours=other,
                reason=reason(wire_name(part), value, other, str, basis=method.basis, placement=method.placement),
            )
            for part, value, other in differences(setting, ours, trades=trades)
        ],
    )  # fmt: skip
