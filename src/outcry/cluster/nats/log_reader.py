"""Read a stream's log from JetStream in batches of some megabytes, with one batch read ahead."""

import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from outcry.cluster.calls import BusDown
from outcry.cluster.nats import log_format
from outcry.cluster.nats.blocking import BlockingBus
from outcry.cluster.nats.link import BusRefused
from outcry.cluster.nats.message_store import MessageStore, StoredMessage
from outcry.database.errors import StoreBusy
from outcry.live.model import Frame, LogDamaged

T = TypeVar("T")

#: Longest wait (s) for a replica that is behind, and the interval of reads in that time.
_BEHIND_S, _LOOK_S = 5.0, 0.02


async def place_of(store: MessageStore, subject: str, position: int, newest: int) -> int:
    """Return the sequence number of the message that contains the entry at a position, up to message `newest`.

    If the entry was removed, return the oldest message. A JetStream server that lags behind may cause an older result.
    Raises `BusDown`.
    """
    oldest = await store.some(subject, 1, 1)
    if not oldest:
        if await store.newest(subject) is not None:
            raise BusDown("a replica is behind")
        return newest + 1  # the stream was deleted in the meantime
    if oldest[0].seq > newest:  # the stream was deleted and started again
        return oldest[0].seq
    least, most = oldest[0].seq, newest
    while least < most:
        middle = (least + most + 1) // 2
        found = await store.some(subject, middle, 1)
        if found and found[0].seq <= most and _first(found[0]) <= position:
            least = found[0].seq
        else:
            most = middle - 1
    return least


def _first(message: StoredMessage) -> int:
    return next(log_format.decode(message.body)).first


class LogReader:
    """Reads the log of one stream from JetStream.

    call: runs a coroutine on the NATS thread and waits for its result. begun: starts a coroutine there and returns its
    future.
    """

    def __init__(
        self,
        store: MessageStore,
        subject: str,
        call: BlockingBus,
        begun: Callable[[Coroutine[Any, Any, list[StoredMessage]]], Future[list[StoredMessage]]],
    ) -> None:
        self._store, self._subject, self._call, self._begun = store, subject, call, begun

    def frames(self, first: int, until: int, newest: int, own: Sequence[Frame]) -> Iterator[Frame]:
        """Yield a stream's frames (batches of entries), beginning with the one that contains entry `first`.

        These are the entries before `until` in messages up to number `newest`, then the frames in `own`, which this
        process has not written yet. Raises `StoreBusy`, `LogDamaged`.
        """
        if newest and first < until:
            yield from self._stored_frames(first, until, newest)
        yield from (frame for frame in own if frame.first + frame.count > first)

    def _stored_frames(self, first: int, until: int, newest: int) -> Iterator[Frame]:
        at = None
        for message in self._messages(first, newest):
            for frame in log_format.decode(message.body):
                end = frame.first + frame.count
                if frame.first >= until:
                    return
                if end <= first or (at is not None and end <= at):  # before `first`, or written twice
                    continue
                if at is not None and frame.first != at:
                    raise LogDamaged(
                        f"{self._subject}: entries {at} to {frame.first} are missing (message {message.seq})"
                    )
                at = end
                yield frame

    def _messages(self, first: int, newest: int) -> Iterator[StoredMessage]:
        start = 1
        if first:
            start = self._call(lambda: place_of(self._store, self._subject, first, newest))
        ahead: Future[list[StoredMessage]] | None = None
        behind_s = time.monotonic() + _BEHIND_S
        while start <= newest:
            some = self._taken(ahead, start)
            ahead = None
            if some:
                behind_s = time.monotonic() + _BEHIND_S
                start = some[-1].seq + 1
                if start <= newest:
                    ahead = self._begun(self._store.some(self._subject, start))
                yield from some
            elif self._is_removed(newest):
                return
            elif time.monotonic() > behind_s:
                raise StoreBusy("the log cannot be read to its end: a replica is behind")
            else:
                time.sleep(_LOOK_S)

    def _taken(self, ahead: Future[list[StoredMessage]] | None, start: int) -> list[StoredMessage]:
        """Return the batch of messages that was read ahead, or read it now if reading ahead failed."""
        if ahead is not None:
            with suppress(BusDown, BusRefused):
                return ahead.result()
        return self._call(lambda: self._store.some(self._subject, start))

    def _is_removed(self, newest: int) -> bool:
        """Return whether the stream was deleted while it was read."""
        found = self._call(lambda: self._store.newest(self._subject))
        return found is None or found.seq < newest
