"""A JetStream stream with ordered reads and compare-and-set appends by subject.

Each message is stored only once. If the acknowledgement is lost, the writer retries, and recognises its own message by
its id if that is the newest. This works however late the retry is, unlike JetStream's own deduplication, which is
limited to a time window. (Whether JetStream deduplicates before or after it compares the expected sequence number
depends on the number of servers.)
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from outcry.cluster.calls import BusDown
from outcry.cluster.nats.link import BusRefused, Link, answered

#: JetStream's error codes: another message is the newest, or is being written; there is no message.
_OVERTAKEN, _NONE = frozenset({10071, 10164}), 10037
_MOST, _MOST_BYTES = 1024, 8 << 20
#: Longest wait (s) for an acknowledgement before a retry, because a crashed leader never sends it; and for a read.
_WRITTEN_S, _BATCH_S = 1.5, 10.0
_ID = "Nats-Msg-Id"
#: Bytes reserved for the headers of a message.
HEADERS_BYTES = 512


class WriteConflict(Exception):
    """The newest message of a subject is not the expected one, because another process has written to the subject."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in JetStream. `seq`: its sequence number; `name`: the unique id it was appended with."""

    seq: int
    name: str
    body: bytes


class MessageStore:
    """Read and write one JetStream stream. Every method may raise `BusDown` and `BusRefused`."""

    def __init__(self, link: Link, config: Mapping[str, Any]) -> None:
        self._link, self._config, self._stream = link, config, str(config["name"])

    async def newest(self, subject: str) -> StoredMessage | None:
        """Return the newest message of a subject, from the server that leads the stream; None if there is none."""
        try:
            reply = await self._ask(f"STREAM.MSG.GET.{self._stream}", {"last_by_subj": subject})
        except BusRefused as problem:
            if problem.code == _NONE:
                return None
            raise
        found = reply["message"]
        headers = b64decode(found.get("hdrs", "")).decode()
        name = next(
            (line[len(_ID) + 2 :] for line in headers.split("\r\n") if line.startswith(f"{_ID}: ")), ""
        )
        return StoredMessage(found["seq"], name, b64decode(found.get("data", "")))

    async def some(self, subject: str, seq: int, most: int = _MOST) -> list[StoredMessage]:
        """Return messages of a subject from a sequence number on, up to 8 MiB.

        Any server with a copy may answer, so the newest messages may be missing.
        """
        await self._link.ensure_stream(self._config)
        ask = {"seq": max(1, seq), "next_by_subj": subject, "batch": most, "max_bytes": _MOST_BYTES}
        subject = f"$JS.API.DIRECT.GET.{self._stream}"
        answers = await self._link.requests(subject, msgspec.json.encode(ask), _BATCH_S)
        *found, end = answers
        status = (end.headers or {}).get("Status")
        if status not in {"204", "404"}:
            raise BusDown(f"JetStream answered {status} to a read")
        headers = [message.headers or {} for message in found]
        return [
            StoredMessage(int(reply["Nats-Sequence"]), reply.get(_ID, ""), message.data)
            for reply, message in zip(headers, found, strict=True)
        ]

    async def add(self, subject: str, body: bytes, after: int, name: str) -> int:
        """Append a message after the one with sequence number `after` (0: none); return its sequence number.

        `name` is a unique id. Raises `WriteConflict` if another message is the newest. After `BusDown` the message may
        have been added: append it again with the same name.
        """
        await self._link.ensure_stream(self._config)
        headers = {"Nats-Expected-Last-Subject-Sequence": str(after), _ID: name}
        try:
            answer = await self._link.request(subject, body, _WRITTEN_S, headers)
            return int(answered(answer)["seq"])
        except BusRefused as problem:
            if problem.code not in _OVERTAKEN:
                raise
        newest = await self.newest(subject)
        if newest is not None and newest.name == name:
            return newest.seq
        if (newest.seq if newest else 0) == after:
            raise BusDown("a message is being written")  # it may be this one
        raise WriteConflict(subject)

    async def remove(self, subject: str, before: int) -> None:
        """Remove the messages of a subject with a sequence number less than `before`."""
        await self._ask(f"STREAM.PURGE.{self._stream}", {"filter": subject, "seq": before})

    async def subjects(self, pattern: str) -> Sequence[str]:
        """Return every subject that matches the pattern and has a message."""
        found: dict[str, int] = {}
        while True:
            ask = {"subjects_filter": pattern, "offset": len(found)}
            reply = await self._ask(f"STREAM.INFO.{self._stream}", ask)
            some = reply["state"].get("subjects") or {}
            found |= some
            if not some or len(found) >= reply.get("total", 0):
                return list(found)

    async def _ask(self, name: str, ask: Mapping[str, Any]) -> Any:
        await self._link.ensure_stream(self._config)
        return await self._link.api(name, ask)
