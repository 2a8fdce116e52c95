"""Where a stream stands in its log, and who waits for what."""

import asyncio
from collections.abc import Sequence

from outcry.bus.nats import messages
from outcry.ports.live import Frame


class Standing:
    """Where a stream stands. last: after the newest entry, kept or not; seq: number of its newest message; waiting:
    who waits until all up to a position is kept."""

    __slots__ = (
        "cuts",
        "dropped",
        "flying",
        "key",
        "last",
        "pending",
        "seq",
        "subject",
        "void",
        "waiting",
        "writing",
    )

    def __init__(self, key: str, subject: str) -> None:
        self.key, self.subject = key, subject
        self.last = self.seq = self.dropped = 0
        self.pending: list[Frame] = []
        self.flying: list[Frame] = []
        self.cuts: set[int] = set()
        self.waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self.writing = False
        self.void = False


def kept_to(stream: Standing) -> int:
    """The position up to which all is acknowledged."""
    waits = stream.flying or stream.pending
    return waits[0].first if waits else stream.last


def size_of(frames: Sequence[Frame]) -> int:
    """Bytes of frames in a message."""
    return sum(len(frame.blob) + messages.FRAME_BYTES for frame in frames)


def wake(
    waiting: Sequence[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]], problem: Exception | None
) -> None:
    """Tell those who wait, each on its own loop."""
    for _, loop, waiter in waiting:
        try:
            loop.call_soon_threadsafe(_resolve, waiter, problem)
        except RuntimeError:  # that loop has ended
            continue


def _resolve(waiter: asyncio.Future[None], problem: Exception | None) -> None:
    if waiter.done():
        return
    if problem is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(problem)
