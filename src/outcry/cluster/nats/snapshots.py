"""Snapshots of live streams in JetStream: one subject for each stream, whose newest message is the snapshot.

A snapshot is a stream's computed state at a log position; after a restart only later log entries are read. An older
snapshot never replaces a newer one: every write names the message it replaces, and after a conflict the writer reads
the newest snapshot again.

A message: format version (u8), the position (u64, little-endian), the compressed snapshot.
"""

import secrets
import struct
from collections.abc import Sequence
from itertools import count

import zstandard

from outcry.cluster.nats.blocking import BlockingBus
from outcry.cluster.nats.log_format import subject_of
from outcry.cluster.nats.message_store import HEADERS_BYTES, MessageStore, WriteConflict
from outcry.cluster.nats.thread import LinkThread
from outcry.database.errors import StoreBusy

STREAM = {
    "name": "SNAPSHOTS",
    "subjects": ["snapshot.>"],
    "storage": "file",
    "allow_direct": True,
    "max_msgs_per_subject": 1,
}
_HEAD = struct.Struct("<BQ")
_FORM = 1
_LEVEL = 1


class JetStreamSnapshots:
    """Snapshots of live streams in JetStream. Implements `Snapshots`. Thread-safe; needs a running `LinkThread`."""

    def __init__(self, thread: LinkThread) -> None:
        self._thread = thread
        self._store = MessageStore(thread.link, STREAM)
        self._bus = BlockingBus(thread, "snapshots")
        self._name, self._numbers = secrets.token_hex(8), count()
        #: Sequence number and position of each newest snapshot as last seen: most saves then need no read.
        self._seen: dict[str, tuple[int, int]] = {}

    def save_snapshots(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Store snapshots `(stream, position, bytes)`, except where a later one is stored. Raises `StoreBusy`."""
        for key, position, snapshot in rows:
            body = _HEAD.pack(_FORM, position) + zstandard.compress(snapshot, _LEVEL)
            most = self._thread.link.max_bytes - HEADERS_BYTES
            if len(body) > most:
                raise StoreBusy(
                    f"{key}: a snapshot of {len(body)} bytes, of {most} that the bus takes: raise its max_payload"
                )
            self._bus(lambda key=key, position=position, body=body: self._save(key, position, body))

    def snapshot(self, key: str) -> tuple[int, bytes] | None:
        """Return the position and bytes of a stream's newest snapshot. Raises `StoreBusy`.

        Return None also for an unknown format, so that the caller reads the whole log instead.
        """
        found = self._bus(lambda: self._store.newest(subject_of("snapshot", key)))
        if found is None or found.body[:1] != bytes([_FORM]):
            return None
        _, position = _HEAD.unpack_from(found.body)
        return position, zstandard.decompress(found.body[_HEAD.size :])

    def forget_snapshot(self, key: str) -> None:
        """Remove a stream's snapshot. Raises `StoreBusy`."""
        subject = subject_of("snapshot", key)

        async def work() -> None:
            found = await self._store.newest(subject)
            if found is not None:
                await self._store.remove(subject, found.seq + 1)

        self._bus(work)
        self._seen.pop(subject, None)

    async def _save(self, key: str, position: int, body: bytes) -> None:
        subject, name = subject_of("snapshot", key), f"{self._name}.{next(self._numbers)}"
        while True:
            seq, known = self._seen.get(subject) or await self._look(subject)
            if known > position:
                return
            try:
                self._seen[subject] = await self._store.add(subject, body, seq, name), position
            except WriteConflict:
                del self._seen[subject]
            else:
                return

    async def _look(self, subject: str) -> tuple[int, int]:
        """Return the sequence number and the position of a stream's newest snapshot, each 0 if there is none."""
        found = await self._store.newest(subject)
        if found is None:
            seen = 0, 0
        elif found.body[:1] == bytes([_FORM]):
            seen = found.seq, int(_HEAD.unpack_from(found.body)[1])
        else:
            seen = found.seq, 0
        self._seen[subject] = seen
        return seen
