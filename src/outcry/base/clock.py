"""The present time. Most functions take times as arguments; only objects that `app` builds read a clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of the present time."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The clock of the machine."""

    now_ns = staticmethod(time.time_ns)  # noqa: TID251 - the one place that reads the present time
