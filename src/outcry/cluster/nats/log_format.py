"""The format of the trade log in JetStream: subjects, and the frames (batches of entries) of a message.

A message contains the format version (u8), then for each frame: position of its first entry (u64), number of entries
(u32), length of the encoded entries (u32), the encoded entries; all little-endian. A message without frames means that
the stream was deleted.
"""

import struct
from collections.abc import Iterable, Iterator

from outcry.live.log_checks import check_key
from outcry.live.model import Frame, LogDamaged
from outcry.live.partitions import partition_of_stream
from outcry.live.pending_writes import TradeBatch

_FORM = b"\1"
_HEAD = struct.Struct("<QII")
MOST_ENTRIES = 2**32 - 1


def subject_of(prefix: str, key: str) -> str:
    """Return the NATS subject of a stream's log: `log.17.0.demo.ESZ2026`. Raises `ValueError` for an invalid key."""
    check_key(key)
    return f"{prefix}.{partition_of_stream(key)}.{key.replace('.', '=').replace('/', '.')}"


def key_of(subject: str) -> str:
    """Return the key of the stream whose log has this NATS subject."""
    return "/".join(subject.split(".")[2:]).replace("=", ".")


def encode(frames: Iterable[Frame | TradeBatch]) -> bytes:
    """Encode frames (batches of log entries) as one message."""
    parts = [_FORM]
    for frame in frames:
        parts += (_HEAD.pack(frame.first, frame.count, len(frame.blob)), frame.blob)
    return b"".join(parts)


def decode(message: bytes) -> Iterator[Frame]:
    """Decode a message and yield its frames (batches of log entries). Raises `LogDamaged`."""
    if message[:1] != _FORM:
        raise LogDamaged(f"a message of the log has the form {message[:1]!r}, which is not known here")
    at = 1
    while at < len(message):
        try:
            first, count, length = _HEAD.unpack_from(message, at)
        except struct.error:
            raise LogDamaged("a message of the log ends within a frame") from None
        at += _HEAD.size
        if at + length > len(message):
            raise LogDamaged("a message of the log ends within a frame")
        yield Frame(first, count, message[at : at + length])
        at += length
