"""Metrics in the text format of Prometheus. The text is built when Prometheus reads it."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from outcry.http.metrics import BOUNDS_S, Metrics, Tally


def exposition(metrics: Metrics) -> bytes:
    """Return all metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(metrics))
    return generate_latest(registry)


class _MetricsCollector(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as objects of Prometheus's client library."""
        requests = CounterMetricFamily(
            "outcry_http_requests", "Requests answered.", labels=("route", "status", "tier")
        )
        by_route: dict[str, Tally] = {}
        for (route, status, tier), tally in list(self._metrics.tallies.items()):
            requests.add_metric((route, str(status), tier), tally.count)
            total = by_route.setdefault(route, Tally())
            total.buckets = [a + b for a, b in zip(total.buckets, tally.buckets, strict=True)]
            total.sum_ns += tally.sum_ns
        yield requests
        yield _latency(by_route)
        refusals = CounterMetricFamily(
            "outcry_limiter_refusals", "Requests refused for being over the limit.", labels=("tier",)
        )
        for tier, count in list(self._metrics.refusals.items()):
            refusals.add_metric((tier,), count)
        yield refusals
        for name, text, read in self._metrics.gauges:
            yield GaugeMetricFamily(name, text, value=read())
        for name, text, label, counts in self._metrics.counters:
            family = CounterMetricFamily(name, text, labels=(label,))
            for value, count in list(counts().items()):
                family.add_metric((value,), count)
            yield family


def _latency(by_route: dict[str, Tally]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        "outcry_http_request_seconds",
        "Time to answer, from the parsed request to the last byte.",
        labels=("route",),
    )
    for route, tally in by_route.items():
        running, buckets = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), tally.buckets, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric((route,), buckets, sum_value=tally.sum_ns / 1e9)
    return family
