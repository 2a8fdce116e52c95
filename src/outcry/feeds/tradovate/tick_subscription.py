"""A subscription to ticks and its unread events."""

from dataclasses import dataclass

from outcry.feeds.inbox import Inbox
from outcry.trades.feed import Event


class HistoryEnd:
    """Marker in a subscription's events: all earlier events are history, all later ones are live."""


HISTORY_END = HistoryEnd()


@dataclass(eq=False, slots=True)
class TickSubscription:
    """A subscription to a contract's ticks: its unread events and the ids of its packets.

    `number`: the vendor's id of the contract, set if the subscription also receives the contract's quotes.
    """

    inbox: Inbox[Event | HistoryEnd]
    numbers: frozenset[int] = frozenset()
    history: bool = True
    number: int | None = None
