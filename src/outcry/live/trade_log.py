"""The interface of the logs of streams. Every input of a stream is logged before it is applied."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Protocol

from outcry.live.entries import Day
from outcry.live.model import Frame


class TradeLog(Protocol):
    """The log of every stream. Positions count entries from 0; each trade is one entry, however trades were grouped.

    Methods that read or remove entries may raise `StoreBusy` while the log is unavailable.
    """

    def keys(self, partitions: Collection[int] | None = None) -> Sequence[str]:
        """Return the names of streams with entries (`StreamKey.text`), in `partitions` or in all."""
        ...

    def last(self, key: str) -> int:
        """Return the position after the newest entry, 0 for an empty log.

        Call it first when a stream is acquired. It reads the end of the log again, so that new entries follow those
        that another process has written.
        """
        ...

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Append entries to a stream's log at position `first`.

        Entries that exist already are left as they are, so a repetition does nothing. Entries survive the end of the
        process once `pending_write` returns None or its awaitable completes. Raises `ValueError` for a gap or a partial
        overlap, `OSError` for a full disk (the log is then unchanged) and `LogTakenOver`.
        """
        ...

    def append_trades(
        self, key: str, first: int, day: Day, count: int, data: bytes, *, continues: bool
    ) -> None:
        """Append trades of one session and trade date, as `append` does. data: `LIVE_TRADE` rows as bytes.

        continues: whether the trades follow the stream's newest entry in time and session, so that a log may store both
        as one frame.
        """
        ...

    def pending_write(self, key: str) -> Awaitable[None] | None:
        """Return an awaitable that completes once all appended entries would survive the end of this process.

        Returns None if they already would. Until then, publish nothing that is computed from these entries. The
        awaitable raises `LogTakenOver` if the entries are lost to another process, and waits while the log is
        unavailable. Call it on the engine's event loop.
        """
        ...

    def stalled(self, key: str) -> str | None:
        """Return why the log of a stream has stalled; None if it has not. Never blocks.

        It has stalled if entries have waited for two seconds and none is being persisted.
        """
        ...

    def check_ownership(self, key: str) -> None:
        """Check that no other process has written to the stream's log since this one did. Raises `LogTakenOver`.

        Call it right before writing other data that depends on the log.
        """
        ...

    def read(self, key: str, first: int) -> Iterator[Frame]:
        """Yield the frames of a stream, beginning with the one that contains entry `first`.

        If that frame was removed, begin with the oldest one. An incomplete frame at the end, as a crash leaves it, is
        cut off. Raises `LogDamaged`.
        """
        ...

    def cut(self, key: str) -> None:
        """Start a new file with the next entry, so that `drop` can remove the entries before it later."""
        ...

    def drop(self, key: str, before: int) -> None:
        """Remove the files that contain only entries before a position. The result of `last` does not change."""
        ...

    def forget(self, key: str) -> None:
        """Remove a stream's log. Its next entry is at position 0."""
        ...

    def take_notices(self, key: str) -> Sequence[str]:
        """Return the repairs of a stream's log since the last call, each as a line of text for the operator."""
        ...

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Rebuild a damaged log from its readable entries; return a line of text for each loss, for the operator.

        There is no line if the log is undamaged or cannot be rebuilt. Damaged files are renamed, not deleted. position:
        of the snapshot from which the stream continues, 0 without one. Lost entries before this position become one
        frame with the contents `lost(count)`. After this position, the log ends before the first lost entry.
        """
        ...

    def quarantine(self, key: str) -> None:
        """Remove a stream's log as `forget` does, but rename damaged files, so that a person can inspect them."""
        ...

    def sync(self) -> None:
        """Sync all appended entries to disk, so that they survive a crash of the machine."""
        ...
