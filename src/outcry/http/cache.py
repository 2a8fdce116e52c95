"""Cache of encoded responses. If several requests need the same response at a time, it is computed once.

An entry is valid for one scope (what a caller may see), at one revision of the database (its counter of changes), and
until `fresh_until_ns`. The response about a live session is cached once for all callers; the entries of their scopes
refer to it. If there is no data to respond with, that error is cached for a second; other errors are not cached.

No other module caches whole responses. Decision record 0058 lists all caches that a request can meet, and when the
entries of each end.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from outcry.answers.live_answers import LiveAnswer, QueryResult, Rendered
from outcry.base.errors import NoLicensedSource, NotFound, StoreUnavailable, UnknownSymbol
from outcry.http.errors import Problem, problem_of
from outcry.http.limits import Headers, header_bytes
from outcry.http.workers import Workers
from outcry.wire.answers import Answer

#: Memory of an entry beside its body: key, headers and objects.
_ENTRY_BYTES = 1500
#: How long the error of a symbol or session without an answer is cached. It may depend on the time.
_PROBLEM_NS = 1_000_000_000
_LASTING = (UnknownSymbol, NotFound, NoLicensedSource)
_MOST_BYTES = 64 * 2**20
_MOST_FLIGHTS = 64
THREADS = 4
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """An encoded response body. `head`: its headers as they are sent."""

    body: bytes
    etag: bytes
    headers: Headers
    head: bytes
    #: Headers of the response without a body, to a client that has this answer.
    unchanged: Headers
    unchanged_head: bytes

    @staticmethod
    def of(body: bytes) -> "Encoded":
        """Return a response body together with its encoded headers."""
        etag = entity_tag(body)
        unchanged: Headers = [(b"etag", etag), (b"cache-control", b"private, no-cache")]
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *unchanged,
        ]
        return Encoded(body, etag, headers, header_bytes(headers), unchanged, header_bytes(unchanged))


class EncodedLiveAnswer:
    """The encoded response about a live session. It is encoded again after each change. For one event loop."""

    __slots__ = ("__weakref__", "_encoded", "_rendered", "live_answer")

    def __init__(self, live_answer: LiveAnswer[Answer], rendered: Rendered[Answer]) -> None:
        self.live_answer = live_answer
        self._rendered = rendered
        self._encoded = Encoded.of(rendered.body)

    def current(self) -> Encoded | None:
        """Return the encoded response if it shows the current state; None if it must be rendered first."""
        rendered = self.live_answer.current()
        return self.encoded(rendered) if rendered is not None else None

    def encoded(self, rendered: Rendered[Answer]) -> Encoded:
        """Return a rendered response encoded; encode it only if that was not done before."""
        if rendered is not self._rendered:
            self._rendered, self._encoded = rendered, Encoded.of(rendered.body)
        return self._encoded


class LiveContent(NamedTuple):
    """A rendered response about a live session, with the object that renders it again after a change."""

    live_answer: LiveAnswer[Answer]
    rendered: Rendered[Answer]


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """A computed response, valid until `fresh_until_ns`; None: until the database's revision changes."""

    content: Encoded | LiveContent | Problem
    fresh_until_ns: int | None


@dataclass(slots=True, eq=False)
class CacheEntry:
    """One cached response, for one scope (what a caller may see), at one database revision and until `fresh_until_ns`.

    `used`: whether it was found since the cache last considered removing it.
    """

    content: Encoded | EncodedLiveAnswer | Problem
    revision: int
    fresh_until_ns: int | None
    used: bool = False

    def is_valid(self, revision: int, now_ns: int) -> bool:
        """Return whether the entry can still be used, at this database revision and time."""
        return self.revision == revision and (self.fresh_until_ns is None or now_ns < self.fresh_until_ns)

    def current(self) -> Encoded | Problem | None:
        """Return the response, or the error in its place; None if the live session has changed since."""
        content = self.content
        return content.current() if isinstance(content, EncodedLiveAnswer) else content

    @property
    def size_bytes(self) -> int:
        """Approximate memory of this entry, without a live response that it shares with others."""
        return _ENTRY_BYTES + (len(self.content.body) if isinstance(self.content, Encoded) else 0)


def entity_tag(body: bytes) -> bytes:
    """Return the strong entity tag (ETag) of a body."""
    return b'"%s"' % blake2b(body, digest_size=16).hexdigest().encode("ascii")


