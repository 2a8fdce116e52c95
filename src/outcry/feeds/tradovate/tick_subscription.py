"""A subscription to ticks and its unread events."""

from dataclasses import dataclass

from outcry.feeds.inbox import Inbox
from outcry.trades.feed import Event


class HistoryEnd:
    """Marks the end of history in a subscription's events."""


HISTORY_END = HistoryEnd()


@dataclass(eq=False, slots=True)
class TickSubscription:
    """A subscription to ticks: its unread events and the ids of its packets.

    `number` is the contract's id if the subscription also receives its quotes.
    """

    inbox: Inbox[Event | HistoryEnd]
    numbers: frozenset[int] = frozenset()
    history: bool = True
    number: int | None = None
