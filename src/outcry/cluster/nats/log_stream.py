"""The state of a stream in the log of a cluster."""

from collections.abc import Sequence

from outcry.cluster.nats import log_format
from outcry.live.model import Frame
from outcry.live.pending_writes import PendingWrites


class LogStream(PendingWrites):
    """Implements the pending writes of one stream over JetStream.

    seq: number of the newest message; void: another process has written to the stream.
    """

    __slots__ = ("dropped", "seq", "subject", "void")

    def __init__(self, key: str, subject: str) -> None:
        super().__init__(key)
        self.subject = subject
        self.seq = self.dropped = 0
        self.void = False


def size_of(frames: Sequence[Frame]) -> int:
    """Bytes of frames in a message."""
    return sum(len(frame.blob) + log_format.FRAME_BYTES for frame in frames)
