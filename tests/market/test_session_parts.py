"""Which parts of sessions a selection of dates and instants has: cases by hand, and a property of all pieces."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.market.calendar import SessionKind
from outcry.market.session_parts import (
    OutsideSelection,
    SessionPart,
    Span,
    SpansOverlap,
    session_parts,
    split_at,
)
from outcry.trades.reference_tables import load_reference

CALENDAR = load_reference().calendar
RTH, ETH = SessionKind.RTH, SessionKind.ETH
SECOND = 10**9


def at(text: str) -> int:
    """Return a time of July 2024 in New York (UTC-4), such as `02 10:15`, in ns UTC."""
    day, clock = text.split()
    return int(datetime.fromisoformat(f"2024-07-{day}T{clock}:00-04:00").astimezone(UTC).timestamp()) * SECOND


def july(day: int) -> date:
    return date(2024, 7, day)


def chosen(
    *spans: Span, kinds: tuple[SessionKind, ...] = (RTH,)
) -> list[tuple[int, str, list[tuple[int, int]], bool]]:
    parts = session_parts(CALENDAR, "ES", kinds, spans)
    return [(p.session.trade_date.day, p.session.kind.value, list(p.windows), p.whole) for p in parts]


def test_a_date_is_the_whole_session() -> None:
    """Regular hours of ES are 9:30 to 16:15."""
    assert chosen(Span(july(2), july(2))) == [(2, "rth", [(at("02 09:30"), at("02 16:15"))], True)]


def test_an_instant_cuts_the_session_that_is_open() -> None:
    """From Monday 12:00 to Tuesday 12:00: an afternoon, a night in two windows around 17:00 to 18:00, a morning."""
    assert chosen(Span(at("01 12:00"), at("02 12:00")), kinds=(ETH, RTH)) == [
        (1, "rth", [(at("01 12:00"), at("01 16:15"))], False),
        (2, "eth", [(at("01 16:15"), at("01 17:00")), (at("01 18:00"), at("02 09:30"))], True),
        (2, "rth", [(at("02 09:30"), at("02 12:00"))], False),
    ]


def test_only_the_hours_asked_for_count() -> None:
    assert [day for day, *_ in chosen(Span(at("01 12:00"), at("03 09:30")))] == [1, 2]


def test_an_instant_at_an_edge_leaves_the_session_whole() -> None:
    assert chosen(Span(at("02 09:30"), at("02 16:15"))) == chosen(Span(july(2), july(2)))
    assert chosen(Span(at("02 16:15"), at("02 18:00"))) == []


def test_dates_and_instants_mix() -> None:
    assert chosen(Span(july(1), at("02 10:00"))) == [
        (1, "rth", [(at("01 09:30"), at("01 16:15"))], True),
        (2, "rth", [(at("02 09:30"), at("02 10:00"))], False),
    ]
    assert [day for day, *_ in chosen(Span(at("01 16:00"), july(3)))] == [1, 2, 3]


def test_a_night_over_a_holiday_is_found_from_its_beginning() -> None:
    """Independence Day was on Thursday the 4th: Friday's night begins on Wednesday at the early close, 13:15."""
    (found,) = chosen(Span(at("03 14:00"), at("03 14:30")), kinds=(ETH,)) or [None]
    assert found is None  # closed from 13:15 to 18:00
    (found,) = chosen(Span(at("03 18:30"), at("03 19:00")), kinds=(ETH,))
    assert found == (5, "eth", [(at("03 18:30"), at("03 19:00"))], False)


def test_spans_may_be_in_any_order_and_adjacent_ones_are_joined() -> None:
    spans = [
        Span(at("02 12:00"), at("02 16:15")),
        Span(july(1), july(1)),
        Span(at("02 09:30"), at("02 12:00")),
    ]
    assert chosen(*spans) == chosen(Span(july(1), july(2)))


@pytest.mark.parametrize(
    "spans",
    [
        (Span(july(1), july(2)), Span(july(2), july(3))),
        (Span(july(1), july(1)), Span(at("01 16:14"), at("01 20:00"))),
        (Span(at("01 10:00"), at("01 12:00")), Span(at("01 11:00"), at("01 11:30"))),
    ],
)
def test_overlapping_spans_are_refused(spans: tuple[Span, ...]) -> None:
    with pytest.raises(SpansOverlap):
        chosen(*spans)


def test_an_overlap_names_the_shared_time() -> None:
    with pytest.raises(SpansOverlap) as caught:
        chosen(Span(at("01 10:00"), at("01 12:00")), Span(at("01 11:00"), at("01 11:30")))
    assert caught.value.between == (at("01 11:00"), at("01 11:30"))


@pytest.mark.parametrize("instant", ["02 09:30", "02 16:15", "01 12:00"])
def test_a_split_outside_the_selection_is_refused(instant: str) -> None:
    parts = session_parts(CALENDAR, "ES", (RTH,), [Span(july(2), july(2))])
    with pytest.raises(OutsideSelection):
        split_at(parts, [at(instant)])


def test_a_piece_in_a_break_has_no_parts() -> None:
    parts = session_parts(CALENDAR, "ES", (RTH,), [Span(july(1), july(2))])
    pieces = split_at(parts, [at("01 17:00"), at("01 20:00")])
    assert [[part.session.trade_date.day for part in of_piece] for _, of_piece in pieces] == [[1], [], [2]]


@given(
    st.lists(st.integers(0, 4 * 86_400), min_size=2, max_size=8, unique=True),
    st.sampled_from([(RTH,), (ETH,), (ETH, RTH)]),
    st.sampled_from(["ES", "ZC", "CL"]),
)
def test_pieces_are_disjoint_and_cover_the_selection(
    seconds: list[int], kinds: tuple[SessionKind, ...], root: str
) -> None:
    """Every second of the selection is in exactly one piece, and in the session that the calendar has there."""
    start = at("01 00:00")
    first, *cuts, last = (start + second * SECOND for second in sorted(seconds))
    parts = session_parts(CALENDAR, root, kinds, [Span(first, last)])
    inside = [cut for cut in cuts if parts and parts[0].windows[0][0] < cut < parts[-1].end_ns]
    pieces = [part for _, of_piece in (split_at(parts, inside) if parts else []) for part in of_piece]
    assert length(pieces) == length(parts)
    for tested in range(first, last, 1201 * SECOND):
        session = CALENDAR.session_at(root, tested)
        expected = [session] if session is not None and session.kind in kinds else []
        holding = [part.session for part in pieces if any(a <= tested < b for a, b in part.windows)]
        assert holding == expected


def length(parts: list[SessionPart]) -> int:
    return sum(end - start for part in parts for start, end in part.windows)
