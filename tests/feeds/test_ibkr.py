"""Interactive Brokers: history and live trades, through the real library and a fake TWS on loopback."""

from tests.feeds.ibkr_harness import ES, MINUTE, NOW, SECOND, IbkrHarness, Reader, at, run, tape_of, walk

from outcry.feeds.ibkr.adapter import ADAPTER
from outcry.feeds.ibkr.history import plan_history
from outcry.trades.feed import Bars, FeedLost, Gap, Heartbeat, Replaced, RowFlag, Trades
from outcry.trades.records import Quality


def test_bars_come_first_and_trades_replace_them() -> None:
    """Opened at 15:00 from 13:00 on: bars to the last minute, trades from there, live ones, and at last all of it as
    trades; of the first minute too, which might be known."""

    async def work(harness: IbkrHarness) -> None:
        trades = walk(at("2026-11-18 12:30:00"), NOW + 10 * MINUTE, 2)
        harness.peer.tape(ES, tape_of(*trades))
        since = at("2026-11-18 13:00:00")
        reader = harness.open(harness.feed(), ES, since)
        await harness.until(lambda: reader.caught, "caught up")
        assert reader.caught is not None
        assert reader.caught.quality is Quality.BARS_1M
        kinds = [type(event) for event in reader.events if not isinstance(event, Heartbeat)]
        assert kinds[:2] == [Trades, Bars]
        (bars,) = reader.of(Bars)
        assert isinstance(bars, Bars)
        first = since + MINUTE
        assert bars.rows["ts_event"][0] == first
        volume = sum(row[2] for row in trades if first <= row[0] < first + MINUTE)
        assert bars.rows["volume"][0] == volume
        last = int(bars.rows["ts_event"][-1]) + MINUTE
        assert last <= reader.caught.at_ns < last + 2 * MINUTE
        await harness.until(lambda: reader.of(Replaced) and reader.of(Replaced)[-1].to_ns == last, "trades")
        assert next(piece.from_ns for piece in reader.of(Replaced)) == first
        await harness.until(lambda: harness.peer.now_ns > NOW + 2 * MINUTE, "two minutes")
        end = reader.rows()[-1][0]
        assert end > reader.caught.at_ns
        assert reader.rows() == [row for row in trades if since <= row[0] <= end]

    run(work)


def test_trades_replace_bars_across_quiet_and_busy_times() -> None:
    """Half an hour without a trade, which ends a page, and a minute with more trades than a page holds."""

    async def work(harness: IbkrHarness) -> None:
        since, pause, on = (at(f"2026-11-18 {time}:00") for time in ("13:00", "13:30", "14:00"))
        busy = at("2026-11-18 14:10:00")
        speedup = [
            (busy + at_row // 60 * SECOND, (26_900 + at_row % 7) * 250_000_000, 1) for at_row in range(2_600)
        ]
        calm = walk(since, pause, 3) + walk(on, busy, 3) + walk(busy + MINUTE, NOW + 10 * MINUTE, 3)
        trades = sorted(calm + speedup)
        harness.peer.tape(ES, tape_of(*trades))
        reader = harness.open(harness.feed(), ES, since)
        await harness.until(lambda: reader.caught, "caught up")
        (bars,) = reader.of(Bars)
        await harness.until(
            lambda: reader.of(Replaced) and _end(reader) == _end_of(bars), "trades for all bars"
        )
        assert all(piece.from_ns % MINUTE == piece.to_ns % MINUTE == 0 for piece in reader.of(Replaced))
        end = reader.rows()[-1][0]
        assert sorted(reader.rows()) == [row for row in trades if row[0] <= end]

    run(work)


def _end(reader: Reader) -> int:
    return int(reader.of(Replaced)[-1].to_ns)


def _end_of(bars: Bars) -> int:
    return int(bars.rows["ts_event"][-1]) + MINUTE


def test_flags_and_timestamps_of_rows() -> None:
    """Backfill before the cut and not after it; no side, for none is told; received by our clock."""

    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - 5 * MINUTE, NOW + 5 * MINUTE, 1)))
        reader = harness.open(harness.feed(), ES, NOW - 5 * MINUTE)
        await harness.until(lambda: harness.peer.now_ns > NOW + MINUTE, "a minute")
        assert reader.caught is not None
        assert reader.caught.quality is Quality.TICKS
        assert reader.caught.at_ns % SECOND == 0
        for event in reader.of(Trades):
            assert isinstance(event, Trades)
            before = event.rows["ts_event"] < reader.caught.at_ns
            assert ((event.rows["flags"] == int(RowFlag.BACKFILL)) == before).all()
            assert set(event.rows["side"].tolist()) == {b"N"}
            assert (event.rows["ts_recv"] >= event.rows["ts_event"]).all()
        beats = [event.at_ns for event in reader.of(Heartbeat)]
        assert beats == sorted(beats)
        assert beats[-1] <= harness.peer.now_ns - SECOND

    run(work)


