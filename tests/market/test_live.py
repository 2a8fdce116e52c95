"""A live session yields the same, however its trades were batched, where it was restored, and how often it was read."""

from bisect import bisect_right
from dataclasses import replace
from datetime import date
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcry.market.alerts.machine import Fired
from outcry.market.bias import Bias, BiasReading, Votes
from outcry.market.calendar import SessionKind
from outcry.market.kernels import BulkFold
from outcry.market.ladder import Ladder, bracket_windows
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.live_session import CLOSE_DELAY_NS, Capture, LiveSession
from outcry.market.opening import Opening, Prior
from outcry.market.snapshot import SnapshotMismatch
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

OPEN = 1_767_364_200_000_000_000  # 2026-01-02 09:30 New York
RTH = ((OPEN, OPEN + 405 * NANOS_PER_MINUTE),)
DAY, BEFORE = date(2026, 1, 2), date(2025, 12, 31)
OPENING = Opening(
    contract="ESH2026", root="ES", kind=SessionKind.RTH, trade_date=DAY, segments=RTH, short=False,
    prior=Prior(BEFORE, 1000, 1020, 980, 1040, 960, 1010),
    carried=CarriedLevels(
        (CarriedLevel(1000, BEFORE, 1), CarriedLevel(970, date(2025, 12, 30), 2)),
        (CarriedLevel(1040, BEFORE, 1),), (CarriedLevel(960, BEFORE, 1),),
    ),
    overnight=(1030, 990), average_range=60,
)  # fmt: skip
BARE = replace(OPENING, carried=CarriedLevels((), (), ()))
Trade = tuple[int, int, int]


@st.composite
def tapes(draw: st.DrawFn) -> list[Trade]:
    """Generate a day's random walk: steps of a few ticks, seconds to an hour apart, a few trades late."""
    price, at = draw(st.integers(940, 1060)), OPEN
    tape: list[Trade] = []
    for _ in range(draw(st.integers(1, 120))):
        at += draw(
            st.sampled_from(
                [0, 1, NANOS_PER_SECOND, 20 * NANOS_PER_SECOND, 4 * NANOS_PER_MINUTE, 31 * NANOS_PER_MINUTE]
            )
        )
        if at >= RTH[0][1]:
            break
        price += draw(st.integers(-9, 9))
        late = draw(st.sampled_from([0] * 8 + [NANOS_PER_SECOND, 10 * NANOS_PER_MINUTE]))
        tape.append((max(OPEN, at - late), price, draw(st.integers(0, 50))))
    return tape or [(OPEN, price, 1)]


def feed(session: LiveSession, tape: list[Trade]) -> list[object]:
    columns = [list(column) for column in zip(*tape, strict=True)] if tape else [[], [], []]
    return list(session.trades(*columns))


def one_by_one(tape: list[Trade]) -> tuple[list[object], bytes]:
    session = LiveSession(OPENING)
    fired = [alert for trade in tape for alert in feed(session, [trade])]
    fired += session.advance(RTH[0][1] + CLOSE_DELAY_NS)
    return fired, session.dump()


@given(tapes(), st.lists(st.integers(0, 120), max_size=6))
@settings(max_examples=150, deadline=None)
def test_batches_do_not_change_results(tape: list[Trade], cuts: list[int]) -> None:
    session = LiveSession(OPENING)
    edges = sorted({0, len(tape), *(cut for cut in cuts if cut < len(tape))})
    fired = [alert for a, b in pairwise(edges) for alert in feed(session, tape[a:b])]
    fired += session.advance(RTH[0][1] + CLOSE_DELAY_NS)
    assert (fired, session.dump()) == one_by_one(tape)


@given(tapes(), st.integers(0, 120))
@settings(max_examples=150, deadline=None)
def test_a_restart_at_any_trade_does_not_change_results(tape: list[Trade], cut: int) -> None:
    session = LiveSession(OPENING)
    fired = feed(session, tape[:cut])
    again = LiveSession.load(Opening.load(OPENING.dump()), session.dump())
    assert again.dump() == session.dump()
    fired += feed(again, tape[cut:])
    fired += again.advance(RTH[0][1] + CLOSE_DELAY_NS)
    assert (fired, again.dump()) == one_by_one(tape)


@given(tapes())
@settings(max_examples=150, deadline=None)
def test_live_levels_equal_those_of_the_bulk_kernel(tape: list[Trade]) -> None:
    session, bulk = LiveSession(OPENING), BulkFold(bracket_windows(RTH, 30))
    feed(session, tape)
    columns = [np.array(column, np.int64) for column in zip(*tape, strict=True)]
    bulk.trades(*columns)
    assert session.ladder() == bulk.ladder()


