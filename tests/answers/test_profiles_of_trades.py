"""Profiles that need the trades on tape: short brackets, volume delta and an anchored VWAP, against slow counts."""

import random
from collections import defaultdict
from contextlib import nullcontext
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.market import profile_oracle as oracle

from outcry.access.licences import Grant, Scope
from outcry.answers.profile_request import ProfileRequest
from outcry.app.installation import Installation
from outcry.base.errors import InvalidParameter, NotFound, Occupied
from outcry.market.calendar import Session, SessionKind
from outcry.market.methods import DALTON
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.tape import TapeFolder
from outcry.trades.reference_tables import load_reference
from outcry.wire.profile import ProfileAnswer

SCOPE = Scope(1, (Grant("everyone", "completed", (), None, None),))
CALENDAR = load_reference().calendar
DAYS = [date(2024, 7, 1), date(2024, 7, 2)]
SECOND = 10**9
#: Time (ns UTC), price in ticks of 0.25, lots, side.
Trade = tuple[int, int, int, str]


def session_of(day: date, kind: SessionKind) -> Session:
    found = CALENDAR.session("ES", day, kind)
    assert found is not None
    return found


def walk(session: Session, seed: int, sides: str) -> list[Trade]:
    """Return a trade about every 40 seconds of the session."""
    chance = random.Random(seed)
    price, trades = 22000, []
    for start, end in session.segments:
        for at_ns in range(start, end, 40 * SECOND):
            price += chance.randrange(-3, 4)
            moment = min(at_ns + chance.randrange(40) * SECOND, end - SECOND)
            trades.append((moment, price, chance.randrange(1, 30), chance.choice(sides)))
    return trades


def recorded(sides: str) -> dict[tuple[date, SessionKind], list[Trade]]:
    keys = [(day, kind) for day in DAYS for kind in SessionKind]
    return {key: walk(session_of(*key), n, sides) for n, key in enumerate(keys)}


def put(installation: Installation, path: Path, trades: dict[tuple[date, SessionKind], list[Trade]]) -> None:
    lines = ["ts_utc,symbol,price,size,side"]
    everything = sorted(trade for some in trades.values() for trade in some)
    last = session_of(
        DAYS[-1], SessionKind.RTH
    ).close_ns  # a trade after the close shows that the recording goes on
    for at_ns, price, size, side in [*everything, (last + 30 * SECOND, 22000, 1, "N")]:
        at = datetime.fromtimestamp(at_ns // SECOND, UTC)
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S}Z,ESU4,{price / 4},{size},{side}")
    path.write_text("\n".join(lines) + "\n")
    installation.importer.run(path, 0, ReadOptions(), installation.clock.now_ns())


def ask(installation: Installation, **parameters: Any) -> ProfileAnswer:
    request = ProfileRequest(**parameters)
    return installation.query.chosen_profile(SCOPE, "ESU4", request, installation.clock.now_ns()).answer


def test_brackets_of_15_minutes(installation: Installation, tmp_path: Path) -> None:
    trades = recorded("AB")
    put(installation, tmp_path / "es.csv", trades)
    found = ask(
        installation, first="2024-07-01", last="2024-07-02", hours="full", bracket_minutes=15, row_ticks=3
    )
    ranges = []
    for key, some in trades.items():
        segments = session_of(*key).segments
        for at_ns, price, size, _ in some:
            opened = max(start for start, _ in segments if start <= at_ns)
            bracket = at_ns - (at_ns - opened) % (15 * 60 * SECOND)
            ranges.append((bracket, price, price, {price: size}))
    counted = oracle.of_ranges(ranges, 3)
    want = oracle.levels(counted, DALTON, 3)
    levels = found.profile
    assert (levels.poc, levels.val, levels.vah) == (want["poc"] / 4, want["val"] / 4, want["vah"] / 4)
    assert {line.price: line.tpos for line in found.rows} == {
        row * 3 / 4: len(brackets) for row, brackets in counted.letters.items()
    }
    assert (found.method.bracket_minutes, levels.delta, found.rows[0].delta) == (15, None, None)


