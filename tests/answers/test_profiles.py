"""Profiles of chosen hours, days and settings: composites against an independent oracle, and cases worked by hand."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import pytest
from tests.market import profile_oracle as oracle
from tests.sample_live_session import (
    ANN,
    BOB,
    CLOSE_NS,
    LADDER,
    NOW_NS,
    OPEN_NS,
    PRIOR_DAY,
    REFERENCE,
    VIEW,
    MemorySessions,
    Shown,
    completed,
    eth,
    query,
)

from outcry.answers.profile_request import ProfileRequest
from outcry.answers.query import Query
from outcry.base.errors import InvalidParameter, NotFound
from outcry.live.registry import Registry
from outcry.market.calendar import Session, SessionKind
from outcry.market.fold import SessionFold
from outcry.market.ladder import bracket_windows
from outcry.market.methods import PRESETS
from outcry.market.opening import Opening
from outcry.market.periods import PeriodPoc, period_of
from outcry.market.profile_settings import Hours
from outcry.market.snapshot import dump
from outcry.sessions.store_model import SessionRow
from outcry.wire.profile import Period, ProfileAnswer

DAY_NS = 86_400 * 10**9
Trade = tuple[int, int, int]
#: The week of Monday 5 January 2026, and a later time at which all of it has ended.
WEEK = [date(2026, 1, 5) + timedelta(days=n) for n in range(5)]
AFTER_NS = CLOSE_NS + 30 * DAY_NS


def session_of(day: date, kind: SessionKind) -> Session:
    found = REFERENCE.calendar.session("ES", day, kind)
    assert found is not None
    return found


def row_of(session: Session, trades: Sequence[Trade], contract: str = "ESH2026") -> SessionRow:
    """Return a stored session that consists of these trades."""
    fold = SessionFold(bracket_windows(session.segments, 30))
    fold.trades(trades)
    ladder = fold.ladder()
    assert ladder is not None
    return replace(
        completed(0, "dbn"), kind=session.kind, trade_date=session.trade_date, contract=contract,
        open_ns=session.open_ns, close_ns=session.close_ns, first_ns=trades[0][0], last_ns=trades[-1][0],
        volume=sum(size for _, _, size in trades), profile=dump(ladder),
    )  # fmt: skip


def walk(session: Session, seed: int) -> list[Trade]:
    """Return trades of a random walk through a session, each in a random second of its segments."""
    chance = random.Random(seed)
    price, trades = 27600 + chance.randrange(-40, 40), []
    seconds = [s for start, end in session.segments for s in range(start, end, 10**9)]
    for at_ns in sorted(chance.sample(seconds, 300)):
        price += chance.randrange(-4, 5)
        trades.append((at_ns, price, chance.randrange(1, 60)))
    return trades


TRADES = {
    (day, kind): walk(session_of(day, kind), 10 * n + (kind is SessionKind.RTH))
    for n, day in enumerate(WEEK)
    for kind in SessionKind
}


def stored(days: Sequence[date] = WEEK) -> Query:
    store = MemorySessions()
    store.rows = [row_of(session_of(*key), trades) for key, trades in TRADES.items() if key[0] in days]
    return query(Registry(), store)


def ask(asked: Query, now_ns: int = AFTER_NS, **parameters: Any) -> ProfileAnswer:
    return asked.chosen_profile(BOB, "ES", ProfileRequest(**parameters), now_ns).answer


def expected(
    keys: Sequence[tuple[date, SessionKind]], minutes: int, row: int, method: str
) -> Mapping[str, float]:
    """Return the levels that the oracle finds, in prices."""
    ranges = [
        (hash_of(key, minutes, at_ns), price, price, {price: size})
        for key in keys
        for at_ns, price, size in TRADES[key]
    ]
    found = oracle.levels(oracle.of_ranges(ranges, row), PRESETS[method], row)
    return {name: ticks / 4 for name, ticks in found.items()}


def hash_of(key: tuple[date, SessionKind], minutes: int, at_ns: int) -> int:
    """Return a number that only the bracket of this time in this session has: the ns at which the bracket starts."""
    segments = session_of(*key).segments
    opened = max(start for start, _ in segments if start <= at_ns)
    return at_ns - (at_ns - opened) % (minutes * 60 * 10**9)


@pytest.mark.parametrize("hours", ["rth", "overnight", "full"])
@pytest.mark.parametrize(
    ("minutes", "row", "method"), [(30, 1, "dalton"), (60, 4, "cbot_1row"), (30, 7, "quantick")]
)
@pytest.mark.parametrize("days", [WEEK, WEEK[2:3]], ids=["week", "day"])
def test_levels_of_sessions_equal_those_of_all_their_trades(
    hours: Hours, minutes: int, row: int, method: str, days: list[date]
) -> None:
    kinds = {"rth": ["rth"], "overnight": ["eth"], "full": ["eth", "rth"]}[hours]
    keys = [(day, SessionKind(kind)) for day in days for kind in kinds]
    found = ask(
        stored(), first=str(days[0]), last=str(days[-1]), hours=hours, bracket_minutes=minutes, row_ticks=row,
        method=method,
    )  # fmt: skip
    levels = found.profile
    want = expected(keys, minutes, row, method)
    assert (levels.poc, levels.val, levels.vah) == (want["poc"], want["val"], want["vah"])
    assert (levels.vpoc, levels.volume_val, levels.volume_vah) == (
        want["vpoc"],
        want["volume_val"],
        want["volume_vah"],
    )
    trades = [trade for key in keys for trade in TRADES[key]]
    assert (levels.low, levels.high) == (min(t[1] for t in trades) / 4, max(t[1] for t in trades) / 4)
    assert (levels.open_price, levels.close_price) == (trades[0][1] / 4, trades[-1][1] / 4)
    assert sum(line.volume for line in found.rows) == sum(size for _, _, size in trades)
    assert [(one.date, one.session) for one in found.window.sessions] == [(str(d), k.value) for d, k in keys]
    assert (found.method.bracket_minutes, found.method.row_ticks, found.method.preset) == (
        minutes,
        row,
        method,
    )
    assert (found.window.missing, found.develops) == ([], False)


def test_the_rows_of_a_week_count_every_bracket_once() -> None:
    """Count the brackets of each row with sets; the letters of a row are as many, apart from spaces between days."""
    found = ask(stored(), date="2026-01-07", period="week", row_ticks=2)
    printed: dict[int, set[int]] = defaultdict(set)
    ranges: dict[int, list[int]] = defaultdict(list)
    for day in WEEK:
        for at_ns, price, _ in TRADES[day, SessionKind.RTH]:
            ranges[hash_of((day, SessionKind.RTH), 30, at_ns)].append(price)
    for bracket, prices in ranges.items():
        for price in range(min(prices), max(prices) + 1):
            printed[price // 2].add(bracket)
    assert {line.price: line.tpos for line in found.rows if line.tpos} == {
        row * 2 / 4: len(brackets) for row, brackets in printed.items()
    }
    assert all(len(line.letters.replace(" ", "")) == line.tpos for line in found.rows)
    assert any(line.letters.count(" ") for line in found.rows)


def test_vwap_of_a_week() -> None:
    """VWAP and deviation of all trades as fractions, rounded to 10⁻⁹; bands are one to three deviations away."""
    found = ask(stored(), date="2026-01-07", period="week", row_ticks=8).profile.vwap
    trades = [trade for day in WEEK for trade in TRADES[day, SessionKind.RTH]]
    lots = sum(size for _, _, size in trades)
    mean = Fraction(sum(price * size for _, price, size in trades), lots)
    variance = sum(size * (price - mean) ** 2 for _, price, size in trades) / lots
    assert found is not None
    assert found.price == pytest.approx(float(mean / 4), abs=1e-9)
    assert found.deviation == pytest.approx(float(variance) ** 0.5 / 4, abs=2e-9)
    assert [band.deviations for band in found.bands] == [1, 2, 3]
    assert found.bands[1].upper == pytest.approx(found.price + 2 * found.deviation, abs=2e-9)
    assert found.bands[2].lower == pytest.approx(found.price - 3 * found.deviation, abs=2e-9)


def test_initial_balance_of_the_full_day_is_that_of_the_regular_session() -> None:
    asked = stored()
    full, regular = (ask(asked, date="2026-01-07", hours=hours).profile for hours in ("full", "rth"))
    opened = session_of(date(2026, 1, 7), SessionKind.RTH).open_ns
    hour = [p for at, p, _ in TRADES[date(2026, 1, 7), SessionKind.RTH] if at < opened + 3600 * 10**9]
    assert (full.ib_high, full.ib_low) == (max(hour) / 4, min(hour) / 4)
    assert full.ib_extensions == regular.ib_extensions != []
    night = ask(asked, date="2026-01-07", hours="overnight").profile
    week = ask(asked, date="2026-01-07", period="week").profile
    assert (night.ib_high, night.ib_extensions, week.ib_low, week.ib_extensions) == (None, [], None, [])


def test_the_default_settings_give_the_levels_of_the_session() -> None:
    asked = stored()
    plain = asked.profile(BOB, "ES", "2026-01-07", AFTER_NS).answer
    chosen = ask(asked, date="2026-01-07", period="day")
    assert chosen.rows == plain.rows
    assert (chosen.profile, chosen.levels, chosen.method) == (plain.profile, plain.levels, plain.method)
    assert (plain.profile.poc, plain.profile.volume_vah) == (plain.levels.poc, plain.levels.volume_vah)
    assert (plain.profile.single_prints, plain.profile.upper_tail_ticks) == (
        plain.levels.single_prints,
        plain.levels.upper_tail_ticks,
    )
    assert (plain.window.period, chosen.window.period) == (None, "day")


def test_a_session_that_is_not_recorded_is_named() -> None:
    found = ask(stored([WEEK[0], WEEK[2]]), first="2026-01-05", last="2026-01-07", hours="full")
    assert [(one.date, one.session) for one in found.window.missing] == [
        ("2026-01-06", "eth"),
        ("2026-01-06", "rth"),
    ]
    assert not found.develops
    assert found.levels.date == "2026-01-07"


def test_a_range_that_has_not_ended_develops() -> None:
    """On Wednesday evening the week goes on; the answer is valid until Thursday's close at the latest."""
    asked, wednesday = stored(WEEK[:3]), session_of(WEEK[2], SessionKind.RTH).close_ns
    found = asked.chosen_profile(BOB, "ES", ProfileRequest(period="week"), wednesday + 1)
    assert (found.answer.develops, found.answer.window.missing) == (True, [])
    assert found.fresh_until_ns is not None
    assert found.fresh_until_ns <= session_of(WEEK[3], SessionKind.RTH).close_ns


