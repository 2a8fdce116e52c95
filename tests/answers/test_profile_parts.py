"""Profiles of parts of sessions against an independent oracle: between instants, lists of sessions, and splits."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.answers.test_profiles_of_trades import (
    DAYS,
    SECOND,
    Trade,
    ask,
    put,
    recorded,
    session_of,
)
from tests.market import profile_oracle as oracle

from outcry.app.installation import Installation
from outcry.base.errors import InvalidParameter, NotFound
from outcry.base.timestamps import exact_timestamp
from outcry.market.calendar import SessionKind
from outcry.market.methods import PRESETS
from outcry.recordings.file_model import ReadOptions
from outcry.wire.profile import ProfileAnswer, ProfileLevels, ProfileRow

MINUTE = 60 * SECOND
TRADES = recorded("ABN")
OPENS = [session_of(day, SessionKind.RTH).open_ns for day in DAYS]
CLOSES = [session_of(day, SessionKind.RTH).close_ns for day in DAYS]
KINDS = {"rth": [SessionKind.RTH], "full": list(SessionKind)}


def bracket_of(day: date, kind: SessionKind, at_ns: int, minutes: int) -> int:
    """Return a number that only the bracket of this time has: when it starts, counted from the open of its segment."""
    opened = max(start for start, _ in session_of(day, kind).segments if start <= at_ns)
    return at_ns - (at_ns - opened) % (minutes * MINUTE)


def counted(inside: Callable[[date, int], bool], hours: str, minutes: int, row: int) -> oracle.Counted:
    """Return what the oracle counts of the trades for which `inside(trade date, time)` holds."""
    return oracle.of_ranges(
        [
            (bracket_of(day, kind, at_ns, minutes), price, price, {price: size})
            for (day, kind), trades in TRADES.items()
            for at_ns, price, size, _ in trades
            if kind in KINDS[hours] and inside(day, at_ns)
        ],
        row,
    )


def check(levels: ProfileLevels | None, rows: Sequence[ProfileRow], found: oracle.Counted, row: int) -> None:
    """Compare levels and rows of an answer with what the oracle counted."""
    assert levels is not None
    want = oracle.levels(found, PRESETS["dalton"], row)
    given = {
        "poc": levels.poc, "val": levels.val, "vah": levels.vah, "vpoc": levels.vpoc, "volume_val": levels.volume_val,
        "volume_vah": levels.volume_vah,
    }  # fmt: skip
    assert given == {name: ticks / 4 for name, ticks in want.items()}
    assert {line.price: line.volume for line in rows if line.volume} == {
        tick * row / 4: size for tick, size in found.volume.items()
    }
    assert {line.price: line.tpos for line in rows if line.tpos} == {
        tick * row / 4: len(letters) for tick, letters in found.letters.items()
    }


@pytest.fixture
def stored(installation: Installation, tmp_path: Path) -> Installation:
    put(installation, tmp_path / "es.csv", TRADES)
    return installation


SPANS = {
    "inside one session": (OPENS[0] + 61 * MINUTE + 7 * SECOND, OPENS[0] + 200 * MINUTE + 1),
    "across the night": (OPENS[0] + 95 * MINUTE, OPENS[1] + 30 * MINUTE),
    "from before the open": (OPENS[0] - 45 * MINUTE, CLOSES[0]),
}


@pytest.mark.parametrize("hours", ["rth", "full"])
@pytest.mark.parametrize("minutes", [15, 30, 60])
@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
def test_a_range_between_instants(
    stored: Installation, span: tuple[int, int], minutes: int, hours: Any
) -> None:
    found = ask(
        stored, first=span[0], last=span[1], hours=hours, bracket_minutes=minutes, row_ticks=3, delta=True
    )

    def inside(_: date, at_ns: int) -> bool:
        return span[0] <= at_ns < span[1]

    check(found.profile, found.rows, counted(inside, hours, minutes, 3), 3)
    deltas: dict[int, int] = defaultdict(int)
    for (day, kind), trades in TRADES.items():
        for at_ns, price, size, side in trades:
            if kind in KINDS[hours] and inside(day, at_ns):
                deltas[price // 3] += {"B": size, "A": -size, "N": 0}[side]
    assert {line.price: line.delta for line in found.rows if line.volume} == {
        row * 3 / 4: delta for row, delta in deltas.items()
    }
    windows = [(one.from_, one.to) for part in found.window.sessions for one in part.windows]
    assert (windows[0][0], windows[-1][1]) == (
        exact_timestamp(max(span[0], OPENS[0]) if hours == "rth" else span[0]), exact_timestamp(span[1]),
    )  # fmt: skip
    assert found.develops is False


def test_the_end_is_not_included_and_the_start_is(installation: Installation, tmp_path: Path) -> None:
    """Four trades by hand: at 10:00:00, 10:00:01, 10:00:02 and 10:00:03. From the second to the fourth are two."""
    ten = OPENS[0] + 30 * MINUTE
    trades: list[Trade] = [(ten + n * SECOND, 22000 + n, n + 1, "B") for n in range(4)]
    filler: list[Trade] = [(at, 22000, 1, "N") for at in range(OPENS[0], CLOSES[0], 60 * SECOND)]
    put(
        installation, tmp_path / "es.csv", {(DAYS[0], SessionKind.RTH): [*filler[:30], *trades, *filler[31:]]}
    )
    found = ask(installation, first=ten + SECOND, last=ten + 3 * SECOND, delta=True)
    assert [(line.price, line.letters, line.volume, line.delta) for line in found.rows] == [
        (5500.5, "B", 3, 3),
        (5500.25, "B", 2, 2),
    ]
    assert (found.profile.ib_high, found.profile.open_price, found.profile.close_price) == (
        None,
        5500.25,
        5500.5,
    )
    # VWAP by hand: (2 · 5500.25 + 3 · 5500.50) / 5
    assert found.profile.vwap is not None
    assert found.profile.vwap.price == 5500.4
    assert [one.whole for one in found.window.sessions] == [False]
    assert [(one.from_, one.to) for one in found.window.sessions[0].windows] == [
        ("2024-07-01T14:00:01.000Z", "2024-07-01T14:00:03.000Z")
    ]


def test_dates_and_instants_can_be_mixed(stored: Installation) -> None:
    end = OPENS[1] + 40 * MINUTE
    found = ask(stored, first="2024-07-01", last=end)
    check(found.profile, found.rows, counted(lambda _, at: at < end, "rth", 30, 1), 1)
    start = OPENS[0] + 40 * MINUTE
    for last in ("2024-07-02", None):
        found = ask(stored, first=start, last=last)
        check(found.profile, found.rows, counted(lambda _, at: at >= start, "rth", 30, 1), 1)
    assert (found.window.from_, found.window.to) == ("2024-07-01", "2024-07-02")


def test_parts_are_merged_in_any_order(stored: Installation) -> None:
    """An hour of Monday and all of Tuesday; then two parts of one bracket, which counts once."""
    start, end = OPENS[0] + 50 * MINUTE, OPENS[0] + 110 * MINUTE
    parts = ((start, end), ("2024-07-02", "2024-07-02"))
    found = ask(stored, sessions=parts, delta=True)
    check(
        found.profile,
        found.rows,
        counted(lambda day, at: start <= at < end or day == DAYS[1], "rth", 30, 1),
        1,
    )
    assert ask(stored, sessions=parts[::-1], delta=True) == found
    assert [(one.date, one.whole) for one in found.window.sessions] == [
        ("2024-07-01", False),
        ("2024-07-02", True),
    ]
    near = ((OPENS[0] + MINUTE, OPENS[0] + 5 * MINUTE), (OPENS[0] + 20 * MINUTE, OPENS[0] + 25 * MINUTE))
    found = ask(stored, sessions=near)
    check(
        found.profile, found.rows,
        counted(lambda _, at: any(first <= at < last for first, last in near), "rth", 30, 1), 1,
    )  # fmt: skip
    assert {line.letters for line in found.rows} == {"A"}
    assert len(found.window.sessions[0].windows) == 2


@pytest.mark.parametrize("hours", ["rth", "full"])
@pytest.mark.parametrize("seed", range(5))
def test_merged_parts_are_the_fold_of_all_their_trades(stored: Installation, seed: int, hours: Any) -> None:
    """Cut the two days at random times; all parts together are the profile of both days, which no part needs to be."""
    chance = random.Random(seed)
    edges = sorted(
        {
            session_of(DAYS[0], SessionKind.ETH).open_ns,
            CLOSES[1],
            *(chance.randrange(OPENS[0], CLOSES[1]) for _ in range(4)),
        }
    )
    parts = list(pairwise(edges))
    chance.shuffle(parts)
    merged = ask(stored, sessions=tuple(parts), hours=hours, delta=True, row_ticks=2)
    whole = ask(stored, first="2024-07-01", last="2024-07-02", hours=hours, delta=True, row_ticks=2)
    assert (merged.rows, merged.profile) == (whole.rows, whole.profile)


@pytest.mark.parametrize("seed", range(5))
def test_splits_cover_exactly_the_whole(stored: Installation, seed: int) -> None:
    chance = random.Random(seed)
    cuts = tuple(chance.randrange(OPENS[0] + 1, CLOSES[1]) for _ in range(4))
    found = ask(
        stored, first="2024-07-01", last="2024-07-02", hours="full", split=cuts, delta=True, row_ticks=2
    )
    whole = ask(stored, first="2024-07-01", last="2024-07-02", hours="full", delta=True, row_ticks=2)
    assert (found.rows, found.profile, whole.splits) == (whole.rows, whole.profile, [])
    edges = [session_of(DAYS[0], SessionKind.ETH).open_ns, *sorted(cuts), CLOSES[1]]
    assert [(one.from_, one.to) for one in found.splits] == [
        (exact_timestamp(a), exact_timestamp(b)) for a, b in pairwise(edges)
    ]
    volume: dict[float, Any] = defaultdict(int)
    delta: dict[float, Any] = defaultdict(int)
    for one, (start, end) in zip(found.splits, pairwise(edges), strict=True):
        check(one.profile, one.rows, counted(lambda _, at, a=start, b=end: a <= at < b, "full", 30, 2), 2)
        for line in one.rows:
            volume[line.price] += line.volume
            delta[line.price] += line.delta
    assert {line.price: (line.volume, line.delta) for line in whole.rows} == {
        line.price: (volume[line.price], delta[line.price]) for line in whole.rows
    }
    assert {one.develops for one in found.splits} == {False}


def test_a_split_between_sessions_needs_no_trades(stored: Installation) -> None:
    """The tape is gone. The night and the day are still known apart; a cut inside the day is refused."""
    asked: dict[str, Any] = {"date": "2024-07-02", "hours": "full"}
    before = ask(stored, **asked, split=(OPENS[1],))
    remove_tape(stored)
    found = ask(stored, **asked, split=(OPENS[1],))
    assert found == before
    night, day = (ask(stored, date="2024-07-02", hours=hours) for hours in ("overnight", "rth"))
    assert [one.rows for one in found.splits] == [night.rows, day.rows]
    assert [one.profile for one in found.splits] == [night.profile, day.profile]
    with pytest.raises(NotFound) as caught:
        ask(stored, date="2024-07-02", split=(OPENS[1] + 30 * MINUTE,))
    assert caught.value.message_id == "not_found.trades"


def remove_tape(installation: Installation) -> None:
    for file in (Path(installation.settings.folder) / "tape").rglob("*.zst"):
        file.unlink()


def test_a_part_without_trades_is_an_empty_split(installation: Installation, tmp_path: Path) -> None:
    """Nothing trades from 9:45 to 9:50. The part has no levels, and asking for it alone is an error."""
    quiet = OPENS[0] + 15 * MINUTE, OPENS[0] + 20 * MINUTE
    trades = [t for t in TRADES[DAYS[0], SessionKind.RTH] if not quiet[0] <= t[0] < quiet[1]]
    put(installation, tmp_path / "es.csv", {(DAYS[0], SessionKind.RTH): trades})
    found = ask(installation, date="2024-07-01", split=quiet)
    assert [(one.profile is None, bool(one.rows)) for one in found.splits] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    with pytest.raises(NotFound) as caught:
        ask(installation, first=quiet[0], last=quiet[1])
    assert (caught.value.message_id, caught.value.details["start"]) == (
        "not_found.no_trades",
        "2024-07-01T13:45:00.000Z",
    )


def test_an_initial_balance_needs_the_whole_first_hour(stored: Installation) -> None:
    hour = [p for at, p, *_ in TRADES[DAYS[0], SessionKind.RTH] if at < OPENS[0] + 60 * MINUTE]
    found = ask(stored, first=OPENS[0], last=OPENS[0] + 70 * MINUTE).profile
    assert (found.ib_high, found.ib_low) == (max(hour) / 4, min(hour) / 4)
    for span in ((OPENS[0] + 1, CLOSES[0]), (OPENS[0], OPENS[0] + 59 * MINUTE)):
        part = ask(stored, first=span[0], last=span[1]).profile
        assert (part.ib_high, part.ib_extensions) == (None, [])


def test_an_anchored_vwap_of_a_part(stored: Installation) -> None:
    """The part is from 10:00 to 11:00; the anchor is 10:20."""
    start, anchor, end = (OPENS[0] + n * MINUTE for n in (30, 50, 90))
    found = ask(stored, first=start, last=end, anchor_ns=anchor).profile.anchored_vwap
    alone = ask(stored, first=anchor, last=end).profile.vwap
    assert found == alone


# -- bars


def minute_bars(installation: Installation, path: Path) -> list[tuple[int, int, int, int, int]]:
    """Import one-minute bars of a session and return them: start, low, high, close in ticks, volume."""
    chance, price = random.Random(4), 22000
    lines, bars = ["ts_utc,symbol,open,high,low,close,volume"], []
    for at_ns in range(OPENS[0], CLOSES[0] + 60 * SECOND, 60 * SECOND):
        price += chance.randrange(-3, 4)
        low, high = price - chance.randrange(3), price + chance.randrange(3)
        volume = chance.randrange(1, 90)
        at = datetime.fromtimestamp(at_ns // SECOND, UTC)
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S}Z,ESU4,{price / 4},{high / 4},{low / 4},{low / 4},{volume}")
        bars.append((at_ns, low, high, low, volume))
    path.write_text("\n".join(lines) + "\n")
    installation.importer.run(path, 0, ReadOptions(stamp="open"), installation.clock.now_ns())
    return bars


def test_parts_of_bars(installation: Installation, tmp_path: Path) -> None:
    """Spread each bar over its ticks; a bar belongs to the part that contains it."""
    bars = minute_bars(installation, tmp_path / "bars.csv")
    start, end = OPENS[0] + 17 * MINUTE, OPENS[0] + 100 * MINUTE
    ranges = [
        (bracket_of(DAYS[0], SessionKind.RTH, at, 15), low, high, oracle.spread(low, high, close, volume))
        for at, low, high, close, volume in bars
        if start <= at < end
    ]
    found = ask(installation, first=start, last=end, bracket_minutes=15, delta=True)
    check(found.profile, found.rows, oracle.of_ranges(ranges, 1), 1)
    assert (found.profile.delta, found.method.vpoc_source) == (None, "bars")
    split = ask(installation, date="2024-07-01", split=(start, end))
    check(split.splits[1].profile, split.splits[1].rows, oracle.of_ranges(
        [(bracket_of(DAYS[0], SessionKind.RTH, at, 30), low, high, oracle.spread(low, high, close, volume))
         for at, low, high, close, volume in bars if start <= at < end], 1), 1)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "parameter"),
    [
        ({"first": OPENS[0] + 90 * SECOND, "last": OPENS[0] + 10 * MINUTE}, "from"),
        ({"first": OPENS[0], "last": OPENS[0] + 90 * SECOND}, "to"),
        ({"date": "2024-07-01", "split": (OPENS[0] + 90 * SECOND,)}, "split"),
        ({"sessions": ((OPENS[0] + 90 * SECOND, OPENS[0] + 10 * MINUTE),)}, "sessions"),
    ],
)
def test_an_instant_inside_a_bar_is_refused(
    installation: Installation, tmp_path: Path, asked: dict[str, Any], parameter: str
) -> None:
    minute_bars(installation, tmp_path / "bars.csv")
    with pytest.raises(InvalidParameter) as caught:
        ask(installation, **asked)
    assert (caught.value.message_id, caught.value.details) == (
        "invalid_parameter.inside_bar",
        {
            "parameter": parameter, "date": "2024-07-01", "at": "2024-07-01T13:31:30.000Z",
            "start": "2024-07-01T13:31:00.000Z", "end": "2024-07-01T13:32:00.000Z",
        },
    )  # fmt: skip


# -- requests


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"first": CLOSES[0], "last": OPENS[0]}, "invalid_parameter.order"),
        ({"first": OPENS[0], "last": OPENS[0]}, "invalid_parameter.order"),
        ({"sessions": (("2024-07-02", "2024-07-01"),)}, "invalid_parameter.order"),
        ({"sessions": (("2024-07-01", "2024-07-02"), ("2024-07-02", "2024-07-02"))}, "invalid_parameter.overlap"),
        ({"sessions": (("2024-07-01", "2024-07-01"), (OPENS[0], CLOSES[0]))}, "invalid_parameter.overlap"),
        ({"sessions": (("2024-07-01", "2024-07-01"),), "date": "2024-07-02"}, "invalid_parameter.sessions_alone"),
        ({"last": CLOSES[0]}, "invalid_parameter.from_missing"),
        ({"first": OPENS[0], "last": CLOSES[0], "period": "day"}, "invalid_parameter.exclusive"),
        ({"date": "2024-07-01", "split": (OPENS[0],)}, "invalid_parameter.split_outside"),
        ({"date": "2024-07-01", "split": (CLOSES[0],)}, "invalid_parameter.split_outside"),
        ({"first": OPENS[0], "last": OPENS[0] + 500 * 86_400 * SECOND}, "invalid_parameter.range"),
        ({"first": CLOSES[0] + MINUTE, "last": CLOSES[0] + 5 * MINUTE}, "not_found.hours"),
        ({"sessions": (("2024-07-06", "2024-07-07"),)}, "not_found.session"),
        ({"sessions": (("2024-06-03", "2024-06-03"),)}, "not_found.session"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused(
    stored: Installation, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidParameter, NotFound)) as caught:
        ask(stored, **asked)
    assert caught.value.message_id == message


def test_a_session_that_is_left_out_ends_a_balance(installation: Installation, tmp_path: Path) -> None:
    """Three days with the same value area: all three are one balance, but the first and third alone are none."""
    sessions = [session_of(date(2024, 7, day), SessionKind.RTH) for day in (1, 2, 3)]
    trades = [
        (at_ns, 22000 + n % 9)
        for session in sessions
        for n, at_ns in enumerate(range(session.open_ns, session.close_ns + 60 * SECOND, 30 * SECOND))
    ]
    lines = ["ts_utc,symbol,price,size,side"]
    for at_ns, price in trades:
        lines.append(
            f"{datetime.fromtimestamp(at_ns // SECOND, UTC):%Y-%m-%dT%H:%M:%S}Z,ESU4,{price / 4},5,B"
        )
    (tmp_path / "es.csv").write_text("\n".join(lines) + "\n")
    installation.importer.run(tmp_path / "es.csv", 0, ReadOptions(), installation.clock.now_ns())

    def balances(found: ProfileAnswer) -> list[tuple[str, str, int]]:
        return [(one.from_, one.to, one.sessions) for one in found.window.balances]

    assert balances(ask(installation, first="2024-07-01", last="2024-07-03")) == [
        ("2024-07-01", "2024-07-03", 3)
    ]
    apart = ask(installation, sessions=(("2024-07-01", "2024-07-01"), ("2024-07-03", "2024-07-03")))
    assert (balances(apart), len(apart.window.sessions)) == ([], 2)
