"""Counts and measures requests for the metrics that `http.exposition` shows.

Counting a request costs two additions, and a bisection if the request was slow. Labels are route templates, statuses
and tiers, never an IP address, a symbol or a key.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping

BOUNDS_S = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
)
_BOUNDS_NS = tuple(round(bound * 1e9) for bound in BOUNDS_S)
FIRST_NS = _BOUNDS_NS[0]


class Tally:
    """Latency histogram for one route, status and tier.

    This class is not compiled, because `responder.c` reads its slots in memory.
    """

    __slots__ = ("buckets", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        self.sum_ns = 0

    def add(self, took_ns: int) -> None:
        """Count one request. took_ns: its duration."""
        self.buckets[0 if took_ns <= FIRST_NS else bisect_left(_BOUNDS_NS, took_ns)] += 1
        self.sum_ns += took_ns

    @property
    def count(self) -> int:
        """Number of requests counted in the histogram."""
        return sum(self.buckets)


class Metrics:
    """All metrics of the service: latency histograms, and gauges and counters whose values are read when needed."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, int, str], Tally] = {}
        self.gauges: list[tuple[str, str, Callable[[], float]]] = []
        self.counters: list[tuple[str, str, str, Callable[[], Mapping[str, int]]]] = []
        self.refusals: dict[str, int] = {}

    def tally(self, route: str, status: int, tier: str) -> Tally:
        """Return the latency histogram for a route, status and tier."""
        place = (route, status, tier)
        found = self.tallies.get(place)
        if found is None:
            found = self.tallies[place] = Tally()
        return found

    def refuse(self, tier: str) -> None:
        """Count a request refused by the limiter."""
        self.refusals[tier] = self.refusals.get(tier, 0) + 1

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Register a gauge (a value that goes up and down). text: its description; read: returns its value."""
        self.gauges.append((name, text, read))

    def counter(self, name: str, text: str, label: str, read: Callable[[], Mapping[str, int]]) -> None:
        """Register a counter that has one label.

        text: its description; read: returns its value by value of the label.
        """
        self.counters.append((name, text, label, read))
