"""`outcry.profile` of several sessions and parts of them, from trades and bars, against an independent oracle."""

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.market import profile_oracle as oracle

import outcry
from outcry.market.calendar import SessionKind
from outcry.market.methods import PRESETS
from outcry.trades.reference_tables import load_reference

CALENDAR = load_reference().calendar
SECOND, MINUTE = 10**9, 60 * 10**9
DAYS = [dt.date(2024, 7, 1), dt.date(2024, 7, 2), dt.date(2024, 7, 3)]
SESSIONS = {
    (day, kind): session
    for day in DAYS
    for kind in SessionKind
    if (session := CALENDAR.session("ES", day, kind)) is not None
}
OPENS = [SESSIONS[day, SessionKind.RTH].open_ns for day in DAYS]
CLOSES = [SESSIONS[day, SessionKind.RTH].close_ns for day in DAYS]
KINDS = {"rth": [SessionKind.RTH], "full": list(SessionKind)}
Inside = Callable[[dt.date, int], bool]


def walk() -> list[tuple[int, int, int, str]]:
    """Return a trade about every 50 seconds of three trade dates: time, price in ticks, size, side."""
    chance, price = random.Random(11), 22000
    made: list[tuple[int, int, int, str]] = []
    for session in SESSIONS.values():
        for start, end in session.segments:
            for at_ns in range(start, end, 50 * SECOND):
                price += chance.randrange(-3, 4)
                made.append(
                    (
                        at_ns + chance.randrange(50) * SECOND // 2,
                        price,
                        chance.randrange(1, 30),
                        chance.choice("BA"),
                    )
                )
    return made


TRADES = walk()


def table(trades: Sequence[tuple[int, int, int, str]] = TRADES) -> dict[str, Any]:
    """Return trades as columns, in a random order that keeps equal times in order."""
    order = sorted(range(len(trades)), key=lambda at: (at * 7919) % len(trades))
    if len({trade[0] for trade in trades}) < len(trades):
        order = list(range(len(trades)))
    columns = list(zip(*(trades[at] for at in order), strict=True))
    return {
        "ts": np.array(columns[0]), "price": np.array(columns[1]) / 4, "size": np.array(columns[2]),
        "side": np.array(columns[3]),
    }  # fmt: skip


def bracket_of(day: dt.date, kind: SessionKind, at_ns: int, minutes: int) -> int:
    opened = max(start for start, _ in SESSIONS[day, kind].segments if start <= at_ns)
    return at_ns - (at_ns - opened) % (minutes * MINUTE)


def where(at_ns: int) -> tuple[dt.date, SessionKind]:
    return next(key for key, s in SESSIONS.items() if any(a <= at_ns < b for a, b in s.segments))


def check(
    found: outcry.Profile | None, inside: Inside, hours: str = "rth", minutes: int = 30, row: int = 1
) -> None:
    """Compare a profile with what the oracle counts of the trades for which `inside(trade date, time)` holds."""
    assert found is not None
    ranges = [
        (bracket_of(*where(at), at, minutes), price, price, {price: size})
        for at, price, size, _ in TRADES
        if where(at)[1] in KINDS[hours] and inside(where(at)[0], at)
    ]
    counted = oracle.of_ranges(ranges, row)
    want = {name: ticks / 4 for name, ticks in oracle.levels(counted, PRESETS["dalton"], row).items()}
    assert want == {
        "poc": found.poc, "val": found.val, "vah": found.vah, "vpoc": found.vpoc, "volume_val": found.volume_val,
        "volume_vah": found.volume_vah,
    }  # fmt: skip
    assert {line.price: line.volume for line in found.rows if line.volume} == {
        tick * row / 4: size for tick, size in counted.volume.items()
    }
    assert {line.price: line.tpos for line in found.rows if line.tpos} == {
        tick * row / 4: len(letters) for tick, letters in counted.letters.items()
    }
    if minutes >= 30:  # a night has more short brackets than there are letters
        assert all(len(line.letters.replace(" ", "")) == line.tpos for line in found.rows)


def iso(at_ns: int) -> str:
    return f"{np.datetime64(at_ns, 'ns')}+00:00"[:26] + "+00:00"


def profile(**parameters: Any) -> outcry.Profile:
    return outcry.profile(table(), symbol="ES", **parameters)


@pytest.mark.parametrize("hours", ["rth", "full"])
@pytest.mark.parametrize(("minutes", "row"), [(15, 1), (30, 4), (60, 1)])
def test_a_range_of_dates(hours: str, minutes: int, row: int) -> None:
    found = profile(
        first="2024-07-01", last=dt.date(2024, 7, 2), session=hours, bracket_minutes=minutes, row_ticks=row
    )
    check(found, lambda day, _: day <= DAYS[1], hours, minutes, row)
    assert (found.date, found.sessions, found.day_type) == (None, DAYS[:2], None)
    assert math.isnan(found.ib_high)


