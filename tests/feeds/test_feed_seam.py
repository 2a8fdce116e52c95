"""Seam between history and live events: history before the cut, live from it on, without duplicates or losses."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import numpy as np
import pytest
from tests.recordings.sample_rows import MINUTE, bars, rows_of, trades
from tests.timeouts import within

from outcry.feeds.live_rows import as_live
from outcry.feeds.seam import join_history_and_live
from outcry.trades.feed import (
    Bars,
    CaughtUp,
    Event,
    FeedLost,
    FeedRefused,
    Heartbeat,
    RowFlag,
    Status,
    Trades,
)
from outcry.trades.records import Quality

STANDS = Status(subscribed=True, code="subscribed")
CUT = 100


def batch(*times: int, price: float = 1.0) -> Trades:
    return Trades(as_live(trades(*((at, price, 1) for at in times)), 0, RowFlag(0)))


class Vendor:
    """Live events pushed by the test, and pages of history, between which the test may do things."""

    def __init__(self, *pages: Trades | Bars, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        self.pages, self.meanwhile = pages, meanwhile
        self.queue: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
        self.done: list[str] = []

    async def live(self) -> AsyncGenerator[Event, None]:
        self.done.append("subscribed")
        try:
            while (event := await self.queue.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.done.append("unsubscribed")

    def cut(self) -> int:
        self.done.append("cut")
        return CUT

    async def history(self, cut: int) -> AsyncGenerator[Trades | Bars, None]:
        self.done.append(f"history to {cut}")
        try:
            for page in self.pages:
                if self.meanwhile:
                    await self.meanwhile()
                yield page
        finally:
            self.done.append("history closed")

    def put(self, *events: Event | Exception | None) -> None:
        for event in events:
            self.queue.put_nowait(event)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await within(work(), 60)

    asyncio.run(bounded())


async def everything(vendor: Vendor, **options: object) -> list[Event]:
    stream = join_history_and_live(vendor.history, vendor.live(), vendor.cut, **options)  # type: ignore[arg-type]
    return [event async for event in stream]


def summary(events: list[Event]) -> list[object]:
    """Times of rows, negative for history; other events as they are."""
    found: list[object] = []
    for event in events:
        if isinstance(event, Trades):
            found += [
                -int(r["ts_event"]) if r["flags"] & RowFlag.BACKFILL else int(r["ts_event"])
                for r in event.rows
            ]
        else:
            found.append(event)
    return found


def test_history_and_live_overlap_on_both_sides_of_the_cut() -> None:
    """History reaches to 110 and live begins at 90; the cut is 100."""

    async def work() -> None:
        vendor = Vendor(batch(50, 80, 95), batch(99, 100, 110))
        vendor.put(STANDS, batch(90, 95, 99), batch(99, 100, 105), batch(110, 120), None)
        assert summary(await everything(vendor)) == [
            -50, -80, -95, -99, CaughtUp(CUT, Quality.TICKS), STANDS, 100, 105, 110, 120,
        ]  # fmt: skip
        steps = [step for step in vendor.done if step != "unsubscribed"]
        assert steps[:3] == ["subscribed", "cut", "history to 100"]

    run(work)


def test_trades_alike_are_kept_as_often_as_they_were_made() -> None:
    """Three alike at 99 and two at 100, in both: three and two come out."""

    async def work() -> None:
        vendor = Vendor(batch(99, 99, 99, 100, 100))
        vendor.put(STANDS, batch(99, 99, 99), batch(100), batch(100), None)
        times = [row for row in summary(await everything(vendor)) if isinstance(row, int)]
        assert times == [-99, -99, -99, 100, 100]

    run(work)


def test_rows_out_of_order_go_to_their_side_of_the_cut() -> None:
    """A late row of 98 on the live stream, long after the seam, is history's; order is left as it came."""

    async def work() -> None:
        vendor = Vendor(batch(97, 50), batch(98, 40))
        vendor.put(STANDS, batch(103, 101), batch(98, 102), batch(98), None)
        assert summary(await everything(vendor)) == [
            -97, -50, -98, -40, CaughtUp(CUT, Quality.TICKS), STANDS, 103, 101, 102,
        ]  # fmt: skip

    run(work)


def test_live_rows_that_come_while_history_is_fetched_wait_for_it() -> None:
    """A row with each page; heartbeats in a row are one, the newest, and none is sent before history is whole."""

    async def work() -> None:
        async def meanwhile() -> None:
            vendor.put(batch(100 + len(vendor.done)), Heartbeat(7), Heartbeat(8))
            await asyncio.sleep(0.01)

        vendor = Vendor(batch(10), batch(20), batch(30), meanwhile=meanwhile)
        vendor.put(STANDS)
        stream = join_history_and_live(vendor.history, vendor.live(), vendor.cut)
        first = [await anext(stream) for _ in range(11)]
        assert summary(first) == [
            -10, -20, -30, CaughtUp(CUT, Quality.TICKS), STANDS,
            103, Heartbeat(8), 103, Heartbeat(8), 103, Heartbeat(8),
        ]  # fmt: skip
        vendor.put(batch(200), Heartbeat(9), Heartbeat(10))  # from here on, as they come
        assert summary([await anext(stream) for _ in range(3)]) == [200, Heartbeat(9), Heartbeat(10)]
        await stream.aclose()
        assert vendor.done[-1] == "unsubscribed"

    run(work)