def test_a_composite_has_one_contract() -> None:
    """On Monday December was the front, on Tuesday March. March has no Monday of its own, so it is missing."""
    store = MemorySessions()
    monday, tuesday = (session_of(day, SessionKind.RTH) for day in WEEK[:2])
    store.rows = [
        row_of(monday, [(monday.open_ns, 27600, 50)], "ESZ2025"),
        row_of(tuesday, [(tuesday.open_ns, 27700, 60)], "ESH2026"),
    ]
    found = (
        query(Registry(), store)
        .chosen_profile(BOB, "ES", ProfileRequest(first="2026-01-05", last="2026-01-06"), AFTER_NS)
        .answer
    )
    assert (found.window.contract, [one.date for one in found.window.missing]) == ("ESH2026", ["2026-01-05"])
    assert (found.profile.low, found.profile.high) == (6925.0, 6925.0)


def test_the_context_lists_naked_pocs_of_ended_weeks_and_months() -> None:
    """A day of December and one of January at distant prices: each is the POC of its week; December has ended too."""
    store = MemorySessions()
    for day, price in ((date(2025, 12, 23), 27600), (date(2026, 1, 5), 28000), (date(2026, 1, 12), 28400)):
        opened = session_of(day, SessionKind.RTH).open_ns
        store.rows.append(row_of(session_of(day, SessionKind.RTH), [(opened, price, 10)]))
    found = query(Registry(), store).context(BOB, "ES", AFTER_NS).answer
    assert [(poc.price, poc.from_, poc.sessions) for poc in found.naked_weekly_pocs] == [
        (7000.0, "2026-01-05", 1),
        (6900.0, "2025-12-23", 1),
    ]
    assert [(poc.price, poc.from_, poc.to) for poc in found.naked_monthly_pocs] == [
        (6900.0, "2025-12-23", "2025-12-23")
    ]


