"""What this process knows of one stream's trade log in JetStream."""

from outcry.live.pending_writes import PendingWrites


class LogStream(PendingWrites):
    """The pending writes of one stream.

    seq: sequence number of the newest message. dropped: position before which entries were removed. void: whether
    another process has written to the stream, so this state is no longer valid.
    """

    __slots__ = ("dropped", "seq", "subject", "void")

    def __init__(self, key: str, subject: str) -> None:
        super().__init__(key)
        self.subject = subject
        self.seq = self.dropped = 0
        self.void = False
