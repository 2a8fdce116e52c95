"""TailReader a Sierra Chart file while it grows; its records are hand-made and cut anywhere.

The clock is set by the tests, and the file is polled as often as the event loop allows.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from tests.recordings.sample_files import OPENING, scid, scid_record, scid_ticks
from tests.recordings.sample_rows import ES, MINUTE, SECOND, flat, rows_of
from tests.recordings.test_files_lean import between
from tests.timeouts import within

from outcry.feeds.scid_tail import ScidTail, tail_of
from outcry.market.instruments import Contract
from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.scid import EPOCH_US, HEADER, RECORD
from outcry.trades.feed import (
    Bars,
    CaughtUp,
    Cursor,
    Event,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    RowFlag,
    Trades,
)
from outcry.trades.records import Quality

US = OPENING * 1_000_000
START = OPENING * SECOND
HEAD = scid()
BACKFILL = int(RowFlag.BACKFILL)


class SettableClock:
    """Manually set clock."""

    def __init__(self, now_ns: int = START + 60 * MINUTE) -> None:
        self.now = now_ns

    def now_ns(self) -> int:
        return self.now


def ticks(*prices: float, at_us: int = US) -> bytes:
    """Return records of one tick a second, without a header."""
    return scid_ticks(list(prices), at_us)[len(HEAD) :]


def bar(at_us: int, close: float, volume: int) -> bytes:
    return scid_record(at_us, (close - 0.25, close, close - 0.5, close), (7, volume, 0, volume))


class TailReader:
    """Reader of a followed file, and the events received."""

    def __init__(self, tail: ScidTail, since: int = 0) -> None:
        self.tail = tail
        self.stream: AsyncIterator[Event] = tail.open(ES, Cursor(since))
        self.seen: list[Event] = []

    async def until_beat(self) -> list[Event]:
        """Return the rows up to the next heartbeat, and the heartbeat."""
        events: list[Event] = []
        while not (events and isinstance(events[-1], Heartbeat)):
            events.append(await within(anext(self.stream), 60))
        self.seen += events
        return events

    async def after(self, more: int = 2) -> list[object]:
        """Rows of the next looks: the first may have been under way when the file was changed."""
        events: list[Event] = []
        for _ in range(more):
            events += await self.until_beat()
        return [said for said in flat(events) if isinstance(said, tuple)]


def follow(path: Path, universe, since: int = 0, clock: SettableClock | None = None, **options) -> TailReader:
    options = {"poll_s": 0.001, "flush_s": 0.0} | options
    return TailReader(ScidTail(path, ES, universe, clock or SettableClock(), **options), since)


def prices(rows: list) -> list[float]:
    return [row[3] / 1e9 if row[0] == "Trades" else row[5] / 1e9 for row in rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ESH24_FUT_CME.scid"


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


# -- history, then what is added


def test_history_then_what_is_added(path, universe) -> None:
    """Two ticks that are there, then one that comes; each row as it is sent, and the clock's time in the beat."""
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))

    async def work() -> None:
        clock = SettableClock(START + 7 * SECOND)
        tail = follow(path, universe, clock=clock)
        first = await tail.until_beat()
        assert [row.tolist() for row in rows_of(first)] == [
            (START, clock.now, 4755_250000000, 1, b"B", BACKFILL, 0, 0),
            (START + SECOND, clock.now, 4755_500000000, 1, b"B", BACKFILL, 0, 0),
        ]
        assert first[1:] == [CaughtUp(clock.now, Quality.TICKS), Heartbeat(clock.now)]
        clock.now += SECOND
        add(path, ticks(4755.75, at_us=US + 8_000_000))
        assert await tail.after() == [
            ("Trades", START + 8 * SECOND, clock.now, 4755_750000000, 1, b"B", 0, 0, 0)
        ]
        assert tail.seen[-1] == Heartbeat(clock.now)

    asyncio.run(work())


@pytest.mark.parametrize("step", [1, 7, 39, 40, 41, 97])
def test_records_written_in_parts(path, universe, step) -> None:
    """Twelve ticks, written a few bytes at a time: none is sent in part, twice or not at all, in order."""
    stored = [4755.0 + 0.25 * (n % 5) for n in range(12)]
    path.write_bytes(HEAD + ticks(4755.0, 4755.25))
    data = ticks(*stored, at_us=US + 10_000_000)

    async def work() -> None:
        tail = follow(path, universe)
        await tail.until_beat()
        found: list = []
        for at in range(0, len(data), step):
            add(path, data[at : at + step])
            found += await tail.after(1 if step < 40 else 2)
            assert len(found) <= (at + step) // RECORD.itemsize
        found += await tail.after()
        assert prices(found) == stored

    asyncio.run(work())


