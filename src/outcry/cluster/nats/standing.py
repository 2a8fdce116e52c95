"""The state of a stream in the log of a cluster."""

from collections.abc import Sequence

from outcry.cluster.nats import messages
from outcry.live.model import Frame
from outcry.live.pending_writes import PendingWrites


class Standing(PendingWrites):
    """See `bus.standing`. seq: number of the stream's newest message; void: another process has written to it."""

    __slots__ = ("dropped", "seq", "subject", "void")

    def __init__(self, key: str, subject: str) -> None:
        super().__init__(key)
        self.subject = subject
        self.seq = self.dropped = 0
        self.void = False


def size_of(frames: Sequence[Frame]) -> int:
    """Bytes of frames in a message."""
    return sum(len(frame.blob) + messages.FRAME_BYTES for frame in frames)