@given(tapes())
@settings(max_examples=100, deadline=None)
def test_machines_move_the_same_when_alerts_are_suppressed(tape: list[Trade]) -> None:
    loud, silent = LiveSession(OPENING), LiveSession(OPENING, silent=True)
    feed(loud, tape)
    assert feed(silent, tape) == []
    silent.silence(on=False)
    assert silent.dump() == loud.dump()


def test_a_late_trade_belongs_to_its_own_bracket_and_fires_nothing() -> None:
    """Worked by hand: IB 990-1000 in the first hour.

    A trade of 10:00:00 arriving at 10:31 at 1005 widens bracket B (index 1: 10:00) and the IB to 1005; it is no break.
    1003 at 10:32 is then inside; 1006 is the break.
    """
    session = LiveSession(BARE)
    minute = NANOS_PER_MINUTE
    tape = [(OPEN, 1000, 1), (OPEN + minute, 990, 1), (OPEN + 61 * minute, 995, 1)]
    assert feed(session, tape) == []
    assert feed(session, [(OPEN + 30 * minute, 1005, 1)]) == []
    view = session.view()
    assert view is not None
    assert [(b.index, b.high_ticks) for b in view.ladder.brackets] == [(0, 1000), (1, 1005), (2, 995)]
    assert view.profile.ib_high == 1005
    assert view.last_ticks == 995
    assert feed(session, [(OPEN + 62 * minute, 1003, 1)]) == []
    (broken,) = [
        alert for alert in session.trades([OPEN + 63 * minute], [1006], [1]) if alert.type == "ib-break-up"
    ]
    assert broken.params["ibHigh"] == 1005


def test_a_trade_up_to_two_seconds_late_can_be_the_close_of_its_bracket() -> None:
    """Worked by hand: bracket A closes at 10:00.

    At 10:00:01 a trade of 09:59:59 arrives. A's last five minutes are open until 10:00:02, so its close is this trade's
    1030, not 1010. Two brackets closing above 1020 are an acceptance at 10:30.
    """
    session, minute = LiveSession(OPENING), NANOS_PER_MINUTE
    feed(session, [(OPEN, 1010, 1), (OPEN + 30 * minute + NANOS_PER_SECOND, 1030, 1)])
    feed(session, [(OPEN + 30 * minute - NANOS_PER_SECOND, 1030, 1)])
    fired = feed(session, [(OPEN + 59 * minute, 1030, 1), (OPEN + 61 * minute, 1030, 1)])
    assert ("va-accept-above", OPEN + 60 * minute) in [(alert.type, alert.at_ns) for alert in fired]


def test_votes_of_a_bracket_exclude_trades_of_the_next() -> None:
    """Worked by hand: prior value 980-1020.

    B closes in it at 10:30, in its balance of 1000-1010: no vote. 1030 is traded at 10:30:01, above value and the
    balance, before B is sealed at 10:30:02. It counts for the close of C, where the last price is above value and the
    balance is extended up. The developing POC is 1010 or 1000 and not beyond; value cannot have risen above 1020. Three
    brackets in a row with rising lows are one-timeframing up: 1000, 1005, 1030.
    """
    session, minute = LiveSession(OPENING), NANOS_PER_MINUTE
    feed(session, [(OPEN, 1000, 1), (OPEN + minute, 1010, 1), (OPEN + 30 * minute, 1005, 1)])
    feed(session, [(OPEN + 60 * minute + NANOS_PER_SECOND, 1030, 1)])
    session.advance(OPEN + 60 * minute + CLOSE_DELAY_NS)
    view = session.view()
    assert view is not None
    assert view.last_ticks == 1030
    assert view.bias == BiasReading(Bias.BALANCED, Votes())
    session.advance(OPEN + 90 * minute + CLOSE_DELAY_NS)
    view = session.view()
    assert view is not None
    assert view.bias == BiasReading(Bias.BALANCED, Votes(last=1, extension=1, one_timeframing=1))


def test_a_bracket_before_the_first_trade_has_no_votes() -> None:
    """The first trade is at 10:00:01; A, sealed at 10:00:02, was empty."""
    session, minute = LiveSession(OPENING), NANOS_PER_MINUTE
    feed(session, [(OPEN + 30 * minute + NANOS_PER_SECOND, 1030, 1)])
    session.advance(OPEN + 30 * minute + CLOSE_DELAY_NS)
    view = session.view()
    assert view is not None
    assert view.bias == BiasReading(Bias.UNDETERMINED, Votes())


def test_trades_too_old_to_act_on_fire_nothing() -> None:
    """1012 breaks out of an IB of 1000-1010 but arrives too late to fire; the next timely trade fires."""
    session, minute = LiveSession(BARE), NANOS_PER_MINUTE
    feed(session, [(OPEN, 1000, 1), (OPEN + minute, 1010, 1)])
    assert session.trades([OPEN + 61 * minute], [1012], [1], watched=False) == []
    (alert,) = session.trades([OPEN + 62 * minute], [1011], [1])
    assert (alert.type, alert.price_ticks) == ("ib-break-up", 1011)


