"""Everything an agent has read and a service has not taken yet, on disk: a line for each contract of each feed.

Rule kept: it grows no larger than was allowed; then the oldest of the largest line goes, and is told of as a gap.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from outcry.agent.spool_state import SpoolState
from outcry.agent.spooled_queue import SpooledQueue
from outcry.live.model import StreamKey, TradeLog
from outcry.market.instruments import Universe, UnknownName
from outcry.trades.feed import FeedCaps

_MEMO = "run.json"


class Spool:
    """Lines over a log in `folder`, which is held `exclusively`. limit_bytes: of all lines together."""

    def __init__(self, log: TradeLog, folder: Path, limit_bytes: int) -> None:
        self._log, self._folder, self._limit_bytes = log, folder, limit_bytes
        self.lines: dict[StreamKey, SpooledQueue] = {}

    def line(self, key: StreamKey, caps: FeedCaps) -> SpooledQueue:
        """The line of a stream, read from disk at first. Raises `LogDamaged`, `OSError`."""
        found = self.lines.get(key)
        if found is None:
            memo = self._folder / key.text / _MEMO
            found = self.lines[key] = SpooledQueue(self._log, key.text, key.contract, caps, memo)
        return found

    def left_over(self, universe: Universe) -> Sequence[tuple[StreamKey, FeedCaps]]:
        """Lines on disk that nothing is read for any more, and that are to be sent all the same."""
        found: list[tuple[StreamKey, FeedCaps]] = []
        for text in self._log.keys():  # noqa: SIM118 - no mapping
            owner, feed, name = text.split("/")
            memo = SpoolState.read(self._folder / text / _MEMO)
            with suppress(UnknownName):
                key = StreamKey(int(owner), feed, universe.contract(name))
                if memo.caps is not None and key not in self.lines:
                    found.append((key, memo.caps))
        return found

    def clear(self) -> None:
        """Forget every line. Raises `OSError`."""
        for text in self._log.keys():  # noqa: SIM118 - no mapping
            (self._folder / text / _MEMO).unlink(missing_ok=True)
            self._log.forget(text)
        self.lines.clear()

    def forget(self, key: StreamKey) -> None:
        """Remove a line. Raises `OSError`."""
        self.lines.pop(key, None)
        (self._folder / key.text / _MEMO).unlink(missing_ok=True)
        self._log.forget(key.text)

    @property
    def size(self) -> int:
        """Bytes in all lines."""
        return sum(line.size for line in list(self.lines.values()))

    def make_room(self) -> int:
        """Let go of the oldest where there is more than was allowed; return how many pieces went. Raises `OSError`."""
        gone = 0
        while self.size > self._limit_bytes:
            largest = max(list(self.lines.values()), key=lambda line: line.size)
            if not largest.drop_oldest():
                return gone
            gone += 1
        return gone

    def sync(self) -> None:
        """Write what the disk did not take, and put all of it on the disk itself. Raises `OSError`."""
        for line in list(self.lines.values()):
            line.save()
        self._log.sync()