def test_the_context_has_vwap_nodes_and_excess_of_its_session() -> None:
    """60 lots at 6900 and 40 a tick higher in the first half-hour, 100 at 6910 in the second, 1 in the third.

    By hand: a row's volume for nodes is that of the row and its neighbours. So 6900 and 6900.25 have 100, 6909.75 and
    6910 have 101; of equal rows the lowest is the node. 6900.75 is the first row between them without volume.
    """
    session = session_of(WEEK[0], SessionKind.RTH)
    half_hour = 1800 * 10**9
    trades = [(0, 27600, 60), (0, 27601, 40), (1, 27620, 1), (1, 27621, 1), (1, 27640, 100), (2, 27640, 1)]
    store = MemorySessions()
    store.rows = [row_of(session, [(session.open_ns + n * half_hour, *rest) for n, *rest in trades])]
    asked = query(Registry(), store)
    found = asked.context(BOB, "ES", AFTER_NS).answer
    sizes = [(6900, 60), (Fraction(690025, 100), 40), (6905, 1), (Fraction(690525, 100), 1), (6910, 101)]
    mean = sum(Fraction(price) * size for price, size in sizes) / 203
    variance = sum(size * (price - mean) ** 2 for price, size in sizes) / 203
    assert found.vwap is not None
    assert found.vwap.price == pytest.approx(float(mean), abs=1e-9)
    assert found.vwap.deviation == pytest.approx(float(variance) ** 0.5, abs=2e-9)
    assert (found.high_volume_nodes, found.low_volume_nodes) == ([6900.0, 6909.75], [6900.75])
    # two rows printed in bracket A only, but 6910 in the last bracket too
    assert (found.excess_low, found.excess_high) == (True, False)
    profile = asked.profile(BOB, "ES", None, AFTER_NS).answer.profile
    assert (profile.vwap, profile.high_volume_nodes) == (found.vwap, found.high_volume_nodes)
    assert (profile.excess_low, profile.excess_high) == (found.excess_low, found.excess_high)


