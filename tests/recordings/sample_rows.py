"""Hand-made recordings and events for the tests of feeds."""

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from outcry.market.instruments import Contract
from outcry.recordings.file_model import ReadCounts
from outcry.trades.feed import Bars, Event, Trades
from outcry.trades.records import BAR, TRADE, Batch, Quality

ES = Contract("ES", 2024, 3)
NQ = Contract("NQ", 2024, 3)
SECOND = 10**9
MINUTE = 60 * SECOND


def utc(text: str) -> int:
    """Convert a UTC time such as `2024-01-02 14:30:00` to ns."""
    at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(at.timestamp()) * SECOND + at.microsecond * 1000


def trades(*rows: tuple[int, float, int]) -> np.ndarray:
    """Return rows of time, price and size; bought, numbered by index."""
    made = np.zeros(len(rows), TRADE)
    for number, (at, price, size) in enumerate(rows):
        made[number] = (at, round(price * 1e9), size, b"B", 255, number)
    return made


def bars(*rows: tuple[int, float, int]) -> np.ndarray:
    """Return bars of one price: start, price, volume."""
    made = np.zeros(len(rows), BAR)
    for number, (at, price, volume) in enumerate(rows):
        made[number] = (at, *[round(price * 1e9)] * 4, volume)
    return made


class Made:
    """Recording in memory: batches in the order given."""

    format = "made"
    bytes_total = bytes_read = 1

    def __init__(self, *batches: tuple[Contract, np.ndarray], source: str = "made", step: str = "1m") -> None:
        self.path, self.source, self.counts = Path("made"), source, ReadCounts()
        self._batches, self._bars = batches, Quality(f"bars_{step}")

    def batches(self) -> Iterator[Batch]:
        for contract, rows in self._batches:
            yield Batch(contract, Quality.TICKS if rows.dtype == TRADE else self._bars, rows, "row 1")


def flat(events: Iterable[Event]) -> list[object]:
    """Return events with each row separate, so that results do not depend on batches."""
    summary: list[object] = []
    for event in events:
        if isinstance(event, Trades | Bars):
            summary += [(type(event).__name__, *row) for row in event.rows.tolist()]
        else:
            summary.append(event)
    return summary


def rows_of(events: Iterable[Event]) -> np.ndarray:
    """Return all rows of one kind."""
    return np.concatenate([event.rows for event in events if isinstance(event, Trades | Bars)])


async def drain(stream: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in stream]
