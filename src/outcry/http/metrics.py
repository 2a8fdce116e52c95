"""Prometheus metrics of the service.

Counting a request costs two additions, and a bisection if it was slow. The exposition is built when it is read. Labels
are route templates, statuses and tiers, never an IP address, a symbol or a key.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_BOUNDS_S = (
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
_BOUNDS_NS = tuple(round(bound * 1e9) for bound in _BOUNDS_S)
_FIRST_NS = _BOUNDS_NS[0]


class Tally:
    """Latency histogram of one route, status and tier."""

    __slots__ = ("buckets", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        self.sum_ns = 0

    def add(self, took_ns: int) -> None:
        """Count one request with its duration."""
        self.buckets[0 if took_ns <= _FIRST_NS else bisect_left(_BOUNDS_NS, took_ns)] += 1
        self.sum_ns += took_ns

    @property
    def count(self) -> int:
        """Number of requests counted in the histogram."""
        return sum(self.buckets)


class Metrics(Collector):
    """All metrics of the service: latency histograms, and gauges and counters that are read on demand."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, int, str], Tally] = {}
        self._gauges: list[tuple[str, str, Callable[[], float]]] = []
        self._counters: list[tuple[str, str, str, Callable[[], Mapping[str, int]]]] = []
        self.refusals: dict[str, int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def tally(self, route: str, status: int, tier: str) -> Tally:
        """Return the latency histogram for a route, status and tier."""
        place = (route, status, tier)
        found = self._tallies.get(place)
        if found is None:
            found = self._tallies[place] = Tally()
        return found

    def refuse(self, tier: str) -> None:
        """Count a request refused by the limiter."""
        self.refusals[tier] = self.refusals.get(tier, 0) + 1

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Register a gauge; `read` returns its value."""
        self._gauges.append((name, text, read))

    def counter(self, name: str, text: str, label: str, read: Callable[[], Mapping[str, int]]) -> None:
        """Register a counter with one label; `read` returns its values."""
        self._counters.append((name, text, label, read))

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics in the form that Prometheus's library expects."""
        requests = CounterMetricFamily(
            "outcry_http_requests", "Requests answered.", labels=("route", "status", "tier")
        )
        by_route: dict[str, Tally] = {}
        for (route, status, tier), tally in list(self._tallies.items()):
            requests.add_metric((route, str(status), tier), tally.count)
            total = by_route.setdefault(route, Tally())
            total.buckets = [a + b for a, b in zip(total.buckets, tally.buckets, strict=True)]
            total.sum_ns += tally.sum_ns
        yield requests
        yield _latency(by_route)
        refusals = CounterMetricFamily(
            "outcry_limiter_refusals", "Requests refused for being over the limit.", labels=("tier",)
        )
        for tier, count in list(self.refusals.items()):
            refusals.add_metric((tier,), count)
        yield refusals
        for name, text, read in self._gauges:
            yield GaugeMetricFamily(name, text, value=read())
        for name, text, label, counts in self._counters:
            family = CounterMetricFamily(name, text, labels=(label,))
            for value, count in list(counts().items()):
                family.add_metric((value,), count)
            yield family

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def _latency(by_route: dict[str, Tally]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        "outcry_http_request_seconds",
        "Time to answer, from the parsed request to the last byte.",
        labels=("route",),
    )
    for route, tally in by_route.items():
        running, buckets = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), tally.buckets, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric((route,), buckets, sum_value=tally.sum_ns / 1e9)
    return family
