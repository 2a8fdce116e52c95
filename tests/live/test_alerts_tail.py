"""Processes that do not record alerts receive each alert once and in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.memory_bus import Bus
from tests.sample_live_session import ESH26, MemoryAlerts, alert_row
from tests.timeouts import until

from outcry.cluster import alert_tail
from outcry.cluster.alert_tail import AlertTail
from outcry.cluster.state_publisher import ALERTS
from outcry.database.errors import StoreBusy
from outcry.live.model import AlertRow, StreamKey
from outcry.live.registry import Channel, Registry

KEY = StreamKey(0, "demo", ESH26)


class Alerts(MemoryAlerts):
    """Alerts of the store, which raises `StoreBusy` while `busy`."""

    busy = False

    def alerts(self, *args: Any, **more: Any) -> list[AlertRow]:
        if self.busy:
            raise StoreBusy("busy")
        return list(super().alerts(*args, **more))


@asynccontextmanager
async def followed(store: Alerts, registry: Registry, bus: Bus, reports: list[str]) -> AsyncIterator[None]:
    tail = AlertTail(registry, store, bus, lambda event, **more: reports.append(event))  # type: ignore[arg-type]
    task = asyncio.ensure_future(tail.run())
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(end, asyncio.CancelledError), end


def seqs(registry: Registry) -> list[int]:
    return [row.seq for row in registry.alerts_after(0)[0]]


def test_the_newest_alerts_appear_first_and_then_every_new_one_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 30 stored alerts, the first 10 appear at the start. Then 2,500 of several owners arrive at once."""
    monkeypatch.setattr(alert_tail, "ALERTS_SHOWN", 10)
    monkeypatch.setattr(alert_tail, "POLL_S", 60.0)

    async def main() -> None:
        store, registry, bus, reports = (
            Alerts([alert_row(n) for n in range(1, 31)]),
            Registry(),
            Bus(),
            list[str](),
        )
        async with followed(store, registry, bus, reports):
            await until(lambda: seqs(registry))
            assert seqs(registry) == list(range(21, 31))
            store.rows += [alert_row(n, owner=n % 3) for n in range(31, 2531)]
            await bus.tell(ALERTS, b"")
            await until(lambda: len(seqs(registry)) == 2510)
            assert seqs(registry) == list(range(21, 2531))
            assert registry.alert_seq == 2530

    asyncio.run(main())


def test_polling_the_store_suffices_without_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_tail, "POLL_S", 0.02)

    async def main() -> None:
        store, registry, bus, reports = Alerts(), Registry(), Bus(), list[str]()
        bus.down = store.busy = True
        async with followed(store, registry, bus, reports):
            await until(lambda: reports)
            store.rows.append(alert_row(4))
            store.busy = False
            await until(lambda: seqs(registry) == [4])
            store.busy = True
            store.rows.append(alert_row(5))
            await until(lambda: len(reports) == 2)
            store.busy = False
            await until(lambda: seqs(registry) == [4, 5])
        assert len(reports) == 2

    asyncio.run(main())


def test_a_dropped_channel_that_returns_has_only_newer_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new channel starts empty: alerts 1 and 2 are dropped.

    Alert 4 was read before the registry dropped the channel. Alert 3 belongs to another owner."""
    monkeypatch.setattr(alert_tail, "POLL_S", 60.0)

    async def main() -> None:
        store, registry, bus, reports = Alerts([alert_row(1), alert_row(2)]), Registry(), Bus(), list[str]()
        channel = Channel(KEY, simulated=False, peek=lambda: None)
        registry.put(channel)
        async with followed(store, registry, bus, reports):
            await until(lambda: seqs(registry) == [1, 2])
            store.rows = [alert_row(3, owner=7), alert_row(4)]
            await bus.tell(ALERTS, b"")
            await until(lambda: seqs(registry) == [1, 2, 3, 4])
            registry.drop(KEY)
            assert seqs(registry) == [3]
            registry.put(channel)
            await until(lambda: seqs(registry) == [3, 4])

    asyncio.run(main())
