"""The spool: events on disk that a service has not accepted yet, in one queue for each contract of each feed.

At its size limit the spool discards the oldest file of the largest queue and reports the lost events as a gap.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from outcry.agent.spool_state import SpoolState
from outcry.agent.spooled_queue import SpooledQueue
from outcry.live.model import StreamKey
from outcry.live.trade_log import TradeLog
from outcry.market.instruments import Universe, UnknownName
from outcry.trades.feed import FeedCaps

_STATE = "run.json"


class Spool:
    """Queues of unsent events in a folder. The block `exclusively` locks the folder for this process.

    `limit_bytes` applies to all queues together.
    """

    def __init__(self, log: TradeLog, folder: Path, limit_bytes: int) -> None:
        self._log, self._folder, self._limit_bytes = log, folder, limit_bytes
        self.queues: dict[StreamKey, SpooledQueue] = {}

    def queue(self, key: StreamKey, caps: FeedCaps) -> SpooledQueue:
        """Return the queue of a stream; the first time, read it from disk. Raises `LogDamaged`, `OSError`."""
        found = self.queues.get(key)
        if found is None:
            state_path = self._folder / key.text / _STATE
            found = self.queues[key] = SpooledQueue(self._log, key.text, key.contract, caps, state_path)
        return found

    def left_over(self, universe: Universe) -> Sequence[tuple[StreamKey, FeedCaps]]:
        """Return the queues on disk that still contain events to send but were not opened since the program started."""
        found: list[tuple[StreamKey, FeedCaps]] = []
        for text in self._log.keys():  # noqa: SIM118 - no mapping
            owner, feed, name = text.split("/")
            state = SpoolState.read(self._folder / text / _STATE)
            with suppress(UnknownName):
                key = StreamKey(int(owner), feed, universe.contract(name))
                if state.caps is not None and key not in self.queues:
                    found.append((key, state.caps))
        return found

    def clear(self) -> None:
        """Delete every queue. Raises `OSError`."""
        for text in self._log.keys():  # noqa: SIM118 - no mapping
            (self._folder / text / _STATE).unlink(missing_ok=True)
            self._log.forget(text)
        self.queues.clear()

    def forget(self, key: StreamKey) -> None:
        """Delete a queue. Raises `OSError`."""
        self.queues.pop(key, None)
        (self._folder / key.text / _STATE).unlink(missing_ok=True)
        self._log.forget(key.text)

    @property
    def size(self) -> int:
        """Bytes in all queues."""
        return sum(queue.size for queue in list(self.queues.values()))

    def make_room(self) -> int:
        """Delete the oldest files until the spool is within its size limit; return how many. Raises `OSError`."""
        gone = 0
        while self.size > self._limit_bytes:
            largest = max(list(self.queues.values()), key=lambda queue: queue.size)
            if not largest.drop_oldest():
                return gone
            gone += 1
        return gone

    def sync(self) -> None:
        """Write events that the disk refused earlier, and flush all files to the disk. Raises `OSError`."""
        for queue in list(self.queues.values()):
            queue.save()
        self._log.sync()
