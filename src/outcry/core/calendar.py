"""Sessions as data: which session an instant belongs to, and which there were. (Skeleton: the owner fills it.)"""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum


class SessionKind(StrEnum):
    """The product's regular hours, or everything between them."""

    RTH = "rth"
    ETH = "eth"


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a product. `segments`: half-open windows (ns UTC) in order, without the maintenance break;
    `short`: the close was brought forward."""

    root: str
    trade_date: date
    kind: SessionKind
    segments: tuple[tuple[int, int], ...]
    short: bool

    @property
    def open_ns(self) -> int:
        """Start of the first segment."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """End of the last segment, not included."""
        return self.segments[-1][1]