def test_the_context_of_the_open_session_has_the_pocs_of_its_opening() -> None:
    pocs = (PeriodPoc("week", 27400, date(2025, 12, 29), date(2026, 1, 2), 4),)
    opening = replace(VIEW.opening, period_pocs=pocs)
    assert Opening.load(opening.dump()) == opening
    asked, _ = live(replace(VIEW, opening=opening))
    found = asked.context(ANN, "ES", NOW_NS).answer
    assert [(poc.price, poc.from_, poc.to, poc.sessions) for poc in found.naked_weekly_pocs] == [
        (6850.0, "2025-12-29", "2026-01-02", 4)
    ]
    assert found.naked_monthly_pocs == []


# -- the open session


def live(view: Any = VIEW) -> tuple[Query, Shown]:
    registry, store = Registry(), MemorySessions()
    store.rows = [row_of(session_of(PRIOR_DAY, kind), TRADES[PRIOR_DAY, kind]) for kind in SessionKind]
    shown = Shown(registry, view=view)
    return query(registry, store), shown


def test_the_week_with_the_open_session_develops() -> None:
    """Monday is stored, Tuesday is open: rows of both add up, and the answer is cached for a second."""
    asked, _ = live()
    found = asked.chosen_profile(ANN, "ES", ProfileRequest(period="week"), NOW_NS)
    answer = found.answer
    assert [(one.date, one.final) for one in answer.window.sessions] == [
        ("2026-01-05", True),
        ("2026-01-06", False),
    ]
    monday = sum(size for _, _, size in TRADES[PRIOR_DAY, SessionKind.RTH])
    assert sum(line.volume for line in answer.rows) == monday + sum(LADDER.volume)
    assert (answer.develops, answer.levels.final) == (True, False)
    assert found.fresh_until_ns == NOW_NS + 10**9
    # the open session's last letter: B at 6913.25, beside the letters of Monday
    top = next(line for line in answer.rows if line.price == 6913.25)
    assert top.letters.split(" ")[-1] == "B"


def test_rows_of_the_open_session_by_hand() -> None:
    """Rows of four ticks: 27638–27653 is five rows. Row 6909 (27636–27639) has 27638 and 27639: 1 + 2 lots, letter A.

    Row 6913 (27652–27655) has 27652 and 27653: 15 + 16 lots, letter B.
    """
    asked, _ = live()
    found = asked.chosen_profile(ANN, "ES", ProfileRequest(row_ticks=4), NOW_NS).answer
    assert [(r.price, r.letters, r.volume) for r in (found.rows[0], found.rows[-1])] == [
        (6913.0, "B", 31),
        (6909.0, "A", 3),
    ]
    assert len(found.rows) == 5
    assert (found.profile.high, found.profile.low) == (6913.25, 6909.5)


def test_the_open_session_has_no_short_brackets_and_no_delta() -> None:
    asked, _ = live()
    assert asked.chosen_profile(ANN, "ES", ProfileRequest(delta=True), NOW_NS).answer.profile.delta is None
    for request in (ProfileRequest(bracket_minutes=15), ProfileRequest(anchor_ns=OPEN_NS + 1)):
        with pytest.raises(NotFound) as caught:
            asked.chosen_profile(ANN, "ES", request, NOW_NS)
        assert caught.value.details == {"date": "2026-01-06"}


def test_a_vwap_anchored_before_the_open_session_needs_no_trades() -> None:
    asked, _ = live()
    found = asked.chosen_profile(ANN, "ES", ProfileRequest(anchor_ns=OPEN_NS), NOW_NS).answer.profile
    assert found.vwap is not None
    assert found.anchored_vwap == found.vwap


