"""A dxLink channel: the subscriptions of one contract and the events received for them.

If a reader falls behind or the vendor reports an error for a channel, only this channel ends (dxLink WebSocket
specification 1.0.2).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from outcry.feeds.tastytrade.events import FIELDS, Event, rows_of
from outcry.trades.feed import FeedLost, FeedRefused

#: Maximum events waiting for a channel's reader.
MAX_WAITING = 200_000

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]


class FeedChannel:
    """A channel of the dxLink service `FEED`, read by one stream."""

    def __init__(self, number: int, send: Send) -> None:
        self.number, self._send_on = number, send
        self._fields: dict[str, Sequence[str]] = dict(FIELDS)
        self._waiting: deque[tuple[str, Event]] = deque()
        self._changed = asyncio.Event()
        self._opened = False
        self.failure: FeedLost | None = None

    async def start(self, patience_s: float) -> None:
        """Open the channel and configure its fields. Raises `FeedLost`."""
        await self._send({"type": "CHANNEL_REQUEST", "service": "FEED", "parameters": {"contract": "AUTO"}})
        try:
            async with asyncio.timeout(patience_s):
                while not self._opened:
                    await self._wait_for_change()
        except TimeoutError:
            raise FeedLost("vendor_error", "dxLink did not open a channel") from None
        await self._send(
            {
                "type": "FEED_SETUP",
                "acceptAggregationPeriod": 0,
                "acceptDataFormat": "COMPACT",
                "acceptEventFields": {kind: list(names) for kind, names in FIELDS.items()},
            }
        )

    async def add(self, subscriptions: Sequence[Message]) -> None:
        """Subscribe the channel to more events."""
        await self._send({"type": "FEED_SUBSCRIPTION", "add": list(subscriptions)})

    async def remove(self, subscriptions: Sequence[Message]) -> None:
        """Unsubscribe the channel from events."""
        await self._send({"type": "FEED_SUBSCRIPTION", "remove": list(subscriptions)})

    async def take(self, patience_s: float) -> list[tuple[str, Event]]:
        """Return all waiting events with their types; empty after `patience_s` seconds without any.

        Raises the error that ended the channel.
        """
        if not self._waiting:
            try:
                async with asyncio.timeout(patience_s):
                    await self._wait_for_change()
            except TimeoutError:
                pass
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    # -- from the connection

    def receive(self, message: Message) -> None:
        """Process a received message of this channel."""
        match message.get("type"):
            case "CHANNEL_OPENED":
                self._opened = True
            case "CHANNEL_CLOSED":
                self.end(FeedLost("disconnected", "dxLink closed the channel"))
            case "FEED_CONFIG":
                fields = message.get("eventFields")
                if isinstance(fields, dict):
                    self._fields |= cast("dict[str, list[str]]", fields)
            case "FEED_DATA":
                self._read_data(message.get("data"))
            case "ERROR":
                self.end(error_of(message))
            case _:
                pass  # a message of a later protocol version
        self._changed.set()

    def _read_data(self, data: object) -> None:
        if not isinstance(data, list):
            self.end(FeedLost("protocol", "dxLink sent invalid data"))
            return
        try:
            self._waiting.extend(rows_of(cast("list[Any]", data), self._fields))
        except FeedLost as problem:
            self.end(problem)
        except (TypeError, AttributeError):
            self.end(FeedLost("protocol", "dxLink sent unreadable events"))
        if len(self._waiting) > MAX_WAITING:
            self.end(
                FeedLost("seam_overflow", f"more than {MAX_WAITING:,} events were waiting to be processed")
            )

    def end(self, problem: FeedLost) -> None:
        """End the channel with an error. After the first error, further ones are ignored."""
        self.failure = self.failure or problem
        self._changed.set()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        if self.failure is None:
            await self._changed.wait()
        if self.failure is not None:
            raise type(self.failure)(self.failure.code, str(self.failure))

    async def _send(self, message: Message) -> None:
        await self._send_on({**message, "channel": self.number})


#: Our codes of dxLink errors.
_ERRORS: Mapping[str, str] = {
    "TIMEOUT": "disconnected",
    "INVALID_MESSAGE": "protocol",
    "BAD_ACTION": "protocol",
}


def error_of(message: Message, *, whole: bool = False) -> FeedLost:
    """Return the error for a vendor's `ERROR` message of a channel, or of the `whole` connection."""
    error = str(message.get("error"))
    if error == "UNAUTHORIZED":
        if whole:
            return FeedLost("login_expired", "the quote token has expired")
        return FeedRefused("not_entitled", "tastytrade has no market data of this contract for this login")
    known = error if error in _ERRORS or error in ("UNKNOWN", "UNSUPPORTED_PROTOCOL") else "an error"
    return FeedLost(_ERRORS.get(error, "vendor_error"), f"dxLink reported {known}")
