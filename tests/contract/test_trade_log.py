"""Contract of trade logs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.trade_logs import KEY, OTHER, background, files, frames, jetstream_log

from outcry.live.entries import Day, TradeRows, entries_between
from outcry.live.model import Frame, StreamKey
from outcry.live.partitions import partition_of_stream
from outcry.live.trade_log import TradeLog
from outcry.market.instruments import Contract
from outcry.trades.feed import LIVE_TRADE

Opened = Callable[[Path], AbstractContextManager[TradeLog]]
DAY = Day("2026-01-05", 1)


@pytest.fixture(params=["files", "background", "jetstream"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Opens a log, and reopens its data."""
    if request.param == "files":
        return files
    if request.param == "background":
        return background
    server = request.getfixturevalue("jetstream")
    return lambda _folder: jetstream_log(server)


def test_what_was_appended_is_read_back_and_survives_the_log(opened: Opened, tmp_path: Path) -> None:
    wanted = [
        (0, 1, b"a" * 150),
        (1, 2**32 - 1, b""),
        (2**32, 3, bytes(range(256))),
        (2**32 + 3, 1, b"\0" * 40),
    ]
    with opened(tmp_path) as log:
        assert (list(log.keys()), log.last(KEY), frames(log)) == ([], 0, [])
        for first, count, blob in wanted:
            log.append(KEY, first, count, blob)
            log.check_ownership(KEY)  # persisted by then, or in transit
        assert (log.last(KEY), frames(log)) == (2**32 + 4, wanted)
        log.check_ownership(KEY)
    with opened(tmp_path) as log:
        assert (list(log.keys()), log.last(KEY), frames(log)) == ([KEY], 2**32 + 4, wanted)
        assert next(log.read(KEY, 0)) == Frame(0, 1, b"a" * 150)