def test_the_full_day_of_the_open_session_includes_its_overnight_ladder() -> None:
    night = replace(
        LADDER, low_ticks=27600, brackets=(replace(LADDER.brackets[0], high_ticks=27615, low_ticks=27600),)
    )
    night = replace(night, touched=((27600, 27615),))
    asked, _ = live(replace(VIEW, overnight_ladder=night))
    found = asked.chosen_profile(ANN, "ES", ProfileRequest(hours="full"), NOW_NS).answer
    assert [(one.session, one.final) for one in found.window.sessions] == [("eth", True), ("rth", False)]
    assert found.profile.low == 6900.0
    overnight = asked.chosen_profile(ANN, "ES", ProfileRequest(hours="overnight"), NOW_NS).answer
    assert ([one.date for one in overnight.window.sessions], overnight.develops) == (["2026-01-06"], False)
    without, _ = live()
    earlier = without.chosen_profile(ANN, "ES", ProfileRequest(hours="overnight"), NOW_NS).answer
    assert [one.date for one in earlier.window.sessions] == ["2026-01-05"]
    partial = without.chosen_profile(ANN, "ES", ProfileRequest(hours="full"), NOW_NS).answer
    assert [one.session for one in partial.window.missing] == ["eth"]


def test_regular_hours_before_the_open_are_those_of_the_day_before() -> None:
    asked, _ = live(eth())
    found = asked.chosen_profile(ANN, "ES", ProfileRequest(row_ticks=2), NOW_NS).answer
    assert ([one.date for one in found.window.sessions], found.develops) == (["2026-01-05"], False)
    night = asked.chosen_profile(ANN, "ES", ProfileRequest(hours="overnight"), NOW_NS).answer
    assert ([one.date for one in night.window.sessions], night.develops) == (["2026-01-06"], True)


def test_a_caller_without_the_feed_has_the_completed_sessions_only() -> None:
    asked, _ = live()
    found = asked.chosen_profile(BOB, "ES", ProfileRequest(period="week"), NOW_NS).answer
    assert [one.date for one in found.window.sessions] == ["2026-01-05"]
    assert found.develops


# -- requests


@pytest.mark.parametrize(
    ("period", "first", "last"),
    [
        ("day", date(2024, 2, 29), date(2024, 2, 29)),
        ("week", date(2024, 2, 26), date(2024, 3, 3)),
        ("month", date(2024, 2, 1), date(2024, 2, 29)),
        ("quarter", date(2024, 1, 1), date(2024, 3, 31)),
    ],
)
def test_calendar_periods(period: Period, first: date, last: date) -> None:
    assert period_of(date(2024, 2, 29), period) == (first, last)


@pytest.mark.parametrize(
    ("parameters", "problem", "name"),
    [
        ({"first": "2026-01-07", "last": "2026-01-05"}, "invalid_parameter.order", "from"),
        ({"last": "2026-01-05"}, "invalid_parameter.from_missing", "from"),
        ({"first": "2026-01-05", "date": "2026-01-05"}, "invalid_parameter.exclusive", "date"),
        ({"first": "2026-01-05", "period": "week"}, "invalid_parameter.exclusive", "period"),
        ({"first": "2020-01-01", "last": "2026-01-05"}, "invalid_parameter.range", "from"),
    ],
)
def test_contradictory_days_are_refused(parameters: dict[str, Any], problem: str, name: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ask(stored(), **parameters)
    assert (caught.value.message_id, caught.value.details["parameter"]) == (problem, name)


@pytest.mark.parametrize(
    "parameters", [{"date": "2026-01-03"}, {"first": "2025-06-01", "last": "2025-06-05"}]
)
def test_days_without_a_session_are_not_found(parameters: dict[str, Any]) -> None:
    with pytest.raises(NotFound):
        ask(stored(), row_ticks=2, **parameters)


def test_balanced_days_are_suggested() -> None:
    """The value areas of Monday and Tuesday are equal, that of Wednesday is elsewhere."""
    store = MemorySessions()
    prices = {WEEK[0]: 27600, WEEK[1]: 27600, WEEK[2]: 28000}
    for day, price in prices.items():
        opened = session_of(day, SessionKind.RTH).open_ns
        trades = [(opened + n * 1800 * 10**9, price + n % 3, 10) for n in range(13)]
        store.rows.append(row_of(session_of(day, SessionKind.RTH), trades))
    found = ask(query(Registry(), store), period="week", date="2026-01-05", now_ns=OPEN_NS + 30 * DAY_NS)
    assert [(b.from_, b.to, b.sessions) for b in found.window.balances] == [("2026-01-05", "2026-01-06", 2)]
