"""The port for the present moment. Logic takes the time as an argument; only wiring holds a clock."""

from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC."""
        ...
