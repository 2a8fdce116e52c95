"""A session as it happens says the same however its trades were batched, cut, or shown."""

from bisect import bisect_right
from dataclasses import replace
from datetime import date
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outcry.core.bias import Bias, BiasReading, Votes
from outcry.core.calendar import SessionKind
from outcry.core.kernels import BulkFold
from outcry.core.ladder import bracket_windows
from outcry.core.levels import Carried, Dated
from outcry.core.live import HOLD_NS, LiveSession
from outcry.core.opening import Opening, Prior
from outcry.core.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

OPEN = 1_767_364_200_000_000_000  # 2026-01-02 09:30 New York
RTH = ((OPEN, OPEN + 405 * NANOS_PER_MINUTE),)
DAY, BEFORE = date(2026, 1, 2), date(2025, 12, 31)
OPENING = Opening(
    contract="ESH2026", root="ES", kind=SessionKind.RTH, trade_date=DAY, segments=RTH, short=False,
    prior=Prior(BEFORE, 1000, 1020, 980, 1040, 960, 1010),
    carried=Carried((Dated(1000, BEFORE, 1), Dated(970, date(2025, 12, 30), 2)), (Dated(1040, BEFORE, 1),),
                    (Dated(960, BEFORE, 1),)),
    overnight=(1030, 990), average_range=60,
)  # fmt: skip
BARE = replace(OPENING, carried=Carried((), (), ()))
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
    fired += session.advance(RTH[0][1] + HOLD_NS)
    return fired, session.dump()


@given(tapes(), st.lists(st.integers(0, 120), max_size=6))
@settings(max_examples=150, deadline=None)
def test_batches_change_nothing(tape: list[Trade], cuts: list[int]) -> None:
    session = LiveSession(OPENING)
    edges = sorted({0, len(tape), *(cut for cut in cuts if cut < len(tape))})
    fired = [alert for a, b in pairwise(edges) for alert in feed(session, tape[a:b])]
    fired += session.advance(RTH[0][1] + HOLD_NS)
    assert (fired, session.dump()) == one_by_one(tape)


@given(tapes(), st.integers(0, 120))
@settings(max_examples=150, deadline=None)
def test_a_cut_anywhere_changes_nothing(tape: list[Trade], cut: int) -> None:
    session = LiveSession(OPENING)
    fired = feed(session, tape[:cut])
    again = LiveSession.load(Opening.load(OPENING.dump()), session.dump())
    assert again.dump() == session.dump()
    fired += feed(again, tape[cut:])
    fired += again.advance(RTH[0][1] + HOLD_NS)
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
    session.advance(OPEN + 60 * minute + HOLD_NS)
    view = session.view()
    assert view is not None
    assert view.last_ticks == 1030
    assert view.bias == BiasReading(Bias.BALANCED, Votes())
    session.advance(OPEN + 90 * minute + HOLD_NS)
    view = session.view()
    assert view is not None
    assert view.bias == BiasReading(Bias.BALANCED, Votes(last=1, extension=1, one_timeframing=1))


def test_a_bracket_before_the_first_trade_speaks_for_nothing() -> None:
    """Nothing trades until 10:00:01; A, sealed at 10:00:02, was empty."""
    session, minute = LiveSession(OPENING), NANOS_PER_MINUTE
    feed(session, [(OPEN + 30 * minute + NANOS_PER_SECOND, 1030, 1)])
    session.advance(OPEN + 30 * minute + HOLD_NS)
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


def test_new_references_do_not_touch_the_fold() -> None:
    session = LiveSession(replace(OPENING, kind=SessionKind.ETH))
    feed(session, [(OPEN, 1000, 5), (OPEN + NANOS_PER_MINUTE, 1004, 5)])
    before = session.ladder()
    session.refer(replace(session.opening, prior=Prior(DAY, 900, 910, 890, 920, 880, 905)))
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
    while session.due_ns < RTH[0][1] + HOLD_NS + 1:
        sealed.append(session.due_ns)
        session.advance(session.due_ns)
    assert len(sealed) == 81
    assert bisect_right(sealed, RTH[0][1] + HOLD_NS) == 81
