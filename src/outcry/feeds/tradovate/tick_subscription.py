"""A subscription to ticks, and what came of it that its stream has not taken yet."""

from dataclasses import dataclass

from outcry.feeds.inbox import Inbox
from outcry.trades.feed import Event


class HistoryEnd:
    """Between what was history and what is live."""


HISTORY_END = HistoryEnd()


@dataclass(eq=False, slots=True)
class TickSubscription:
    """A subscription to ticks: what came of it, and the numbers its packets have. `number`: the contract's, where its
    quotes are for it too."""

    inbox: Inbox[Event | HistoryEnd]
    numbers: frozenset[int] = frozenset()
    history: bool = True
    number: int | None = None
