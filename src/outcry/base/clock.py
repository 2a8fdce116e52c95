"""The interface of clocks.

Functions take the time as an argument; only the composition of the application has a clock.
"""

from typing import Protocol


class Clock(Protocol):
    """A source of the current time."""

    def now_ns(self) -> int:
        """Return nanoseconds since 1970-01-01 UTC."""
        ...
