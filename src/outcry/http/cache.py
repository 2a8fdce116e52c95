"""Answers kept as bytes until the store changes, and computed once however many ask at the same time.

Rule kept: an entry is found only under the scope it was computed for, at the revision it was computed at,
and before the instant it may go stale. Refusals are not kept.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b

from outcry.http.limits import Headers, written
from outcry.services.errors import StoreUnavailable

_MOST_ENTRIES = 4096
_MOST_BYTES = 64 * 2**20
_MOST_FLIGHTS = 64
THREADS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """An answer as sent. `fresh_until_ns` None: until the revision moves."""

    body: bytes
    etag: bytes
    revision: int
    fresh_until_ns: int | None
    headers: Headers
    head: bytes

    @staticmethod
    def of(body: bytes, revision: int, fresh_until_ns: int | None) -> "Encoded":
        """Put the headers of this representation together; `head` is the same, written out."""
        etag = entity_tag(body)
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"etag", etag),
            (b"cache-control", b"private, no-cache"),
        ]
        return Encoded(body, etag, revision, fresh_until_ns, headers, written(headers))

    def holds(self, revision: int, now_ns: int) -> bool:
        """Whether it may still be given."""
        return self.revision == revision and (self.fresh_until_ns is None or now_ns < self.fresh_until_ns)


def entity_tag(body: bytes) -> bytes:
    """Return the strong entity tag of a body."""
    return b'"%s"' % blake2b(body, digest_size=16).hexdigest().encode("ascii")


class AnswerCache:
    """Keeps the answers used last, within bounds of number and size. For one event loop."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._kept: OrderedDict[Hashable, Encoded] = OrderedDict()
        self._flights: dict[Hashable, asyncio.Future[tuple[bytes, int | None]]] = {}
        self._pool = ThreadPoolExecutor(THREADS, "outcry-query")
        self.size_bytes = 0

    def get(self, place: Hashable, revision: int, now_ns: int) -> Encoded | None:
        """Return the answer of that place if it still holds."""
        found = self._kept.get(place)
        if found is None:
            return None
        if found.holds(revision, now_ns):
            self._kept.move_to_end(place)
            return found
        self._drop(place)
        return None

    async def fetch(
        self, place: Hashable, revision: int, compute: Callable[[], tuple[bytes, int | None]]
    ) -> Encoded:
        """Compute an answer in a thread, or wait for who is computing it; raise `StoreUnavailable` when it
        takes too long.

        `revision` is the one known before computing: should the store move meanwhile, the entry is old at
        once.
        """
        flight = self._flights.get((place, revision))
        if flight is None:
            if (
                len(self._flights) >= _MOST_FLIGHTS
            ):  # the store hangs: queueing more would only fill the memory
                raise StoreUnavailable("upstream_unavailable")
            flight = asyncio.get_running_loop().run_in_executor(self._pool, compute)
            self._flights[place, revision] = flight
            flight.add_done_callback(lambda done: self._land(place, revision, done))
        done, _ = await asyncio.wait([flight], timeout=self._timeout_s)
        if not done:
            raise StoreUnavailable("upstream_unavailable")
        body, fresh_until_ns = flight.result()
        kept = self._kept.get(place)
        if kept is not None and kept.body is body:
            return kept
        return Encoded.of(body, revision, fresh_until_ns)

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _land(self, place: Hashable, revision: int, flight: asyncio.Future[tuple[bytes, int | None]]) -> None:
        self._flights.pop((place, revision), None)
        if flight.cancelled() or flight.exception() is not None:
            return
        body, fresh_until_ns = flight.result()
        self._drop(place)
        if len(body) > _MOST_BYTES // 8:
            return
        self._kept[place] = Encoded.of(body, revision, fresh_until_ns)
        self.size_bytes += len(body)
        while self.size_bytes > _MOST_BYTES or len(self._kept) > _MOST_ENTRIES:
            self._drop(next(iter(self._kept)))

    def _drop(self, place: Hashable) -> None:
        found = self._kept.pop(place, None)
        if found is not None:
            self.size_bytes -= len(found.body)


def names_etag(if_none_match: str, etag: bytes) -> bool:
    """Whether `If-None-Match` names this entity: `*`, or a list with it, weak or strong (RFC 9110
    §13.1.2)."""
    text = if_none_match.strip()
    if text == "*":
        return True
    wanted = etag.decode("ascii")
    return any(item.strip().removeprefix("W/") == wanted for item in text.split(","))
