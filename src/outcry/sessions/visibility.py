"""Selects the sessions of a product that a scope (what a caller may see) includes, and caches each selection.

A selection is valid until the stored sessions change, or until the scope's owner may see other sessions. Scopes with
the same sessions share one `VisibleSessions`, and everything that is computed from it.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from outcry.access.licences import Scope
from outcry.market.instruments import Product, Universe
from outcry.market.units import NANOS_PER_DAY
from outcry.sessions.session_history import StoredSession
from outcry.sessions.store_model import DamagedSession
from outcry.sessions.visible_sessions import VisibleSessions, visible_to

_MAX_VIEWS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSessions:
    """The stored sessions of one owner and product, as loaded at one time.

    Each reload creates a new object, so caches compare objects by identity to notice that the sessions may have
    changed.
    """

    intact: Sequence[StoredSession]
    damaged: Sequence[DamagedSession]


@dataclass(frozen=True, slots=True)
class _View:
    """A cached selection: the sessions that a caller may see from `since_ns` to before `until_ns` (ns UTC).

    loaded: the stored sessions from which they were selected.
    """

    loaded: Sequence[LoadedSessions]
    since_ns: int
    until_ns: int
    sessions: VisibleSessions

    def is_valid(self, loaded: Sequence[LoadedSessions], now_ns: int) -> bool:
        return self.since_ns <= now_ns < self.until_ns and self.loaded == loaded


def next_midnight(now_ns: int) -> int:
    """Return the end of the UTC day that contains a time (ns UTC)."""
    return (now_ns // NANOS_PER_DAY + 1) * NANOS_PER_DAY


class Visibility:
    """Selects the sessions that a scope may see. Thread-safe."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._views: OrderedDict[tuple[Scope, str], _View] = OrderedDict()
        #: By product, sessions and damaged sessions: views are equal if these are.
        self._shared: WeakValueDictionary[tuple[object, ...], VisibleSessions] = WeakValueDictionary()
        self._lock = threading.Lock()

    def of(
        self, scope: Scope, product: Product, loaded: Sequence[LoadedSessions], now_ns: int
    ) -> tuple[VisibleSessions, int]:
        """Return the loaded sessions that a scope may see, and the time (ns UTC) at which that changes."""
        key = (scope, product.root)
        with self._lock:
            view = self._views.get(key)
            if view is not None and view.is_valid(loaded, now_ns):
                self._views.move_to_end(key)
                return view.sessions, view.until_ns
        view = self._view(scope, product, loaded, now_ns)
        with self._lock:
            self._views[key] = view
            self._views.move_to_end(key)
            while len(self._views) > _MAX_VIEWS:
                self._views.popitem(last=False)
        return view.sessions, view.until_ns

    def _view(self, scope: Scope, product: Product, loaded: Sequence[LoadedSessions], now_ns: int) -> _View:
        seen, next_ns = visible_to(scope, (one for each in loaded for one in each.intact), now_ns)
        damaged = [row for each in loaded for row in each.damaged]
        sessions = VisibleSessions(product, self._universe, seen, damaged)
        with self._lock:
            sessions = self._shared.setdefault((product.root, *seen, *damaged), sessions)
        midnight = next_midnight(now_ns)  # then a one-digit year may name another contract
        until_ns = midnight if next_ns is None else min(midnight, next_ns)
        return _View(loaded, now_ns, until_ns, sessions)
