"""Timestamps as text for programs."""

from datetime import UTC, datetime
from functools import lru_cache

_NS_PER_SECOND, _NS_PER_MS = 1_000_000_000, 1_000_000


def iso_timestamp(at_ns: int) -> str:
    """Format a time (ns UTC) as `2026-01-02T15:04:05.123Z`."""
    return f"{_second(at_ns // _NS_PER_SECOND)}.{at_ns % _NS_PER_SECOND // _NS_PER_MS:03d}Z"


def exact_timestamp(at_ns: int) -> str:
    """Format a time (ns UTC) with as many decimals as it has: 3, 6 or 9."""
    fraction = f"{at_ns % _NS_PER_SECOND:09d}"
    while len(fraction) > 3 and fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{_second(at_ns // _NS_PER_SECOND)}.{fraction}Z"


@lru_cache(1024)  # live answers have the time of the newest trade, so many times lie within the same second
def _second(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%S}"
