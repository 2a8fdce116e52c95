"""Find the ends of zstd frames from their block headers (RFC 8878 §3.1), without decompressing.

The decoder treats a truncated frame as complete. `FrameWalk` sees the same bytes, so that truncation is detected.
"""

_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50


class FrameWalk:
    """Follows zstd frames through chunks of compressed bytes. `whole`: the bytes so far end where a frame ends."""

    def __init__(self) -> None:
        self._skip = 0
        self._buffer = b""
        self._at = self._frame
        self._checksum = False
        self.seen = 0

    @property
    def whole(self) -> bool:
        """Return whether the bytes so far end at the end of a frame."""
        return not self._skip and not self._buffer and self._at == self._frame

    def feed(self, chunk: bytes) -> None:
        """Process the next compressed bytes.

        Bytes that are not a zstd frame are left to the decoder, which refuses them.
        """
        self.seen += len(chunk)
        start = 0
        while start < len(chunk):
            if self._skip:
                step = min(self._skip, len(chunk) - start)
                self._skip -= step
                start += step
                continue
            buffered = len(self._buffer)
            need = self._at(self._buffer + chunk[start : start + 18 - buffered])
            if need < 0:
                self._buffer += chunk[start : start + 18 - buffered]
                return
            self._buffer = b""
            start += need - buffered

    def _frame(self, head: bytes) -> int:
        """Return the length of the frame header that starts with `head`; -1 if more bytes are needed."""
        if len(head) < 8:
            return -1
        magic = int.from_bytes(head[:4], "little")
        if magic & ~0xF == _SKIPPABLE:
            self._skip = int.from_bytes(head[4:8], "little")
            return 8
        descriptor = head[4]
        single, self._checksum = descriptor >> 5 & 1, bool(descriptor >> 2 & 1)
        content = (single, 2, 4, 8)[descriptor >> 6]
        size = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content
        if len(head) < size:
            return -1
        self._at = self._block
        return size

    def _block(self, head: bytes) -> int:
        if len(head) < 3:
            return -1
        header = int.from_bytes(head[:3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        self._skip = (1 if kind == 1 else size) + (4 if last and self._checksum else 0)
        self._at = self._frame if last else self._block
        return 3
