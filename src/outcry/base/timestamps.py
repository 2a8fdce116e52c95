"""Timestamps as text for programs."""

from datetime import UTC, datetime

_NS_PER_SECOND, _NS_PER_MS = 1_000_000_000, 1_000_000


def iso_timestamp(at_ns: int) -> str:
    """Format a time (ns UTC) as `2026-01-02T15:04:05.123Z`."""
    whole = datetime.fromtimestamp(at_ns // _NS_PER_SECOND, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{at_ns % _NS_PER_SECOND // _NS_PER_MS:03d}Z"