def test_quotes_and_parts_of_trades(path, universe) -> None:
    """As an import reads them: a quote is no trade."""
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))

    async def work() -> None:
        tail = follow(path, universe)
        await tail.until_beat()
        add(path, scid_record(US + 5_000_000, (0.0, 4755.5, 4755.25, 4755.25), (1, 0, 0, 0)))
        add(path, scid_record(US + 5_000_001, (-1.99900095e37, 4755.5, 4755.25, 4755.5), (1, 3, 3, 0)))
        (row,) = await tail.after()
        assert row[1:2] + row[3:6] == (START + 5 * SECOND, 4755_500000000, 3, b"A")

    asyncio.run(work())


# -- where to begin


def test_it_begins_at_the_cursor(path, universe) -> None:
    """A thousand ticks, one a second, asked for from the 900th second: a hundred come, the 900th first."""
    path.write_bytes(HEAD + ticks(*(4755.0 + 0.25 * (n % 8) for n in range(1000))))

    async def work() -> None:
        rows = rows_of(await follow(path, universe, since=START + 900 * SECOND).until_beat())
        assert rows["ts_event"].tolist() == [START + n * SECOND for n in range(900, 1000)]

    asyncio.run(work())


def test_what_is_added_before_the_cursor_is_not_sent(path, universe) -> None:
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))

    async def work() -> None:
        tail = follow(path, universe, since=START + 5 * SECOND)
        await tail.until_beat()
        add(path, ticks(1.0, 4756.0, 4757.0, at_us=US + 4_000_000))
        assert prices(await tail.after()) == [4756.0, 4757.0]

    asyncio.run(work())


@pytest.mark.parametrize(("since", "gap_end_ns"), [
    (0, None), (START - 5 * MINUTE, None), (START - 5 * MINUTE - 1, START), (START + 5, None)
])  # fmt: skip
def test_time_before_the_first_record_is_a_gap(path, universe, since, gap_end_ns) -> None:
    """Asked from more than five minutes before its first record."""
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))

    async def work() -> None:
        gaps = [event for event in await follow(path, universe, since).until_beat() if isinstance(event, Gap)]
        assert gaps == ([Gap(since, gap_end_ns, "not_recorded")] if gap_end_ns else [])
        path.write_bytes(HEAD)  # nothing at all, up to the clock's time
        clock = SettableClock(START + 6 * MINUTE)
        first = (await follow(path, universe, START, clock).until_beat())[0]
        assert first == Gap(START, clock.now, "not_recorded")

    asyncio.run(work())


def test_a_file_that_is_new(path, universe) -> None:
    """A header alone is a whole history of nothing. A first tick does not tell the scale of its price (475,525 might
    be a price of ES, or 4,755.25 times 100), and waits; heartbeats wait with it. Two a tick apart tell."""
    path.write_bytes(HEAD)

    async def work() -> None:
        clock = SettableClock(START)
        tail = follow(path, universe, clock=clock)
        assert await tail.until_beat() == [CaughtUp(START, Quality.TICKS), Heartbeat(START)]
        clock.now += MINUTE
        add(path, ticks(4755.25, at_us=US + 10_000_000))
        assert await tail.after() == []
        assert tail.seen[-1] == Heartbeat(START + 10 * SECOND)
        add(path, ticks(4755.5, at_us=US + 20_000_000))
        assert prices(await tail.after()) == [4755.25, 4755.5]
        assert tail.seen[-1] == Heartbeat(START + MINUTE)

    asyncio.run(work())


def test_a_new_file_of_prices_times_a_hundred(path, universe) -> None:
    """Nothing proves the hundred from a few trades, so 200 are waited for; then all come, divided."""
    path.write_bytes(HEAD)

    async def work() -> None:
        tail = follow(path, universe)
        await tail.until_beat()
        add(path, ticks(*([475525.0, 475550.0] * 99)))
        assert await tail.after() == []
        add(path, ticks(475525.0, 475550.0, at_us=US + 300_000_000))
        assert prices(await tail.after()) == [4755.25, 4755.5] * 100

    asyncio.run(work())


# -- bars