def rebuilt_without(tape: list[Trade]) -> Ladder | None:
    """Return the ladder of the remaining trades, by the bulk kernel."""
    fold = BulkFold(bracket_windows(RTH, 30))
    for trade in tape:
        fold.trades(*(np.array([value], np.int64) for value in trade))
    return fold.ladder()


def test_the_last_price_is_that_of_the_newest_valid_trade() -> None:
    """Worked by hand: VAH 1020.

    1021 at minute 1 pokes; 1015 at minute 4 is cancelled. The last price is 1021, and so is the close of the five
    minutes, so nothing is rejected at minute 5. A trade of minute 3 is late, because event time is at 4, but it is the
    newest valid one: the last price is 1024.
    """
    session, minute = LiveSession(BARE), NANOS_PER_MINUTE
    kept = [(OPEN, 1000, 1), (OPEN + minute, 1021, 1)]
    feed(session, [*kept, (OPEN + 4 * minute, 1015, 1)])
    session.amended(rebuilt_without(kept))
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.last_ns, view.revision) == (1021, OPEN + 4 * minute, 1)
    assert LiveSession.load(BARE, session.dump()).dump() == session.dump()
    assert session.advance(OPEN + 5 * minute + CLOSE_DELAY_NS) == []
    assert feed(session, [(OPEN + 3 * minute, 1024, 1)]) == []
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.profile.close) == (1024, 1024)


def test_a_bar_whose_only_trade_is_cancelled_has_no_close() -> None:
    """Worked by hand: 1021 at minute 1 pokes.

    The only trade of the second five minutes, 1015, is cancelled. So they have no close, and there is no reject at
    minute 10.
    """
    session, minute = LiveSession(BARE), NANOS_PER_MINUTE
    kept = [(OPEN, 1000, 1), (OPEN + minute, 1021, 1)]
    feed(session, [*kept, (OPEN + 6 * minute, 1015, 1)])
    session.amended(rebuilt_without(kept))
    assert session.advance(OPEN + 10 * minute + CLOSE_DELAY_NS) == []


def test_a_session_whose_only_trade_is_cancelled_is_empty() -> None:
    """Worked by hand: the session opened at 1041, above the prior high of 1040, a gap.

    After the cancellation it opens at 1000, at minute 2, the close of five minutes; at 1050, where the error was,
    nothing traded.
    """
    session, minute = LiveSession(BARE), NANOS_PER_MINUTE
    feed(session, [(OPEN + minute, 1041, 1)])
    session.amended(None)
    assert (session.empty, session.view(), session.ladder(), session.capture()) == (True, None, None, None)
    again = LiveSession.load(BARE, session.dump())
    assert (again.empty, again.dump()) == (True, session.dump())
    for one in (session, again):
        feed(one, [(OPEN + 2 * minute, 1000, 1)])
        view = one.view()
        assert view is not None
        assert (view.last_ticks, view.profile.open, view.profile.high, view.bias.bias) == (
            1000,
            1000,
            1000,
            Bias.UNDETERMINED,
        )
        gap = next(state for state in view.scenarios if state.id == "gap_up_held")
        assert gap.status == "void"
    assert again.dump() == session.dump()


def test_a_late_trade_may_open_a_session_that_became_empty() -> None:
    """Worked by hand: event time is at minute 1, where the only trade was cancelled.

    A trade of minute 0 arrives, and later one of minute 2. The first is the session's open and fires nothing: 1000 is a
    naked POC.
    """
    session, minute = LiveSession(OPENING), NANOS_PER_MINUTE
    feed(session, [(OPEN + minute, 1015, 1)])
    session.amended(None)
    assert feed(session, [(OPEN, 1000, 1)]) == []
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.profile.open, session.empty) == (1000, 1000, False)
    feed(session, [(OPEN + 2 * minute, 1002, 1)])
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.profile.high, view.profile.low) == (1002, 1002, 1000)


def test_a_corrected_price_may_be_the_open() -> None:
    """An off-tick price was quarantined; corrected to 1030, above the VAH of 1020, it is the open."""
    session = LiveSession(BARE)
    session.amended(rebuilt_without([(OPEN, 1030, 1)]))
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.last_ns) == (1030, OPEN)
    (back,) = [state for state in view.scenarios if state.id == "value_return_from_above"]
    assert back.status == "pending"


