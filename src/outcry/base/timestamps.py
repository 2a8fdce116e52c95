"""Timestamps as text for programs."""

from datetime import UTC, datetime
from functools import lru_cache

_NS_PER_SECOND, _NS_PER_MS = 1_000_000_000, 1_000_000


def iso_timestamp(at_ns: int) -> str:
    """Format a time (ns UTC) as `2026-01-02T15:04:05.123Z`."""
    return f"{_second(at_ns // _NS_PER_SECOND)}.{at_ns % _NS_PER_SECOND // _NS_PER_MS:03d}Z"


@lru_cache(1024)  # live answers have the time of the newest trade, so many times lie within the same second
def _second(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%S}"
