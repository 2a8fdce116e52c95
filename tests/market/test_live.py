"""A session as it happens says the same however its trades were batched, cut, or shown."""

from bisect import bisect_right
from dataclasses import replace
from datetime import date
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    """A day's walk: steps of a few ticks, from seconds to an hour apart, a few trades late."""
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
def test_batches_change_nothing(tape: list[Trade], cuts: list[int]) -> None:
    session = LiveSession(OPENING)
    edges = sorted({0, len(tape), *(cut for cut in cuts if cut < len(tape))})
    fired = [alert for a, b in pairwise(edges) for alert in feed(session, tape[a:b])]
    fired += session.advance(RTH[0][1] + CLOSE_DELAY_NS)
    assert (fired, session.dump()) == one_by_one(tape)


@given(tapes(), st.integers(0, 120))
@settings(max_examples=150, deadline=None)
def test_a_cut_anywhere_changes_nothing(tape: list[Trade], cut: int) -> None:
    session = LiveSession(OPENING)
    fired = feed(session, tape[:cut])
    again = LiveSession.load(Opening.load(OPENING.dump()), session.dump())
    assert again.dump() == session.dump()
    fired += feed(again, tape[cut:])
    fired += again.advance(RTH[0][1] + CLOSE_DELAY_NS)
    assert (fired, again.dump()) == one_by_one(tape)


@given(tapes())
@settings(max_examples=150, deadline=None)
def test_the_levels_are_the_bulk_kernels(tape: list[Trade]) -> None:
    session, bulk = LiveSession(OPENING), BulkFold(bracket_windows(RTH, 30))
    feed(session, tape)
    columns = [np.array(column, np.int64) for column in zip(*tape, strict=True)]
    bulk.trades(*columns)
    assert session.ladder() == bulk.ladder()


@given(tapes())
@settings(max_examples=100, deadline=None)
def test_silence_moves_the_machines_as_speech_does(tape: list[Trade]) -> None:
    loud, silent = LiveSession(OPENING), LiveSession(OPENING, silent=True)
    feed(loud, tape)
    assert feed(silent, tape) == []
    silent.silence(on=False)
    assert silent.dump() == loud.dump()


def test_a_late_trade_goes_into_its_own_bracket_and_fires_nothing() -> None:
    """IB 990-1000 in the first hour. A trade of 10:00:00 arriving at 10:31 at 1005 widens bracket B (index 1: 10:00)
    and the IB to 1005; it is no break. 1003 at 10:32 is then inside; 1006 is the break."""
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


def test_a_straggler_within_two_seconds_is_in_the_close_of_its_bracket() -> None:
    """Bracket A closes at 10:00. At 10:00:01 a trade of 09:59:59 arrives: until 10:00:02 A's five minutes are open, so
    its close is the straggler's 1030 and not 1010; two brackets closing above 1020 are acceptance at 10:30."""
    session, minute = LiveSession(OPENING), NANOS_PER_MINUTE
    feed(session, [(OPEN, 1010, 1), (OPEN + 30 * minute + NANOS_PER_SECOND, 1030, 1)])
    feed(session, [(OPEN + 30 * minute - NANOS_PER_SECOND, 1030, 1)])
    fired = feed(session, [(OPEN + 59 * minute, 1030, 1), (OPEN + 61 * minute, 1030, 1)])
    assert ("va-accept-above", OPEN + 60 * minute) in [(alert.type, alert.at_ns) for alert in fired]


def test_the_votes_of_a_bracket_know_nothing_of_the_next() -> None:
    """Prior value 980-1020. B closes in it at 10:30, in its balance of 1000-1010: no vote. 1030 is traded at 10:30:01,
    above value and the balance, before B is sealed at 10:30:02: that is for the close of C, where the last price is
    above value and the balance is extended up. The developing POC is 1010 or 1000 and not beyond; value cannot have
    risen above 1020; three brackets in a row that take out no low are one-timeframing up: 1000, 1005, 1030."""
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


def test_a_bracket_before_the_first_trade_speaks_for_nothing() -> None:
    """Nothing trades until 10:00:01; A, sealed at 10:00:02, was empty."""
    session, minute = LiveSession(OPENING), NANOS_PER_MINUTE
    feed(session, [(OPEN + 30 * minute + NANOS_PER_SECOND, 1030, 1)])
    session.advance(OPEN + 30 * minute + CLOSE_DELAY_NS)
    view = session.view()
    assert view is not None
    assert view.bias == BiasReading(Bias.UNDETERMINED, Votes())


def test_nothing_fires_for_trades_too_old_to_act_on() -> None:
    """1012 breaks out of an IB of 1000-1010, but came too late to watch; the next trade that is watched fires."""
    session, minute = LiveSession(BARE), NANOS_PER_MINUTE
    feed(session, [(OPEN, 1000, 1), (OPEN + minute, 1010, 1)])
    assert session.trades([OPEN + 61 * minute], [1012], [1], watched=False) == []
    (alert,) = session.trades([OPEN + 62 * minute], [1011], [1])
    assert (alert.type, alert.price_ticks) == ("ib-break-up", 1011)


def without(tape: list[Trade]) -> Ladder | None:
    """What is left, folded by the other fold."""
    fold = BulkFold(bracket_windows(RTH, 30))
    for trade in tape:
        fold.trades(*(np.array([value], np.int64) for value in trade))
    return fold.ladder()