def test_reading_begins_with_the_frame_that_holds_the_entry(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        for first in range(0, 100, 10):
            log.append(KEY, first, 10, b"x" * 60)
        firsts = {start: [frame[0] for frame in frames(log, start)] for start in (29, 30, 99, 100, 500)}
    assert firsts == {29: [20, *range(30, 100, 10)], 30: [*range(30, 100, 10)], 99: [90], 100: [], 500: []}


def trades(first: int, count: int) -> bytes:
    """Create trades whose price is their position."""
    rows = np.zeros(count, LIVE_TRADE)
    rows["price"] = range(first, first + count)
    return rows.tobytes()


def prices(log: TradeLog, first: int, until: int) -> list[tuple[int, list[int]]]:
    found: list[tuple[int, list[int]]] = []
    for at, entry in entries_between(log.read(KEY, first), first, until):
        assert isinstance(entry, TradeRows)
        found.append((at, entry.rows["price"].tolist()))
    return found


def test_trades_are_read_from_any_position_to_any_other_however_they_were_combined(
    opened: Opened, tmp_path: Path
) -> None:
    with opened(tmp_path) as log:
        at = 0
        for count in (1, 1, 4, 2, 1):
            log.append_trades(KEY, at, DAY, count, trades(at, count), continues=at > 0)
            log.append_trades(KEY, at, DAY, count, trades(7, count), continues=True)  # a repeat
            at += count
        for first, until in combinations(range(10), 2):
            found = prices(log, first, until)
            assert found[0][0] == first
            assert [price for _, each in found for price in each] == [*range(first, until)]
    with opened(tmp_path) as log:
        assert log.last(KEY) == 9
        assert [price for _, each in prices(log, 3, 9) for price in each] == [*range(3, 9)]


def test_a_frame_has_trades_of_one_session_one_date_and_one_file(opened: Opened, tmp_path: Path) -> None:
    """A frame may start anywhere, but a new one starts after another entry, a new session or date, and a cut."""
    with opened(tmp_path) as log:
        log.append_trades(KEY, 0, DAY, 1, trades(0, 1), continues=True)
        log.append_trades(KEY, 1, DAY, 1, trades(1, 1), continues=False)
        log.append_trades(KEY, 2, Day("2026-01-06", 2), 1, trades(2, 1), continues=True)
        log.cut(KEY)
        log.append_trades(KEY, 3, Day("2026-01-06", 2), 1, trades(3, 1), continues=True)
        log.append(KEY, 4, 1, b"another entry")
        log.append_trades(KEY, 5, Day("2026-01-06", 2), 1, trades(5, 1), continues=True)
        assert [frame[0] for frame in frames(log)] == [0, 1, 2, 3, 4, 5]


def test_a_repeat_does_nothing_and_a_hole_or_an_overlap_is_refused(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        with pytest.raises(ValueError, match="hole"):
            log.append(KEY, 1, 1, b"")
        log.append(KEY, 0, 5, b"a")
        log.append(KEY, 5, 5, b"b")
        log.append(KEY, 5, 5, b"again, and other bytes: the first ones stay")
        log.append(KEY, 0, 5, b"a")
        log.append(KEY, 2, 6, b"across two")
        for first, count in ((11, 1), (8, 3), (0, 11)):
            with pytest.raises(ValueError, match=r"hole|split"):
                log.append(KEY, first, count, b"")
        for count in (0, -1, 2**32):
            with pytest.raises(ValueError, match="entries"):
                log.append(KEY, 10, count, b"")
        assert frames(log) == [(0, 5, b"a"), (5, 5, b"b")]
        assert log.last(KEY) == 10


def test_the_streams_of_some_partitions_are_told(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.append(KEY, 0, 1, b"x")
        log.append(OTHER, 0, 1, b"y")
        mine, others = partition_of_stream(KEY), partition_of_stream(OTHER)
        assert mine != others
        assert list(log.keys({mine})) == [KEY]
        assert list(log.keys({others, mine})) == [KEY, OTHER]
        assert list(log.keys(set())) == []


def test_streams_are_kept_apart(opened: Opened, tmp_path: Path) -> None:
    keys = [
        f"{owner}/{feed}/{name}"
        for owner in (0, 3)
        for feed in ("demo", "de_mo", "de.mo")
        for name in ("6EZ2026", "ESZ2026")
    ]
    with opened(tmp_path) as log:
        for place, key in enumerate(keys):
            log.append(key, 0, place + 1, key.encode())
        log.append(keys[0], 1, 1, b"more")
        log.sync()
        assert list(log.keys()) == sorted(keys)
        assert [log.last(key) for key in keys] == [2, *range(2, 13)]
        assert frames(log, key=keys[0]) == [(0, 1, keys[0].encode()), (1, 1, b"more")]
        assert frames(log, key=keys[11]) == [(0, 12, keys[11].encode())]


@pytest.mark.parametrize(
    "key", ["", "0", "0/demo", "0/../etc", "0/demo/..", "/0/demo/ES", "0/demo/ES/x", "0/d mo/ES", "a/demo/ES"]
)
def test_what_names_no_stream_is_refused(opened: Opened, tmp_path: Path, key: str) -> None:
    with opened(tmp_path) as log:
        for use in (lambda: log.last(key), lambda: log.append(key, 0, 1, b""), lambda: log.forget(key)):
            with pytest.raises(ValueError, match="names no stream"):
                use()
        assert StreamKey(0, "demo", Contract("ES", 2026, 12)).text == KEY
        log.last(KEY)


def test_what_was_cut_off_can_be_dropped_and_the_position_stays(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.cut(KEY)
        for first in range(3):
            log.append(KEY, first, 1, b"%d" % first)
        log.cut(KEY)
        log.cut(KEY)
        log.append(KEY, 3, 1, b"3")
        log.drop(KEY, 2)
        assert frames(log)[-2:] == [(2, 1, b"2"), (3, 1, b"3")]
        log.drop(KEY, 3)
        assert frames(log) == frames(log, 3) == [(3, 1, b"3")]
        log.cut(KEY)
        log.drop(KEY, 4)
        newest = frames(log)
        assert newest in ([], [(3, 1, b"3")])  # logs drop whole files, so a log may retain the newest entry
        assert log.last(KEY) == 4
    with opened(tmp_path) as log:
        assert list(log.keys()) == [KEY]
        assert (log.last(KEY), frames(log)) == (4, newest)
        log.append(KEY, 0, 4, b"known, though dropped")
        log.append(KEY, 4, 1, b"4")
        assert frames(log) == [*newest, (4, 1, b"4")]


def test_a_forgotten_stream_begins_anew(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.forget(KEY)
        for first in range(8):
            log.append(KEY, first, 1, b"x" * 70)
        log.append(OTHER, 0, 1, b"other")
        reader = log.read(KEY, 0)
        next(reader)
        log.forget(KEY)
        list(reader)  # ends eventually
        assert (log.last(KEY), frames(log), list(log.keys())) == (0, [], [OTHER])
        log.sync()
        log.append(KEY, 0, 2, b"anew")
        assert frames(log) == [(0, 2, b"anew")]


def test_a_reader_sees_what_was_there_when_it_asked(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        for first in range(5):
            log.append(KEY, first, 1, b"x" * 60)
        reader = log.read(KEY, 1)
        seen = []
        for frame in reader:
            seen.append(frame.first)
            log.append(KEY, log.last(KEY), 1, b"y" * 60)
        assert seen == [1, 2, 3, 4]


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_any_use_leaves_what_a_list_would_hold(
    opened: Opened, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Compare with a list of frames. Only whole files are dropped, so the model bounds the dropped frames."""
    written: list[tuple[int, int, bytes]] = []
    last = dropped = 0
    folder = tmp_path_factory.mktemp("log")
    with opened(folder) as log:
        log.forget(KEY)
    for _ in range(data.draw(st.integers(1, 3))):
        with opened(folder) as log:
            assert log.last(KEY) == last
            for _ in range(data.draw(st.integers(0, 12))):
                match data.draw(
                    st.sampled_from(["append", "append", "append", "repeat", "cut", "drop", "sync"])
                ):
                    case "append":
                        frame = (last, data.draw(st.integers(1, 9)), data.draw(st.binary(max_size=150)))
                        log.append(KEY, *frame)
                        written.append(frame)
                        last += frame[1]
                    case "repeat" if written:
                        log.append(KEY, *data.draw(st.sampled_from(written)))
                    case "cut":
                        log.cut(KEY)
                    case "drop":
                        dropped = max(dropped, data.draw(st.integers(0, last)))
                        log.drop(KEY, dropped)
                    case _:
                        log.sync()
            found = frames(log)
            assert found == written[len(written) - len(found) :]
            assert [frame for frame in written if frame[0] + frame[1] > dropped] == [
                frame for frame in found if frame[0] + frame[1] > dropped
            ]
            start = data.draw(st.integers(0, last))
            assert frames(log, start) == [frame for frame in found if frame[0] + frame[1] > start]
