"""What JetStream keeps for us, subject by subject: read in order, and added to only by who knows the newest.

Rule kept: a message is written once. One whose acknowledgement was lost is known by its own name as the newest there
is, so it is never taken for another's, however late it is sent again: the window in which JetStream itself looks for
repeats does not matter. (Whether it looks before or after it compares the newest depends on the number of servers.)
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from outcry.cluster.calls import BusDown
from outcry.cluster.nats.link import BusRefused, Link, answered

#: JetStream's own codes: another message is the newest, or is about to be; there is no message.
_OVERTAKEN, _NONE = frozenset({10071, 10164}), 10037
_MOST, _MOST_BYTES = 1024, 8 << 20
#: How long an acknowledgement is waited for before the message is sent again: one to a leader that died is lost.
_WRITTEN_S, _BATCH_S = 1.5, 10.0
_ID = "Nats-Msg-Id"
#: Room in a message for what goes beside its body.
HEADERS_BYTES = 512


class WriteConflict(Exception):
    """The newest message of a subject is not the one that was expected."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message there is. `seq`: its number in all of the stream; `name`: as it was added."""

    seq: int
    name: str
    body: bytes


class MessageStore:
    """A stream of JetStream. Every method may raise `BusDown` and `BusRefused`."""

    def __init__(self, link: Link, config: Mapping[str, Any]) -> None:
        self._link, self._config, self._stream = link, config, str(config["name"])

    async def newest(self, subject: str) -> StoredMessage | None:
        """The newest message, as whoever leads the stream knows it."""
        try:
            said = await self._ask(f"STREAM.MSG.GET.{self._stream}", {"last_by_subj": subject})
        except BusRefused as problem:
            if problem.code == _NONE:
                return None
            raise
        found = said["message"]
        headers = b64decode(found.get("hdrs", "")).decode()
        name = next(
            (line[len(_ID) + 2 :] for line in headers.split("\r\n") if line.startswith(f"{_ID}: ")), ""
        )
        return StoredMessage(found["seq"], name, b64decode(found.get("data", "")))

    async def some(self, subject: str, seq: int, most: int = _MOST) -> list[StoredMessage]:
        """Messages from a number on, in order, some megabytes of them; from any replica, so the newest may lack."""
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
            StoredMessage(int(said["Nats-Sequence"]), said.get(_ID, ""), message.data)
            for said, message in zip(headers, found, strict=True)
        ]

    async def add(self, subject: str, body: bytes, after: int, name: str) -> int:
        """Add a message whose name is its own for ever after the one of that number, 0 for none; return its own. Raises
        `WriteConflict`. With `BusDown` it may have been added: add it again, as it is, to know."""
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
        """Remove messages of a number less than that."""
        await self._ask(f"STREAM.PURGE.{self._stream}", {"filter": subject, "seq": before})

    async def subjects(self, pattern: str) -> Sequence[str]:
        """Every subject there is a message of."""
        found: dict[str, int] = {}
        while True:
            ask = {"subjects_filter": pattern, "offset": len(found)}
            said = await self._ask(f"STREAM.INFO.{self._stream}", ask)
            some = said["state"].get("subjects") or {}
            found |= some
            if not some or len(found) >= said.get("total", 0):
                return list(found)

    async def _ask(self, name: str, ask: Mapping[str, Any]) -> Any:
        await self._link.ensure_stream(self._config)
        return await self._link.api(name, ask)