class AnswerCache:
    """Cache of recently used responses, bounded by memory. For one event loop.

    To make room, the cache removes the oldest entry that was not used since it was last considered. A lookup only marks
    its entry as used.
    """

    def __init__(self, timeout_s: float) -> None:
        self._kept: OrderedDict[Hashable, CacheEntry] = OrderedDict()
        self._live = WeakValueDictionary[LiveAnswer[Answer], EncodedLiveAnswer]()
        self._computing: dict[tuple[Hashable, int], asyncio.Future[Computed]] = {}
        self._rendering: dict[LiveAnswer[Answer], asyncio.Future[Rendered[Answer] | None]] = {}
        self._workers = Workers(THREADS, "outcry-query", timeout_s)
        self.size_bytes = 0

    async def answer(
        self, key: Hashable, revision: int, now_ns: int, ask: Callable[[], QueryResult[Answer]]
    ) -> Encoded | Problem:
        """Return a response, or the error in its place; compute it if it is missing or outdated.

        `revision`: the database's counter of changes, as read before the computation. `ask`: the query, which runs in a
        thread. Raises `StoreUnavailable` if the store does not respond in time.
        """
        entry = self.find(key, revision, now_ns)
        encoded = entry and (entry.current() or await self._renew(entry, now_ns))
        return encoded or await self._fetch(key, revision, partial(_compute, ask, now_ns))

    def find(self, key: Hashable, revision: int, now_ns: int) -> CacheEntry | None:
        """Return the entry of a key if it is valid, else None."""
        found = self._kept.get(key)
        if found is None:
            return None
        if found.is_valid(revision, now_ns):
            found.used = True
            return found
        self._drop(key)
        return None

    async def _fetch(
        self, key: Hashable, revision: int, compute: Callable[[], Computed]
    ) -> Encoded | Problem:
        """Compute a response in a thread, or wait if another request is computing it.

        If the database's revision changes meanwhile, the new entry is outdated at once.
        """
        flight = self._computing.get((key, revision))
        if flight is None:
            flight = self._computing[key, revision] = self._start(compute)
            flight.add_done_callback(lambda done: self._store_computed(key, revision, done))
        content = (await self._workers.wait(flight)).content
        if isinstance(content, LiveContent):
            return self._live_entry(content).encoded(content.rendered)
        return content

    async def _renew(self, entry: CacheEntry, now_ns: int) -> Encoded | None:
        """Render the current state of a live entry, or wait if another request is rendering it.

        Return None if the live session has ended. Raises `StoreUnavailable` like `answer`.
        """
        shown = entry.content
        assert isinstance(shown, EncodedLiveAnswer), "other answers are always current"
        live_answer = shown.live_answer
        flight = self._rendering.get(live_answer)
        if flight is None:
            flight = self._rendering[live_answer] = self._start(lambda: live_answer.render(now_ns))
            flight.add_done_callback(lambda done: self._finish_rendering(live_answer, done))
        rendered = await self._workers.wait(flight)
        return shown.encoded(rendered) if rendered is not None else None

    def close(self) -> None:
        """Let the cache's threads end. Work that has not begun is dropped."""
        self._workers.close()

    def _start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if len(self._computing) + len(self._rendering) >= _MOST_FLIGHTS:
            # the store is stalled: queueing more requests would only fill the memory
            raise StoreUnavailable("upstream_unavailable")
        return self._workers.start(work)

    def _live_entry(self, moving: LiveContent) -> EncodedLiveAnswer:
        shown = self._live.get(moving.live_answer)
        if shown is None:
            shown = self._live[moving.live_answer] = EncodedLiveAnswer(moving.live_answer, moving.rendered)
        return shown

    def _store_computed(self, key: Hashable, revision: int, flight: asyncio.Future[Computed]) -> None:
        self._computing.pop((key, revision), None)
        if flight.cancelled() or flight.exception() is not None:
            return
        computed = flight.result()
        content = computed.content
        shown = self._live_entry(content) if isinstance(content, LiveContent) else content
        entry = CacheEntry(shown, revision, computed.fresh_until_ns)
        self._drop(key)
        if entry.size_bytes > _MOST_BYTES // 8:
            return
        self._kept[key] = entry
        self.size_bytes += entry.size_bytes
        while self.size_bytes > _MOST_BYTES:
            self._drop_oldest()

    def _finish_rendering(
        self, live_answer: LiveAnswer[Answer], flight: asyncio.Future[Rendered[Answer] | None]
    ) -> None:
        del self._rendering[live_answer]
        if not flight.cancelled():
            flight.exception()  # mark the exception as retrieved, even if no request waits any more

    def _drop_oldest(self) -> None:
        """Remove the oldest entry. If it was used since this was last tried, make it the newest instead."""
        key, entry = next(iter(self._kept.items()))
        if entry.used:
            entry.used = False
            self._kept.move_to_end(key)
        else:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self.size_bytes -= found.size_bytes


def _compute(ask: Callable[[], QueryResult[Answer]], now_ns: int) -> Computed:
    """Run a query and encode its response."""
    try:
        found = ask()
    except _LASTING as error:
        return Computed(problem_of(error), now_ns + _PROBLEM_NS)
    live_answer = found.live_answer
    if live_answer is None:
        return Computed(Encoded.of(msgspec.json.encode(found.answer)), found.fresh_until_ns)
    rendered = live_answer.render(now_ns)
    if rendered is None:  # the session has just ended: send its last answer, and do not cache it
        return Computed(Encoded.of(msgspec.json.encode(found.answer)), now_ns)
    return Computed(LiveContent(live_answer, rendered), found.fresh_until_ns)


def names_etag(if_none_match: str, etag: bytes) -> bool:
    """Return whether the header `If-None-Match` names an entity tag.

    It does if it is `*`, or a list with the tag, weak or strong (RFC 9110 §13.1.2).
    """
    text = if_none_match.strip()
    if text == "*":
        return True
    wanted = etag.decode("ascii")
    return any(item.strip().removeprefix("W/") == wanted for item in text.split(","))
