"""The interface of the logs of streams. Input is logged before it is applied."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Protocol

from outcry.live.entries import Day
from outcry.live.model import Frame


class TradeLog(Protocol):
    """The log of every stream. Positions count entries from 0; each trade is one entry, however trades were batched.

    Methods that read or remove entries may raise `StoreBusy` while the log is unavailable.
    """

    def keys(self, partitions: Collection[int] | None = None) -> Sequence[str]:
        """Return the names of streams with entries (`StreamKey.text`), in `partitions` or in all."""
        ...

    def last(self, key: str) -> int:
        """Return the position after the newest entry, 0 for an empty log.

        Call it first when a stream is acquired. It reads the log again, so that entries can be appended after those
        that another process has written.
        """
        ...

    def append(self, key: str, first: int, count: int, blob: bytes) -> None:
        """Append entries to a stream's log at position `first`.

        Entries that exist already are left as they are, so a repetition does nothing. They survive the process once
        `pending_write` has nothing to wait for. Raises `ValueError` for a gap or a partial overlap, `OSError` for a
        full disk (the log is unchanged) and `LogTakenOver`.
        """
        ...

    def append_trades(
        self, key: str, first: int, day: Day, count: int, data: bytes, *, continues: bool
    ) -> None:
        """Append trades of one session and trade date, as `append` does. data: `LIVE_TRADE` rows as bytes.

        continues: they follow the stream's newest entry in time and session, so a log may store both as one frame.
        """
        ...

    def pending_write(self, key: str) -> Awaitable[None] | None:
        """Return an awaitable that completes once everything appended survives the process; None if it does already.

        Nothing computed from these entries may be published before. The awaitable raises `LogTakenOver` if the entries
        are lost to another process, and waits while the log is unavailable. For the event loop of the engine.
        """
        ...

    def stalled(self, key: str) -> str | None:
        """Return why entries of a stream have waited for two seconds without any being persisted, or None.

        Never blocks.
        """
        ...

    def check_ownership(self, key: str) -> None:
        """Check that no other process has written to the stream since this one did. Raises `LogTakenOver`.

        Call it right before other data is written that depends on the log.
        """
        ...

    def read(self, key: str, first: int) -> Iterator[Frame]:
        """Yield the frames of a stream, beginning with the one that contains entry `first`.

        If that was dropped, begin with the oldest. An incomplete end, as a crash leaves it, is cut off. Raises
        `LogDamaged`.
        """
        ...

    def cut(self, key: str) -> None:
        """Start a new file with the next entry, so that the entries before it can be dropped later."""
        ...

    def drop(self, key: str, before: int) -> None:
        """Remove the files that contain only entries before a position. The result of `last` does not change."""
        ...

    def forget(self, key: str) -> None:
        """Remove a stream's log. Its next entry is at position 0."""
        ...

    def take_notices(self, key: str) -> Sequence[str]:
        """Return the repairs of a stream's log since the last call, as lines for the operator."""
        ...

    def salvage(self, key: str, position: int, lost: Callable[[int], bytes]) -> Sequence[str]:
        """Rebuild a damaged log from its readable entries; return a line for each loss, for the operator.

        There is no line if the log is whole or cannot be rebuilt. Damaged files are renamed and not deleted. position:
        of the snapshot from which the stream continues, 0 without one. Lost entries before this position become one
        frame with the contents `lost(count)`. After it, the log ends before the first lost entry.
        """
        ...

    def quarantine(self, key: str) -> None:
        """Remove a stream's log as `forget` does, but keep its damaged files under another name for inspection."""
        ...

    def sync(self) -> None:
        """Sync everything appended to the disk, so that it survives a crash of the machine."""
        ...
