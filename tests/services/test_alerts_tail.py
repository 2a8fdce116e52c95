"""Alerts at processes that do not record them: every one, in order, once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.live_views import ESH26, MemoryAlerts, alert_row
from tests.local_calls import Bus

from outcry.cluster import alert_tail
from outcry.cluster.alert_tail import AlertsTail
from outcry.cluster.state_publisher import ALERTS
from outcry.database.errors import StoreBusy
from outcry.live.model import AlertRow, StreamKey
from outcry.live.registry import Board, Channel

KEY = StreamKey(0, "demo", ESH26)


class Alerts(MemoryAlerts):
    """Those of the store, which is busy at times."""

    busy = False

    def alerts(self, *args: Any, **more: Any) -> list[AlertRow]:
        if self.busy:
            raise StoreBusy("busy")
        return list(super().alerts(*args, **more))


@asynccontextmanager
async def followed(store: Alerts, board: Board, bus: Bus, told: list[str]) -> AsyncIterator[None]:
    tail = AlertsTail(board, store, bus, lambda event, **more: told.append(event))  # type: ignore[arg-type]
    task = asyncio.ensure_future(tail.run())
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(end, asyncio.CancelledError), end


def seqs(board: Board) -> list[int]:
    return [row.seq for row in board.alerts_after(0)[0]]


async def until(so: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not so():
            await asyncio.sleep(0.005)


def test_the_newest_known_are_shown_and_then_every_new_one_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 there are, 10 are shown at the beginning; then 2,500 come at once, of several owners."""
    monkeypatch.setattr(alert_tail, "ALERTS_SHOWN", 10)
    monkeypatch.setattr(alert_tail, "LOOK_S", 60.0)

    async def main() -> None:
        store, board, bus, told = Alerts([alert_row(n) for n in range(1, 31)]), Board(), Bus(), list[str]()
        async with followed(store, board, bus, told):
            await until(lambda: seqs(board))
            assert seqs(board) == list(range(21, 31))
            store.rows += [alert_row(n, owner=n % 3) for n in range(31, 2531)]
            await bus.tell(ALERTS, b"")
            await until(lambda: len(seqs(board)) == 2510)
            assert seqs(board) == list(range(21, 2531))
            assert board.alert_seq == 2530

    asyncio.run(main())


def test_the_store_alone_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_tail, "LOOK_S", 0.02)

    async def main() -> None:
        store, board, bus, told = Alerts(), Board(), Bus(), list[str]()
        bus.away = store.busy = True
        async with followed(store, board, bus, told):
            await until(lambda: told)
            store.rows.append(alert_row(4))
            store.busy = False
            await until(lambda: seqs(board) == [4])
            store.busy = True
            store.rows.append(alert_row(5))
            await until(lambda: len(told) == 2)
            store.busy = False
            await until(lambda: seqs(board) == [4, 5])
        assert len(told) == 2

    asyncio.run(main())


def test_alerts_of_a_stream_that_went_and_came_back_are_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins anew: alerts 1 and 2 are forgotten, 4 is new and read before the board is told that the stream went;
    3 is another's."""
    monkeypatch.setattr(alert_tail, "LOOK_S", 60.0)

    async def main() -> None:
        store, board, bus, told = Alerts([alert_row(1), alert_row(2)]), Board(), Bus(), list[str]()
        channel = Channel(KEY, invented=False, peek=lambda: None)
        board.put(channel)
        async with followed(store, board, bus, told):
            await until(lambda: seqs(board) == [1, 2])
            store.rows = [alert_row(3, owner=7), alert_row(4)]
            await bus.tell(ALERTS, b"")
            await until(lambda: seqs(board) == [1, 2, 3, 4])
            board.drop(KEY)
            assert seqs(board) == [3]
            board.put(channel)
            await until(lambda: seqs(board) == [3, 4])

    asyncio.run(main())