@given(tapes(), st.integers(1, 120), st.integers(0, 119))
@settings(max_examples=150, deadline=None)
def test_a_restart_after_a_cancellation_changes_nothing(tape: list[Trade], cut: int, taken: int) -> None:
    session = LiveSession(OPENING)
    feed(session, tape[:cut])
    kept = [trade for n, trade in enumerate(tape[:cut]) if n != taken]
    session.amended(rebuilt_without(kept))
    again = LiveSession.load(OPENING, session.dump())
    assert (again.dump(), again.view()) == (session.dump(), session.view())
    for one in tape[cut:]:
        assert feed(again, [one]) == feed(session, [one])
        assert again.dump() == session.dump()
    assert session.ladder() == rebuilt_without([*kept, *tape[cut:]])
    view, ladder = session.view(), session.ladder()
    assert (view and view.last_ticks) == (ladder and ladder.close_ticks)


def test_a_sealed_bar_ignores_later_trades() -> None:
    """The clock seals five minutes; then trades of minute 4 arrive, one by one or at once."""
    at_once, by_one, minute = LiveSession(BARE), LiveSession(BARE), NANOS_PER_MINUTE
    more = [(OPEN + 4 * minute + n, 1000, 1) for n in range(4)]
    for session in (at_once, by_one):
        feed(session, [(OPEN, 1000, 1)])
        session.advance(OPEN + 5 * minute + CLOSE_DELAY_NS)
    feed(at_once, more)
    for trade in more:
        feed(by_one, [trade])
    assert by_one.dump() == at_once.dump()


def test_new_reference_levels_do_not_change_the_ladder() -> None:
    session = LiveSession(replace(OPENING, kind=SessionKind.ETH))
    feed(session, [(OPEN, 1000, 5), (OPEN + NANOS_PER_MINUTE, 1004, 5)])
    before = session.ladder()
    session.set_opening(replace(session.opening, prior=Prior(DAY, 900, 910, 890, 920, 880, 905)))
    assert session.ladder() == before
    view = session.view()
    assert view is not None
    assert view.opening.prior is not None
    assert view.opening.prior.poc == 900


@given(tapes(), st.integers(0, 120))
@settings(max_examples=150, deadline=None)
def test_alerts_follow_new_reference_levels(tape: list[Trade], cut: int) -> None:
    """A regular session that opens without a prior session, and receives one later, can be restored at any time."""
    session = LiveSession(replace(BARE, prior=None))
    feed(session, tape[:cut])
    session.set_opening(OPENING)
    again = LiveSession.load(OPENING, session.dump())
    assert again.dump() == session.dump()
    assert feed(again, tape[cut:]) == feed(session, tape[cut:])
    assert again.dump() == session.dump()


def test_new_reference_levels_fire_their_own_alerts_and_no_old_ones() -> None:
    """The naked POC at 1000 is replaced by one at 900, which the next trade touches; it then trades 1000 unnoticed."""
    old = replace(BARE, prior=None, carried=CarriedLevels((CarriedLevel(1000, BEFORE, 1),), (), ()))
    new = replace(old, carried=CarriedLevels((CarriedLevel(900, DAY, 1),), (), ()))
    session = LiveSession(old)
    assert feed(session, [(OPEN, 950, 5)]) == []
    session.set_opening(new)
    minute = NANOS_PER_MINUTE
    fired = feed(
        session, [(OPEN + minute * n, price, 5) for n, price in enumerate((950, 900, 1000), start=1)]
    )
    assert [(a.ref, a.price_ticks) for a in fired if isinstance(a, Fired)] == [(str(DAY), 900)]


def test_bars_and_brackets_are_sealed_every_five_and_thirty_minutes() -> None:
    """A regular session of 6 h 45 min has 81 bars and 14 brackets; all are sealed two seconds after its end."""
    session = LiveSession(OPENING)
    feed(session, [(OPEN, 1000, 1)])
    sealed = []
    while session.due_ns < RTH[0][1] + CLOSE_DELAY_NS + 1:
        sealed.append(session.due_ns)
        session.advance(session.due_ns)
    assert len(sealed) == 81
    assert bisect_right(sealed, RTH[0][1] + CLOSE_DELAY_NS) == 81


@given(tapes(), st.one_of(st.none(), tapes()))
@settings(max_examples=150, deadline=None)
def test_a_replica_shows_the_same_view(tape: list[Trade], night: list[Trade] | None) -> None:
    session = LiveSession(OPENING)
    feed(session, tape)
    captured = session.capture()
    # Prints of size 0 alone are not trades.
    assert (captured is None) == (not any(lots for _, _, lots in tape))
    if captured is None:
        return
    captured = replace(captured, overnight_ladder=rebuilt_without(night) if night else None)
    again = Capture.load(captured.dump())
    assert again == captured
    assert again.view() == captured.view()
    assert again.dump() == captured.dump()


@pytest.mark.parametrize("data", [b"", b"1", b"1\n{}\n[]\n\n[]", b"2\n1\n2\n3\n4", b"\xff", b"1\n1\n2\n3\n4"])
def test_invalid_captures_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotMismatch):
        Capture.load(data)