def test_bars_are_sent_when_they_are_over(path, universe) -> None:
    """The last bar grows in place. It waits for the next one, or for the clock to reach its end; heartbeats do not
    pass the end of a bar that is still to come."""
    minute = 60_000_000
    path.write_bytes(
        HEAD + bar(US, 4755.25, 10) + bar(US + minute, 4755.5, 20) + bar(US + 2 * minute, 4756.0, 1)
    )

    async def work() -> None:
        clock = SettableClock(START + 2 * MINUTE + 30 * SECOND)
        tail = follow(path, universe, clock=clock)
        first = await tail.until_beat()
        assert isinstance(first[0], Bars)
        assert (first[0].quality, first[0].backfill) == (Quality.BARS_1M, True)
        assert first[0].rows["volume"].tolist() == [10, 20]
        assert first[1:] == [CaughtUp(clock.now, Quality.BARS_1M), Heartbeat(clock.now)]
        with path.open("r+b") as file:  # the third bar, as it is at its end
            file.seek(len(HEAD) + 2 * RECORD.itemsize)
            file.write(bar(US + 2 * minute, 4756.25, 30) + bar(US + 3 * minute, 4756.25, 2))
        (row,) = await tail.after()
        assert (row[1], row[6]) == (START + 2 * MINUTE, 30)
        clock.now = START + 4 * MINUTE - 1
        assert await tail.after() == []
        assert tail.seen[-1] == Heartbeat(clock.now)
        clock.now += 1  # the fourth is over, and no fifth has begun
        (row,) = await tail.after()
        assert (row[1], row[6]) == (START + 3 * MINUTE, 2)

    asyncio.run(work())


def test_bars_then_ticks(path, universe) -> None:
    """Sierra fills in the past with bars: they go before the ticks, and what is caught up is no better than they."""
    bars = b"".join(bar(US + n * 60_000_000, 4755.25, 10 + n) for n in range(3))
    path.write_bytes(HEAD + bars + ticks(4755.25, 4755.5, at_us=US + 180_000_000))

    async def work() -> None:
        events = await follow(path, universe).until_beat()
        assert [type(event) for event in events] == [Bars, Trades, CaughtUp, Heartbeat]
        assert events[2] == CaughtUp(START + 60 * MINUTE, Quality.BARS_1M)

    asyncio.run(work())


# -- the clock


def test_heartbeats_are_as_late_as_sierra_writes(path, universe) -> None:
    """Every five seconds, unless told otherwise: until then an earlier trade may still be written."""
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))

    async def work() -> None:
        clock = SettableClock()
        tail = TailReader(ScidTail(path, ES, universe, clock, poll_s=0.001))
        assert (await tail.until_beat())[-1] == Heartbeat(clock.now - 5 * SECOND)
        clock.now -= 3600 * SECOND  # a clock set back takes nothing back
        assert await tail.after() == []
        assert tail.seen[-1] == Heartbeat(clock.now + 3595 * SECOND)

    asyncio.run(work())


# -- another file


def lost(path: Path, universe, change) -> FeedLost:
    """Follow, change the file, and follow on until it breaks."""

    async def work() -> FeedLost:
        tail = follow(path, universe)
        await tail.until_beat()
        change()
        with pytest.raises(FeedLost) as caught:
            await tail.after(5)
        return caught.value

    return asyncio.run(work())


def test_a_file_that_is_no_longer_the_same(path, universe) -> None:
    data = HEAD + ticks(4755.25, 4755.5, 4755.75)

    def another() -> None:
        fresh = path.with_name("fresh.scid")
        fresh.write_bytes(data + ticks(4756.0, at_us=US + 9_000_000))
        fresh.replace(path)

    def rewritten() -> None:
        with path.open("r+b") as file:
            file.write(HEAD + ticks(4755.25, 4755.25, 4755.5, 4755.75))

    changes = {"another": another, "gone": path.unlink, "rewritten": rewritten,
               "shorter": lambda: os.truncate(path, len(data) - 1)}  # fmt: skip
    for name, change in changes.items():
        path.write_bytes(data)
        assert lost(path, universe, change).code == "file_replaced", name


def test_an_impossible_record_is_neither_sent_nor_skipped(path, universe) -> None:
    """Zeros, as a file shows that was made longer before it was written: lost, and read again on the next opening."""
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))
    problem = lost(path, universe, lambda: add(path, bytes(40)))
    assert (problem.code, problem.retry) == ("file_damaged", True)
    with path.open("r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(ticks(4755.75, at_us=US + 5_000_000))

    async def again() -> None:
        assert len(rows_of(await follow(path, universe).until_beat())) == 3

    asyncio.run(again())


def test_a_disk_that_fails(path, universe, monkeypatch) -> None:
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))

    def fail(*_args: object) -> bytes:
        raise OSError(5, "Input/output error")

    assert (
        lost(path, universe, lambda: monkeypatch.setattr("outcry.feeds.scid_growing.read_at", fail)).code
        == "disk_error"
    )