def test_letters_begin_anew_each_day() -> None:
    """By hand: on Monday and Wednesday trades at the open and 30 minutes later; a space is between the days."""
    trades = [(OPENS[n] + m * MINUTE, 40 + m // 30, 1, "B") for n in (0, 2) for m in (0, 30)]
    found = outcry.profile(table(trades), symbol="ES", first=DAYS[0], last=DAYS[2])
    assert [(line.price, line.letters) for line in found.rows] == [(10.25, "B B"), (10.0, "A A")]


@pytest.mark.parametrize("period", ["week", "month", "quarter"])
def test_a_period(period: str) -> None:
    """All data is of the first week of the quarter."""
    check(profile(date="2024-07-03", period=period), lambda *_: True)


def test_a_range_between_instants() -> None:
    start, end = OPENS[0] + 95 * MINUTE + 7 * SECOND, OPENS[2] + 10 * MINUTE
    found = profile(first=iso(start), last=end, session="full", bracket_minutes=15)
    check(found, lambda _, at: start <= at < end, "full", 15)
    assert found.window_ns == (start, end)
    aware = dt.datetime.fromtimestamp(start // SECOND, dt.UTC)
    assert profile(first=aware, last=end, session="full", bracket_minutes=15) == found


def test_a_list_of_dates_and_parts_in_any_order() -> None:
    start, end = OPENS[1] + 10 * MINUTE, OPENS[1] + 95 * MINUTE
    parts = [DAYS[2], (start, end), "2024-07-01"]
    found = profile(sessions=parts)
    check(found, lambda day, at: day in (DAYS[0], DAYS[2]) or start <= at < end)
    assert profile(sessions=parts[::-1]) == found


@pytest.mark.parametrize("seed", range(4))
def test_merged_parts_are_the_fold_of_all_and_splits_cover_it(seed: int) -> None:
    chance = random.Random(seed)
    edges = sorted({OPENS[0], CLOSES[2], *(chance.randrange(OPENS[0], CLOSES[2]) for _ in range(5))})
    whole = profile(first=DAYS[0], last=DAYS[2], split=edges[1:-1])
    parts = list(pairwise(edges))
    chance.shuffle(parts)
    assert profile(sessions=parts).rows == whole.rows
    volume: dict[float, Any] = {}
    for piece, (start, end) in zip(whole.splits, pairwise(edges), strict=True):
        if piece is None:
            assert not any(start <= at < end and where(at)[1] is SessionKind.RTH for at, *_ in TRADES)
            continue
        check(piece, lambda _, at, a=start, b=end: a <= at < b)
        for line in piece.rows:
            old = volume.get(line.price, (0, 0))
            volume[line.price] = old[0] + line.volume, old[1] + line.delta
    assert [(line.volume, line.delta) for line in whole.rows] == [
        volume.get(line.price, (0, 0)) for line in whole.rows
    ]
    assert volume.keys() <= {line.price for line in whole.rows}


def test_an_anchored_vwap() -> None:
    anchor = OPENS[1] + 61 * MINUTE
    found = profile(first=DAYS[0], last=DAYS[2], anchor=anchor)
    counted = [(p, s) for at, p, s, _ in TRADES if at >= anchor and where(at)[1] is SessionKind.RTH]
    lots = sum(size for _, size in counted)
    mean = Fraction(sum(price * size for price, size in counted), lots)
    variance = sum(size * (price - mean) ** 2 for price, size in counted) / lots
    assert found.anchored_vwap == pytest.approx(float(mean / 4), abs=1e-9)
    assert found.anchored_vwap_deviation == pytest.approx(float(variance) ** 0.5 / 4, abs=2e-9)
    assert math.isnan(profile(date=DAYS[0], anchor=CLOSES[2]).anchored_vwap)
    assert math.isnan(profile(date=DAYS[0]).anchored_vwap)


def test_windows_of_ones_own_are_merged() -> None:
    """By hand: two trades in the first window, none of the gap, one in the second. Each window begins a bracket."""
    trades = [
        (MINUTE, 40, 2, "B"),
        (2 * MINUTE, 41, 1, "B"),
        (5 * MINUTE, 99, 9, "A"),
        (8 * MINUTE, 41, 4, "A"),
    ]
    found = outcry.profile(
        table(trades), tick_size=0.25, window=[(7 * MINUTE, 9 * MINUTE), (0, 3 * MINUTE)], split=[5 * MINUTE]
    )
    assert [(line.price, line.letters, line.volume, line.delta) for line in found.rows] == [
        (10.25, "AB", 5, -3),
        (10.0, "A", 2, 2),
    ]
    assert [[line.volume for line in piece.rows] for piece in found.splits if piece] == [[1, 2], [4]]
    assert found.window_ns == (0, 9 * MINUTE)


def test_an_initial_balance_needs_one_day_and_its_first_hour() -> None:
    hour = [p for at, p, *_ in TRADES if OPENS[0] <= at < OPENS[0] + 60 * MINUTE]
    found = profile(first=OPENS[0], last=OPENS[0] + 61 * MINUTE)
    assert (found.ib_high, found.ib_low) == (max(hour) / 4, min(hour) / 4)
    assert math.isnan(profile(first=OPENS[0] + 1, last=CLOSES[0]).ib_high)


def test_balances_are_suggested() -> None:
    """Three days with equal prices are one balance. Without the middle one, the others are not consecutive."""
    trades = [
        (at, 22000 + n % 9, 5, "B")
        for start, end in zip(OPENS, CLOSES, strict=True)
        for n, at in enumerate(range(start, end, 30 * SECOND))
    ]
    data = table(trades)
    found = outcry.profile(data, symbol="ES", first=DAYS[0], last=DAYS[2])
    assert found.balances == [(DAYS[0], DAYS[2])]
    assert outcry.profile(data, symbol="ES", sessions=[DAYS[0], DAYS[2]]).balances == []


# -- bars


def minute_bars() -> tuple[dict[str, Any], list[tuple[int, int, int, int, int]]]:
    chance, price = random.Random(5), 22000
    bars: list[tuple[int, int, int, int, int]] = []
    for start, end in zip(OPENS[:2], CLOSES[:2], strict=True):
        for at_ns in range(start, end, MINUTE):
            price += chance.randrange(-3, 4)
            low, high = price - chance.randrange(3), price + chance.randrange(3)
            bars.append((at_ns, low, high, price, chance.randrange(1, 90)))
    columns = [np.array(column) for column in zip(*bars, strict=True)]
    data = {"ts": columns[0], "open": columns[3] / 4, "high": columns[2] / 4, "low": columns[1] / 4}
    return data | {"close": columns[3] / 4, "volume": columns[4]}, bars


def test_parts_of_bars() -> None:
    data, bars = minute_bars()
    start, end = OPENS[0] + 17 * MINUTE, OPENS[1] + 100 * MINUTE
    found = outcry.profile(data, symbol="ES", first=start, last=end, bracket_minutes=15)
    ranges = [
        (bracket_of(*where(at), at, 15), low, high, oracle.spread(low, high, close, volume))
        for at, low, high, close, volume in bars
        if start <= at < end
    ]
    counted = oracle.of_ranges(ranges, 1)
    want = {name: ticks / 4 for name, ticks in oracle.levels(counted, PRESETS["dalton"], 1).items()}
    assert (found.poc, found.val, found.vah, found.vpoc) == tuple(
        want[name] for name in ("poc", "val", "vah", "vpoc")
    )
    assert {line.price: line.volume for line in found.rows if line.volume} == {
        tick / 4: size for tick, size in counted.volume.items()
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"first": OPENS[0] + 90 * SECOND, "last": CLOSES[0]},
        {"date": DAYS[0], "split": [OPENS[0] + 90 * SECOND]},
    ],
)
def test_an_instant_inside_a_bar_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(
        outcry.InvalidInput, match=r"2024-07-01T13:31:00Z to 2024-07-01T13:32:00Z.*at 2024-07-01T13:31:30Z"
    ):
        outcry.profile(minute_bars()[0], symbol="ES", **asked)


# -- arguments


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"first": "2024-07-01"}, "first and last belong together"),
        ({"last": "2024-07-01"}, "no date"),
        ({"date": DAYS[0], "first": DAYS[0], "last": DAYS[1]}, "date and first"),
        ({"date": DAYS[0], "period": "year"}, "Invalid period 'year'"),
        ({"first": DAYS[0], "last": DAYS[1], "period": "week"}, "Invalid period 'week'"),
        ({"first": DAYS[1], "last": DAYS[0]}, "is not before"),
        ({"first": "2024-07-01T13:30", "last": DAYS[1]}, "has no time zone"),
        ({"sessions": []}, "Invalid sessions"),
        ({"sessions": "2024-07-01"}, "Invalid sessions"),
        ({"sessions": [DAYS[0], (OPENS[0], CLOSES[0])]}, "would count twice"),
        ({"first": CLOSES[0] + MINUTE, "last": CLOSES[0] + 2 * MINUTE}, "no regular session in this time"),
        ({"date": DAYS[0], "split": [OPENS[0]]}, "cannot be split at"),
        ({"date": DAYS[0], "split": "2024-07-01T14:00Z"}, "Invalid split"),
        ({"date": DAYS[0], "anchor": "2024-07-01"}, "anchor: '2024-07-01' has no time zone"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(outcry.InvalidInput) as caught:
        profile(**asked)
    assert problem in str(caught.value)


def test_overlapping_windows_are_refused() -> None:
    with pytest.raises(outcry.InvalidInput, match="two share the time"):
        outcry.profile(table(), tick_size=0.25, window=[(OPENS[0], CLOSES[0]), (OPENS[0] + 1, CLOSES[1])])
