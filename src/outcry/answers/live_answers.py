"""Answers from a live stream, built and encoded once for all callers who read it.

A channel is the live stream of one contract. An answer may be up to two milliseconds older than the channel's data, so
that a burst of trades does not cause a burst of work. A channel that is not live has no live answer. The caller affects
only which channel is chosen, and whether its source is named `shared` or `personal`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Generic, Protocol, TypeVar, cast

import msgspec

from outcry.answers.session_view import SessionView, open_session
from outcry.live.registry import VisibleChannel
from outcry.market.instruments import Universe
from outcry.market.units import NANOS_PER_MS
from outcry.wire.answers import Answer

A = TypeVar("A", bound=Answer)
A_co = TypeVar("A_co", bound=Answer, covariant=True)

#: Minimum time between two renderings of an answer, at most 500 a second.
MIN_RENDER_INTERVAL_NS = 2 * NANOS_PER_MS


class Watch(Protocol):
    """Interface of data with a version, from which answers are built."""

    @property
    def version(self) -> int:
        """A number that changes with everything that may change the answer."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Rendered(Generic[A_co]):
    """An answer with its JSON, built from one version of its data at `made_ns` (monotonic clock)."""

    version: int
    answer: A_co
    body: bytes
    made_ns: int


class LiveAnswer(Generic[A_co]):
    """A cached answer that is rendered again when its data changes. Thread-safe; `make` is never called concurrently.

    `make`: builds the answer for the current time (ns UTC), or returns None if there is none now. `lasts_ns`: how long
    an unchanged answer stays valid; None means forever.
    """

    def __init__(self, watch: Watch, make: Callable[[int], A_co | None], lasts_ns: int | None = None) -> None:
        self._watch, self._make, self._lasts_ns = watch, make, lasts_ns
        self._lock = threading.Lock()
        self._latest: Rendered[A_co] | None = None

    def current(self) -> Rendered[A_co] | None:
        """Return the last rendered answer if it is still valid."""
        latest, lasts_ns = self._latest, self._lasts_ns
        if latest is None:
            return None
        same = latest.version == self._watch.version
        if same and lasts_ns is None:
            return latest
        age_ns = monotonic_ns() - latest.made_ns
        return latest if age_ns < MIN_RENDER_INTERVAL_NS or (same and age_ns < (lasts_ns or 0)) else None

    def render(self, now_ns: int) -> Rendered[A_co] | None:
        """Return a valid answer, rendered if necessary; None if there is none."""
        with self._lock:
            found = self.current()
            if found is None:
                # Read before rendering, so that a concurrent change causes another rendering.
                version = self._watch.version
                answer = self._make(now_ns)
                if answer is not None:
                    found = Rendered(version, answer, msgspec.json.encode(answer), monotonic_ns())
                self._latest = found
            return found


@dataclass(frozen=True, slots=True)
class QueryResult(Generic[A_co]):
    """The answer to a query, and how long it is valid.

    The answer is valid until `fresh_until_ns` (ns UTC; None: no limit), unless the database or the registry of live
    streams changes before. `live_answer`: set if the answer is about a live stream; it then provides the newest answer.
    """

    answer: A_co
    fresh_until_ns: int | None
    live_answer: LiveAnswer[A_co] | None = None


class LiveAnswers:
    """Builds live answers. Each is cached with its channel (a contract's live stream), so all instances share it."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe

    def of(self, build: Callable[[SessionView], A], seen: VisibleChannel) -> LiveAnswer[A]:
        """Return the answer about the open session of a live stream. `build` makes it again after each change."""

        def make(_now_ns: int) -> A | None:
            view = self.view(seen)
            return build(view) if view is not None else None

        cached = seen.channel.cached_answers.get((build, seen.source))
        if cached is None:
            cached = seen.channel.cached_answers.setdefault(
                (build, seen.source), LiveAnswer(seen.channel, make)
            )
        return cast("LiveAnswer[A]", cached)

    def view(self, seen: VisibleChannel) -> SessionView | None:
        """Return the open session of a channel (a contract's live stream); None if it is not live."""
        return open_session(seen, self._universe.products[seen.channel.key.contract.root])
