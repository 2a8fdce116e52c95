"""Entries of a stream that are written to files after `append` has returned, and the tasks that wait for this."""

import asyncio
from collections.abc import Sequence

from outcry.live.entries import Day, TradeRows, encode
from outcry.live.model import Frame

#: Size of a frame without its blob, in memory and on disk.
FRAME_BYTES = 20
#: Size of an entry of trades without its rows, at most.
_HEAD_BYTES = 80
#: A batch of trades does not grow beyond this.
_BATCH_BYTES = 1 << 18
#: A log that accepts nothing for this long is stalled; its streams stop answering live.
STALL_S = 2.0

Waiter = tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]


class TradeBatch:
    """Trades of one session and trade date that are queued to become one frame. It has the fields of a `Frame`.

    The batch grows until it is written, so many single trades of a feed cost one write.
    """

    __slots__ = ("_parts", "count", "day", "first", "size")

    def __init__(self, first: int, day: Day, count: int, data: bytes) -> None:
        self.first, self.day, self.count, self._parts = first, day, count, [data]
        self.size = size_of_trades(data)

    def add(self, count: int, data: bytes) -> None:
        """Add trades to the batch. data: `LIVE_TRADE` rows as bytes."""
        self._parts.append(data)
        self.count += count
        self.size += len(data)

    @property
    def blob(self) -> bytes:
        """The batch as an encoded log entry."""
        return encode(TradeRows(self.day, b"".join(self._parts)))


class PendingWrites:
    """The entries of one stream that are queued for writing.

    last: the position after the newest entry, written or not. flying: frames being written. pending: frames queued
    after them. cuts: positions at which a new file or message starts. waiting: futures of tasks that wait until a
    position is written. since_s: time on the monotonic clock when the log last accepted anything; valid while
    `writing`. is_awaited: whether a task waits for queued entries.
    """

    __slots__ = ("cuts", "flying", "is_awaited", "key", "last", "pending", "since_s", "waiting", "writing")

    def __init__(self, key: str) -> None:
        self.key = key
        self.last = 0
        self.pending: list[Frame | TradeBatch] = []
        self.flying: list[Frame | TradeBatch] = []
        self.cuts: set[int] = set()
        self.waiting: list[Waiter] = []
        self.writing = self.is_awaited = False
        self.since_s = 0.0

    @property
    def kept_to(self) -> int:
        """The log position up to which everything is written."""
        waits = self.flying or self.pending
        return waits[0].first if waits else self.last

    def add_trades(self, day: Day, count: int, data: bytes, *, continues: bool) -> int:
        """Queue trades; return the number of bytes that this adds.

        If they continue the session of the newest queued batch, they are added to that batch.
        """
        newest = self.pending[-1] if self.pending else None
        position, self.last = self.last, self.last + count
        if (
            continues and isinstance(newest, TradeBatch) and newest.day == day
            and newest.size + len(data) <= _BATCH_BYTES and position not in self.cuts
        ):  # fmt: skip
            newest.add(count, data)
            return len(data)
        batch = TradeBatch(position, day, count, data)
        self.pending.append(batch)
        return batch.size

    def frames(self) -> list[Frame]:
        """Return a copy of everything queued."""
        return [Frame(one.first, one.count, one.blob) for one in (*self.flying, *self.pending)]

    def stalled(self, now_s: float) -> bool:
        """Return whether entries have waited for `STALL_S` without any of them being written."""
        return self.writing and now_s - self.since_s >= STALL_S

    def wait(self) -> "asyncio.Future[None]":
        """Return a future of the running loop that completes once everything appended so far is written."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self.waiting.append((self.last, loop, waiter))
        return waiter

    def reached(self) -> list[Waiter]:
        """Remove and return the waiting tasks whose entries are written now."""
        kept = self.kept_to
        done = [waiter for waiter in self.waiting if waiter[0] <= kept]
        self.waiting = [waiter for waiter in self.waiting if waiter[0] > kept]
        return done


def size_of(frame: Frame | TradeBatch) -> int:
    """Return the size of a queued frame in bytes. For a batch of trades it is the largest possible size."""
    return frame.size if isinstance(frame, TradeBatch) else len(frame.blob) + FRAME_BYTES


def size_of_trades(data: bytes) -> int:
    """Return the largest size in bytes that trades can have as a frame of their own. data: `LIVE_TRADE` rows."""
    return len(data) + _HEAD_BYTES + FRAME_BYTES


def wake(waiting: Sequence[Waiter], problem: Exception | None) -> None:
    """Complete the futures of waiting tasks, each on its own loop.

    problem: the exception that the tasks get; None: their entries are written.
    """
    for _, loop, waiter in waiting:
        try:
            loop.call_soon_threadsafe(_resolve, waiter, problem)
        except RuntimeError:  # the loop has ended
            continue


def _resolve(waiter: "asyncio.Future[None]", problem: Exception | None) -> None:
    if waiter.done():
        return
    if problem is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(problem)