@pytest.mark.parametrize(("data", "code", "retry"), [
    (None, "file_unreadable", True),
    (b"", "file_unreadable", True),
    (HEAD[:30], "file_unreadable", True),
    (b"TEXT" + HEAD[4:], "file_refused", False),
    (scid(record_size=44), "file_refused", False),
    (HEAD + ticks(*[1.09535, 1.0954, 1.09545] * 100), "file_refused", False),  # no prices of ES, in any power of ten
])  # fmt: skip
def test_files_that_cannot_be_opened(path, universe, data, code, retry) -> None:
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(FeedLost) as caught:
        asyncio.run(follow(path, universe).until_beat())
    assert (caught.value.code, caught.value.retry) == (code, retry)


def test_contract_of_a_file(path, universe, tmp_path) -> None:
    """By its name, or by who says so where the name says nothing."""
    clock = SettableClock()
    assert asyncio.run(tail_of(path, universe, clock, date(2024, 1, 2)).contracts()) == [ES]
    with pytest.raises(FileRefused, match="contract"):
        tail_of(tmp_path / "continuous.scid", universe, clock, date(2024, 1, 2))
    path.write_bytes(HEAD)
    for contract, asked, code in (
        (Contract("ES", 2024, 6), Contract("ES", 2024, 6), "wrong_contract"),
        (ES, Contract("NQ", 2024, 3), "unknown_contract"),
    ):
        with pytest.raises(FeedRefused) as caught:
            asyncio.run(anext(ScidTail(path, contract, universe, clock).open(asked, Cursor(0))))
        assert caught.value.code == code


def test_closing_ends_the_stream(path, universe) -> None:
    path.write_bytes(HEAD + ticks(4755.25, 4755.5))

    async def work() -> None:
        tail = follow(path, universe)
        await tail.until_beat()
        await tail.tail.close()
        assert len([event async for event in tail.stream]) <= 1

    asyncio.run(work())


# -- a real day


def test_a_real_day_written_as_sierra_would(shared, read, universe, tmp_path) -> None:
    """Gold's 7 October 2013 from LEAN's ticks, written as `.scid`: half of it is there, the rest comes in slices that
    cut records. The counts of the pit session are those worked out elsewhere."""
    worked = json.loads((shared / "vectors/worked_sessions.json").read_text())
    session = worked["GC_PIT_trades_0820_1330_ET"]["sessions"]["2013-10-07"]
    gold = Contract("GC", 2013, 12)
    rows = read(shared / "data/lean/comex/tick/gc/20131007_trade.zip").rows(gold.key)
    rows = rows[rows["size"] > 0]  # Sierra has no prints of no size
    records = np.zeros(len(rows), RECORD)
    records["at"] = rows["ts_event"] // 1000 + EPOCH_US
    records["close"] = records["high"] = records["low"] = (rows["price"] / 1e9).astype(np.float32)
    records["trades"], records["volume"], records["ask_volume"] = 1, rows["size"], rows["size"]
    data = HEAD + records.tobytes()
    path = tmp_path / "GCZ13_FUT_COMEX.scid"
    half = HEADER.itemsize + len(rows) // 2 * RECORD.itemsize + 13
    path.write_bytes(data[:half])

    async def work() -> list[Event]:
        tail = ScidTail(path, gold, universe, SettableClock(), poll_s=0.001)
        events: list[Event] = []
        rest = data[half:]
        slices = [rest[at : at + 99_991] for at in range(0, len(rest), 99_991)]
        idle = 0
        async for event in tail.open(gold, Cursor(0)):
            events.append(event)
            if isinstance(event, Heartbeat):
                if slices:
                    add(path, slices.pop(0))
                elif (idle := idle + 1) > 2:
                    await tail.close()
        return events

    events = asyncio.run(work())
    found = rows_of(events)
    assert found["ts_event"].tolist() == rows["ts_event"].tolist()
    assert found["price"].tolist() == rows["price"].tolist()
    at = next(n for n, event in enumerate(events) if isinstance(event, CaughtUp))
    assert len(rows_of(events[:at])) == len(rows) // 2
    pit = between(found, "2013-10-07T08:20", "2013-10-07T13:30")
    assert int(pit["size"].sum()) == 32_389
    assert pit["price"].max() == round(session["high"] * 10) * 10**8
    assert pit["price"].min() == round(session["low"] * 10) * 10**8