def test_a_page_contains_its_last_second_completely() -> None:
    """2,600 trades in nine seconds, pages of a thousand and the rest of a second: none twice, none left out."""

    async def work(harness: IbkrHarness) -> None:
        busy = NOW - 2 * MINUTE
        trades = [
            (busy + at_row // 300 * SECOND, (26_800 + at_row % 7) * 250_000_000, 1) for at_row in range(2_600)
        ]
        harness.peer.tape(ES, tape_of(*trades))
        reader = harness.open(harness.feed(), ES, NOW - 3 * MINUTE)
        await harness.until(lambda: reader.caught, "caught up")
        assert reader.rows() == trades
        assert [len(event.rows) for event in reader.of(Trades)] == [1_200, 1_200, 200]

    run(work)


def test_after_a_short_loss_no_bars_are_asked_for() -> None:
    async def work(harness: IbkrHarness) -> None:
        trades = walk(NOW - 20 * MINUTE, NOW + 10 * MINUTE, 3)
        harness.peer.tape(ES, tape_of(*trades))
        feed = harness.feed()
        reader = harness.open(feed, ES, NOW - 2 * MINUTE)
        await harness.until(lambda: reader.caught, "caught up")
        await harness.peer.drop()
        await harness.until(lambda: reader.problem, "the loss")
        assert isinstance(reader.problem, FeedLost)
        assert reader.problem.code == "disconnected"
        known = reader.rows()
        since = known[-1][0] - 2 * SECOND
        again = harness.open(feed, ES, since)
        await harness.until(lambda: again.caught, "caught up again")
        assert again.caught is not None
        assert again.caught.quality is Quality.TICKS
        assert all(kind != 20 for kind, _ in harness.peer.asked)
        together = [row for row in known if row[0] < since] + again.rows()
        assert together == [row for row in trades if NOW - 2 * MINUTE <= row[0] <= together[-1][0]]

    run(work)


def test_time_before_the_requested_history_is_a_gap() -> None:
    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - 5 * MINUTE, NOW, 5)))
        since = NOW - 20 * 86_400 * SECOND
        reader = harness.open(harness.feed(), ES, since)
        await harness.until(lambda: reader.caught, "caught up")
        gap = reader.events[0]
        assert isinstance(gap, Gap)
        assert (gap.from_ns, gap.why) == (since, "not_kept")
        assert 0 <= gap.to_ns - (NOW - ADAPTER.caps.reach_ns) < 10 * SECOND

    run(work)


def test_a_requested_range_contains_each_minute_once() -> None:
    """Trades up to the first minute that cannot be known, bars, trades from the last minute on."""
    plan = plan_history(at("2026-11-18 14:00:59"), at("2026-11-18 15:00:42"))
    assert plan.bars_from_ns == at("2026-11-18 14:02:00")
    assert plan.bars_to_ns == at("2026-11-18 15:00:00")
    short = plan_history(at("2026-11-18 14:51:00"), at("2026-11-18 15:00:42"))
    assert (short.bars_from_ns, short.quality) == (short.bars_to_ns, Quality.TICKS)


def test_trades_that_arrive_slowly_are_requested_again() -> None:
    """History asked for too fast while trades take the place of bars: it rests, and goes on, after a lost link too; and
    another feed goes on from what it is told."""

    async def work(harness: IbkrHarness) -> None:
        since = at("2026-11-18 14:00:00")
        trades = walk(since, NOW + 10 * MINUTE, 2)
        harness.peer.tape(ES, tape_of(*trades))
        harness.peer.hurried = (since + MINUTE, NOW - 2 * MINUTE)
        feed = harness.feed()
        reader = harness.open(feed, ES, since)
        await harness.until(lambda: reader.caught, "caught up")
        await harness.peer.drop()
        await harness.until(lambda: reader.problem, "lost")
        assert not reader.of(Replaced)
        (bars,) = reader.of(Bars)
        barred = tuple(bars.rows["ts_event"].tolist())
        harness.peer.hurried = (0, 0)
        for other, reported in ((feed, ()), (harness.feed(client_id="42"), barred)):
            again = harness.open(other, ES, NOW - 2 * SECOND, reported)
            await harness.until(lambda again=again: _replaced(again) == len(barred), "trades for all bars")

    run(work)


def _replaced(reader: Reader) -> int:
    """Minutes of bars that trades have taken the place of."""
    return sum((piece.to_ns - piece.from_ns) // MINUTE for piece in reader.of(Replaced))