def test_history_waits_for_the_subscription() -> None:
    async def work() -> None:
        vendor = Vendor(batch(10))
        first = asyncio.ensure_future(anext(join_history_and_live(vendor.history, vendor.live(), vendor.cut)))
        await asyncio.sleep(0.02)
        assert vendor.done == ["subscribed"]
        vendor.put(STANDS)
        assert summary([await first]) == [-10]

    run(work)


def test_a_page_without_a_row_before_the_cut_is_not_sent() -> None:
    async def work() -> None:
        vendor = Vendor(batch(100), batch(5))
        vendor.put(STANDS, batch(99), None)
        assert summary(await everything(vendor)) == [-5, CaughtUp(CUT, Quality.TICKS), STANDS]

    run(work)


def test_bars_as_history() -> None:
    """The cut lies between two bars: those that start before it are whole. Within a bar there is no cut."""

    async def work() -> None:
        page = Bars(bars((0, 1.0, 10), (MINUTE, 2.0, 20)), Quality.BARS_1M)
        vendor = Vendor(page)
        vendor.put(STANDS, batch(30, MINUTE), None)
        stream = join_history_and_live(vendor.history, vendor.live(), lambda: MINUTE, quality=Quality.BARS_1M)
        events = [event async for event in stream]
        assert isinstance(events[0], Bars)
        assert (events[0].backfill, events[0].rows["volume"].tolist()) == (True, [10])
        assert summary(events[1:]) == [CaughtUp(MINUTE, Quality.BARS_1M), STANDS, MINUTE]
        vendor.put(STANDS, None)
        with pytest.raises(ValueError, match="between two bars"):
            await everything(vendor, quality=Quality.BARS_1M)

    run(work)


# -- when it breaks


def test_what_waits_is_bounded() -> None:
    """Ten rows may wait: the subscription's own event and nine. After the seam the reader's own pace bounds it."""

    async def work(more: int) -> list[Event]:
        async def meanwhile() -> None:
            vendor.put(*[batch(101)] * 5, batch(*[102] * more))
            await asyncio.sleep(0.01)

        vendor = Vendor(batch(10), meanwhile=meanwhile)
        vendor.put(STANDS)
        stream = join_history_and_live(vendor.history, vendor.live(), vendor.cut, limit=10)
        try:
            events = [await anext(stream) for _ in range(3)]
            vendor.put(*[batch(103)] * 30, None)
            return events + [event async for event in stream]
        finally:
            assert "history closed" in vendor.done

    assert len(rows_of(asyncio.run(work(4)))) == 1 + 9 + 30
    with pytest.raises(FeedLost) as caught:
        asyncio.run(work(5))
    assert caught.value.code == "seam_overflow"


def test_a_link_that_breaks_while_history_is_fetched_ends_it_at_once() -> None:
    async def work() -> None:
        async def meanwhile() -> None:
            vendor.put(FeedLost("broken"))
            await asyncio.sleep(60)

        vendor = Vendor(batch(10), meanwhile=meanwhile)
        vendor.put(STANDS)
        with pytest.raises(FeedLost, match="broken"):
            await everything(vendor)
        assert vendor.done[-2:] == ["unsubscribed", "history closed"]

    run(work)


def test_a_link_that_breaks_later_first_gives_what_came() -> None:
    async def work() -> None:
        vendor = Vendor(batch(10))
        vendor.put(STANDS)
        stream = join_history_and_live(vendor.history, vendor.live(), vendor.cut)
        events = [await anext(stream) for _ in range(3)]
        vendor.put(batch(101), FeedLost("broken"))
        assert summary([*events, await anext(stream)]) == [-10, CaughtUp(CUT, Quality.TICKS), STANDS, 101]
        with pytest.raises(FeedLost, match="broken"):
            await anext(stream)

    run(work)


@pytest.mark.parametrize(("last", "raised"), [(None, FeedLost), (FeedRefused("login"), FeedRefused)])
def test_a_subscription_that_never_stands(last: Exception | None, raised: type[Exception]) -> None:
    async def work() -> None:
        vendor = Vendor(batch(10))
        vendor.put(last)
        with pytest.raises(raised):
            await everything(vendor)
        assert vendor.done == ["subscribed", "unsubscribed"]

    run(work)


def test_history_that_fails_ends_the_subscription() -> None:
    async def work() -> None:
        async def meanwhile() -> None:
            raise FeedLost("no_history")

        vendor = Vendor(batch(10), meanwhile=meanwhile)
        vendor.put(STANDS)
        with pytest.raises(FeedLost, match="no_history"):
            await everything(vendor)
        assert vendor.done[-1] == "unsubscribed"

    run(work)


def test_a_reader_that_leaves_ends_both() -> None:
    async def work() -> None:
        vendor = Vendor(batch(10), batch(20))
        vendor.put(STANDS)
        stream = join_history_and_live(vendor.history, vendor.live(), vendor.cut)
        await anext(stream)
        await stream.aclose()
        assert vendor.done[-2:] == ["history closed", "unsubscribed"]

    run(work)


def test_pages_of_history_are_left_as_they_were() -> None:
    async def work() -> None:
        page = batch(10, 20)
        vendor = Vendor(page)
        vendor.put(STANDS, None)
        await everything(vendor)
        assert np.array_equal(page.rows["flags"], [0, 0])

    run(work)
