"""Answers kept as bytes until what they rest on changes, and computed once however many ask at the same time.

Rule kept: an entry is found only under the scope it was computed for, at the revision it was computed at, and before
the instant it may go stale. Refusals are not kept. An answer that moves by itself is kept once for all who are
answered with it; what is kept under a scope is only which one that is.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

from outcry.answers.live_answers import LiveAnswer, Rendered
from outcry.base.errors import StoreUnavailable
from outcry.http.limits import Headers, written
from outcry.http.workers import Workers
from outcry.wire.answers import Answer

_MOST_ENTRIES = 4096
_MOST_BYTES = 64 * 2**20
_MOST_FLIGHTS = 64
THREADS = 4
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """An answer as sent; `head` is its headers, written out."""

    body: bytes
    etag: bytes
    headers: Headers
    head: bytes

    @staticmethod
    def of(body: bytes) -> "Encoded":
        """Put the headers of this representation together."""
        etag = entity_tag(body)
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"etag", etag),
            (b"cache-control", b"private, no-cache"),
        ]
        return Encoded(body, etag, headers, written(headers))


class Shown:
    """An answer that moves by itself, as sent: encoded once each time it has moved. For one event loop."""

    __slots__ = ("__weakref__", "_encoded", "_rendered", "live_answer")

    def __init__(self, live_answer: LiveAnswer[Answer], rendered: Rendered[Answer]) -> None:
        self.live_answer = live_answer
        self._rendered = rendered
        self._encoded = Encoded.of(rendered.body)

    def current(self) -> Encoded | None:
        """Its newest form, unless that has to be made first."""
        rendered = self.live_answer.current()
        return self.encoded(rendered) if rendered is not None else None

    def encoded(self, rendered: Rendered[Answer]) -> Encoded:
        """A form of it as sent."""
        if rendered is not self._rendered:
            self._rendered, self._encoded = rendered, Encoded.of(rendered.body)
        return self._encoded


class Moving(NamedTuple):
    """An answer that moves by itself, and its form just now."""

    live_answer: LiveAnswer[Answer]
    rendered: Rendered[Answer]


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """What a question came to. `fresh_until_ns` None: good until the revision moves."""

    content: Encoded | Moving
    fresh_until_ns: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What one scope's question is answered with, at one revision and until `fresh_until_ns`."""

    content: Encoded | Shown
    revision: int
    fresh_until_ns: int | None

    def holds(self, revision: int, now_ns: int) -> bool:
        """Whether this is still what to answer with."""
        return self.revision == revision and (self.fresh_until_ns is None or now_ns < self.fresh_until_ns)

    def current(self) -> Encoded | None:
        """The answer to give; None where it has moved on and must be made first."""
        content = self.content
        return content if isinstance(content, Encoded) else content.current()

    @property
    def size_bytes(self) -> int:
        """What it alone keeps in memory, about."""
        return len(self.content.body) if isinstance(self.content, Encoded) else 0


def entity_tag(body: bytes) -> bytes:
    """Return the strong entity tag of a body."""
    return b'"%s"' % blake2b(body, digest_size=16).hexdigest().encode("ascii")


class AnswerCache:
    """Keeps the answers used last, within bounds of number and size. For one event loop."""

    def __init__(self, timeout_s: float) -> None:
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._shown = WeakValueDictionary[LiveAnswer[Answer], Shown]()
        self._asking: dict[tuple[Hashable, int], asyncio.Future[Computed]] = {}
        self._making: dict[LiveAnswer[Answer], asyncio.Future[Rendered[Answer] | None]] = {}
        self._workers = Workers(THREADS, "outcry-query", timeout_s)
        self.size_bytes = 0

    def get(self, place: Hashable, revision: int, now_ns: int) -> Kept | None:
        """Return what that place is answered with, if it still holds."""
        found = self._kept.get(place)
        if found is None:
            return None
        if found.holds(revision, now_ns):
            self._kept.move_to_end(place)
            return found
        self._drop(place)
        return None

    async def fetch(
        self, place: Hashable, revision: int, compute: Callable[[], Computed]
    ) -> tuple[Kept, Encoded]:
        """Compute an answer in a thread, or wait for who is computing it; raise `StoreUnavailable` when the
        store is silent for too long.

        `revision` is the one known before computing: should anything move meanwhile, the entry is old at
        once.
        """
        flight = self._asking.get((place, revision))
        if flight is None:
            flight = self._asking[place, revision] = self._start(compute)
            flight.add_done_callback(lambda done: self._land(place, revision, done))
        computed = await self._workers.wait(flight)
        kept, content = self._kept.get(place), computed.content
        if isinstance(content, Moving):
            shown = self._show(content)
            if kept is None or kept.content is not shown:
                kept = Kept(shown, revision, computed.fresh_until_ns)
            return kept, shown.encoded(content.rendered)
        if kept is None or kept.content is not content:
            kept = Kept(content, revision, computed.fresh_until_ns)
        return kept, content

    async def renew(self, kept: Kept, now_ns: int) -> Encoded | None:
        """Make the newest form of what a place is answered with, or wait for who is making it; None where there
        is none any more. Raises as `fetch` does."""
        shown = kept.content
        if isinstance(shown, Encoded):
            return shown
        live_answer = shown.live_answer
        flight = self._making.get(live_answer)
        if flight is None:
            flight = self._making[live_answer] = self._start(lambda: live_answer.render(now_ns))
            flight.add_done_callback(lambda done: self._made(live_answer, done))
        rendered = await self._workers.wait(flight)
        return shown.encoded(rendered) if rendered is not None else None

    def close(self) -> None:
        """Let the threads end."""
        self._workers.close()

    def _start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if len(self._asking) + len(self._making) >= _MOST_FLIGHTS:
            # the store hangs: queueing more would only fill the memory
            raise StoreUnavailable("upstream_unavailable")
        return self._workers.start(work)

    def _show(self, moving: Moving) -> Shown:
        shown = self._shown.get(moving.live_answer)
        if shown is None:
            shown = self._shown[moving.live_answer] = Shown(moving.live_answer, moving.rendered)
        return shown

    def _land(self, place: Hashable, revision: int, flight: asyncio.Future[Computed]) -> None:
        self._asking.pop((place, revision), None)
        if flight.cancelled() or flight.exception() is not None:
            return
        computed = flight.result()
        content = computed.content
        shown = self._show(content) if isinstance(content, Moving) else content
        kept = Kept(shown, revision, computed.fresh_until_ns)
        self._drop(place)
        if kept.size_bytes > _MOST_BYTES // 8:
            return
        self._kept[place] = kept
        self.size_bytes += kept.size_bytes
        while self.size_bytes > _MOST_BYTES or len(self._kept) > _MOST_ENTRIES:
            self._drop(next(iter(self._kept)))

    def _made(self, live_answer: LiveAnswer[Answer], flight: asyncio.Future[Rendered[Answer] | None]) -> None:
        del self._making[live_answer]
        if not flight.cancelled():
            flight.exception()  # seen, even where everyone who waited has gone

    def _drop(self, place: Hashable) -> None:
        found = self._kept.pop(place, None)
        if found is not None:
            self.size_bytes -= found.size_bytes


def names_etag(if_none_match: str, etag: bytes) -> bool:
    """Whether `If-None-Match` names this entity: `*`, or a list with it, weak or strong (RFC 9110
    §13.1.2)."""
    text = if_none_match.strip()
    if text == "*":
        return True
    wanted = etag.decode("ascii")
    return any(item.strip().removeprefix("W/") == wanted for item in text.split(","))