def test_the_last_price_is_that_of_the_newest_trade_that_stands() -> None:
    """VAH 1020. 1021 at minute 1 pokes; 1015 at minute 4 is taken back: the last price is 1021, and so is the close of
    the five minutes, so that nothing is rejected at minute 5. A trade of minute 3 is late, for event time stands at 4,
    but it is the newest that stands: the last price is 1024."""
    session, minute = LiveSession(BARE), NANOS_PER_MINUTE
    kept = [(OPEN, 1000, 1), (OPEN + minute, 1021, 1)]
    feed(session, [*kept, (OPEN + 4 * minute, 1015, 1)])
    session.amended(without(kept))
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.last_ns, view.revision) == (1021, OPEN + 4 * minute, 1)
    assert LiveSession.load(BARE, session.dump()).dump() == session.dump()
    assert session.advance(OPEN + 5 * minute + CLOSE_DELAY_NS) == []
    assert feed(session, [(OPEN + 3 * minute, 1024, 1)]) == []
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.profile.close) == (1024, 1024)


def test_a_bar_left_without_a_trade_has_no_close() -> None:
    """1021 at minute 1 pokes; the only trade of the second five minutes, 1015, is taken back: they close nothing, and
    there is no reject at minute 10."""
    session, minute = LiveSession(BARE), NANOS_PER_MINUTE
    kept = [(OPEN, 1000, 1), (OPEN + minute, 1021, 1)]
    feed(session, [*kept, (OPEN + 6 * minute, 1015, 1)])
    session.amended(without(kept))
    assert session.advance(OPEN + 10 * minute + CLOSE_DELAY_NS) == []


def test_a_session_whose_only_trade_is_taken_back_is_empty() -> None:
    """It had opened at 1041, above the prior high of 1040: a gap. What opens it now is 1000, at minute 2, of which
    five minutes close; at 1050, where the mistake was, nothing traded."""
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


def test_a_late_trade_may_open_a_session_that_was_emptied() -> None:
    """Event time stands at minute 1, where the only trade was taken back; one of minute 0 comes, and later one of
    minute 2. The first is the session's open, and fires nothing: 1000 is a naked POC."""
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


def test_a_correction_may_be_the_first_trade_that_counts() -> None:
    """A price between two ticks was left out; corrected to 1030, above the VAH of 1020, it is what opened."""
    session = LiveSession(BARE)
    session.amended(without([(OPEN, 1030, 1)]))
    view = session.view()
    assert view is not None
    assert (view.last_ticks, view.last_ns) == (1030, OPEN)
    (back,) = [state for state in view.scenarios if state.id == "value_return_from_above"]
    assert back.status == "pending"


@given(tapes(), st.integers(1, 120), st.integers(0, 119))
@settings(max_examples=150, deadline=None)
def test_a_cut_after_something_was_taken_back_changes_nothing(
    tape: list[Trade], cut: int, taken: int
) -> None:
    session = LiveSession(OPENING)
    feed(session, tape[:cut])
    kept = [trade for n, trade in enumerate(tape[:cut]) if n != taken]
    session.amended(without(kept))
    again = LiveSession.load(OPENING, session.dump())
    assert (again.dump(), again.view()) == (session.dump(), session.view())
    for one in tape[cut:]:
        assert feed(again, [one]) == feed(session, [one])
        assert again.dump() == session.dump()
    assert session.ladder() == without([*kept, *tape[cut:]])
    view, ladder = session.view(), session.ladder()
    assert (view and view.last_ticks) == (ladder and ladder.close_ticks)


def test_a_bar_that_was_sealed_closes_with_nothing_more() -> None:
    """Its five minutes are sealed by the clock; trades of minute 4 come then, in order, one by one or at once."""
    at_once, by_one, minute = LiveSession(BARE), LiveSession(BARE), NANOS_PER_MINUTE
    more = [(OPEN + 4 * minute + n, 1000, 1) for n in range(4)]
    for session in (at_once, by_one):
        feed(session, [(OPEN, 1000, 1)])
        session.advance(OPEN + 5 * minute + CLOSE_DELAY_NS)
    feed(at_once, more)
    for trade in more:
        feed(by_one, [trade])
    assert by_one.dump() == at_once.dump()


def test_new_references_do_not_touch_the_fold() -> None:
    session = LiveSession(replace(OPENING, kind=SessionKind.ETH))
    feed(session, [(OPEN, 1000, 5), (OPEN + NANOS_PER_MINUTE, 1004, 5)])
    before = session.ladder()
    session.set_opening(replace(session.opening, prior=Prior(DAY, 900, 910, 890, 920, 880, 905)))
    assert session.ladder() == before
    view = session.view()
    assert view is not None
    assert view.opening.prior is not None
    assert view.opening.prior.poc == 900


def test_the_seals_are_those_of_every_five_and_thirty_minutes() -> None:
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
def test_another_process_is_shown_the_same_view(tape: list[Trade], night: list[Trade] | None) -> None:
    session = LiveSession(OPENING)
    feed(session, tape)
    captured = session.capture()
    assert (captured is None) == (
        not any(lots for _, _, lots in tape)
    )  # prints of size 0 alone are no trades
    if captured is None:
        return
    captured = replace(captured, overnight_ladder=without(night) if night else None)
    again = Capture.load(captured.dump())
    assert again == captured
    assert again.view() == captured.view()
    assert again.dump() == captured.dump()


@pytest.mark.parametrize("data", [b"", b"1", b"1\n{}\n[]\n\n[]", b"2\n1\n2\n3\n4", b"\xff", b"1\n1\n2\n3\n4"])
def test_what_is_no_capture_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotMismatch):
        Capture.load(data)