def test_delta_at_price_of_two_days(installation: Installation, tmp_path: Path) -> None:
    trades = recorded("ABN")
    put(installation, tmp_path / "es.csv", trades)
    found = ask(installation, first="2024-07-01", last="2024-07-02", delta=True, row_ticks=2)
    deltas: dict[int, int] = defaultdict(int)
    unknown = 0
    for (_, kind), some in trades.items():
        for _, price, size, side in some:
            if kind is SessionKind.RTH:
                deltas[price // 2] += {"B": size, "A": -size, "N": 0}[side]
                unknown += size if side == "N" else 0
    assert {line.price: line.delta for line in found.rows if line.volume} == {
        row * 2 / 4: delta for row, delta in deltas.items()
    }
    assert found.profile.delta is not None
    assert (found.profile.delta.total, found.profile.delta.unknown_volume) == (sum(deltas.values()), unknown)
    plain = ask(installation, first="2024-07-01", last="2024-07-02", row_ticks=2)
    assert [line.volume for line in plain.rows] == [line.volume for line in found.rows]
    assert {line.delta for line in plain.rows} == {None}


def test_delta_of_a_recording_without_sides_is_null(installation: Installation, tmp_path: Path) -> None:
    put(installation, tmp_path / "es.csv", recorded("N"))
    found = ask(installation, date="2024-07-02", delta=True)
    assert found.profile.delta is None
    assert {line.delta for line in found.rows} == {None}


@pytest.mark.parametrize("after_s", [0, 3600 + 20, 40 * 3600])
def test_a_vwap_anchored_in_the_first_day(installation: Installation, tmp_path: Path, after_s: int) -> None:
    """Anchored at the open, 61 minutes into it, and after the close of the last session of the window."""
    trades = recorded("AB")
    put(installation, tmp_path / "es.csv", trades)
    anchor_ns = session_of(DAYS[0], SessionKind.RTH).open_ns + after_s * SECOND
    found = ask(
        installation, first="2024-07-01", last="2024-07-02", anchor_ns=anchor_ns
    ).profile.anchored_vwap
    counted = [
        (price, size)
        for (_, kind), some in trades.items()
        for at_ns, price, size, _ in some
        if kind is SessionKind.RTH and at_ns >= anchor_ns
    ]
    if not counted:
        assert found is None
        return
    mean = Fraction(sum(price * size for price, size in counted), sum(size for _, size in counted))
    assert found is not None
    assert found.price == pytest.approx(float(mean / 4), abs=1e-9)


def test_bars_have_short_brackets_and_no_delta(installation: Installation, tmp_path: Path) -> None:
    """One-minute bars from 5500 to 5500.50, alternately a tick higher: each of the 27 brackets prints four ticks."""
    lines = ["ts_utc,symbol,open,high,low,close,volume"]
    session = session_of(DAYS[0], SessionKind.RTH)
    for n, at_ns in enumerate(range(session.open_ns, session.close_ns + 60 * SECOND, 60 * SECOND)):
        low = 5500 + 0.25 * (n % 2)
        at = datetime.fromtimestamp(at_ns // SECOND, UTC)
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S}Z,ESU4,{low},{low + 0.5},{low},{low},30")
    path = tmp_path / "bars.csv"
    path.write_text("\n".join(lines) + "\n")
    installation.importer.run(path, 0, ReadOptions(stamp="open"), installation.clock.now_ns())
    found = ask(installation, date="2024-07-01", bracket_minutes=15, delta=True)
    assert [(line.price, line.tpos) for line in found.rows] == [(5500.75 - 0.25 * n, 27) for n in range(4)]
    assert (found.profile.delta, found.method.vpoc_source) == (None, "bars")
    # ten lots at each tick of a bar: 203 even bars (5500 to 5500.50), 202 odd ones (5500.25 to 5500.75)
    assert [line.volume for line in found.rows] == [2020, 4050, 4050, 2030]


def test_a_missing_tape_file_is_not_found(installation: Installation, tmp_path: Path) -> None:
    put(installation, tmp_path / "es.csv", recorded("AB"))
    for file in (Path(installation.settings.folder) / "tape").rglob("*.zst"):
        file.unlink()
    assert ask(installation, date="2024-07-02", bracket_minutes=60, delta=True).profile.delta is None
    with pytest.raises(NotFound) as caught:
        ask(installation, date="2024-07-02", bracket_minutes=15)
    assert (caught.value.message_id, caught.value.details) == ("not_found.trades", {"date": "2024-07-02"})


def test_long_ranges_of_trades_are_refused(installation: Installation, tmp_path: Path) -> None:
    put(installation, tmp_path / "es.csv", recorded("AB"))
    assert ask(installation, date="2024-07-02", period="quarter").rows
    with pytest.raises(InvalidParameter) as caught:
        ask(installation, date="2024-07-02", period="quarter", bracket_minutes=15)
    assert caught.value.details == {"parameter": "period", "most": 23}


def test_a_third_reader_of_the_tape_is_told_to_retry(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ask for another session while the tape is being read for two others."""
    put(installation, tmp_path / "es.csv", recorded("AB"))
    read_all, depth = TapeFolder.read_all, 0

    def reading(self: TapeFolder, *arguments: Any) -> Any:
        nonlocal depth
        depth += 1
        if depth < 3:
            minutes = 20 if depth == 1 else 12
            with pytest.raises(Occupied) if depth == 2 else nullcontext():
                ask(installation, date="2024-07-01", bracket_minutes=minutes)
        return read_all(self, *arguments)

    monkeypatch.setattr(TapeFolder, "read_all", reading)
    assert ask(installation, date="2024-07-02", bracket_minutes=15).rows
    assert depth == 2
