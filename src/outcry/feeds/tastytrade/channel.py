"""A channel of a dxLink connection: one contract's subscriptions, and the events that come for them.

Rule kept: what its reader does not take in time ends this channel alone, and so does an error that is told of it.
(dxLink WebSocket specification 1.0.2.)
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from outcry.feeds.tastytrade.events import FIELDS, Event, rows_of
from outcry.trades.feed import FeedLost, FeedRefused

#: Events that may wait for a channel's reader.
MOST_WAITING = 200_000

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]


class Channel:
    """A channel of the service `FEED`, read by one stream."""

    def __init__(self, number: int, send: Send) -> None:
        self.number, self._send_on = number, send
        self._fields: dict[str, Sequence[str]] = dict(FIELDS)
        self._waiting: deque[tuple[str, Event]] = deque()
        self._stirred = asyncio.Event()
        self._opened = False
        self.failure: FeedLost | None = None

    async def begin(self, patience_s: float) -> None:
        """Open it and say what is to be sent. Raises `FeedLost`."""
        await self._send({"type": "CHANNEL_REQUEST", "service": "FEED", "parameters": {"contract": "AUTO"}})
        try:
            async with asyncio.timeout(patience_s):
                while not self._opened:
                    await self._stir()
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
        """Subscribe."""
        await self._send({"type": "FEED_SUBSCRIPTION", "add": list(subscriptions)})

    async def remove(self, subscriptions: Sequence[Message]) -> None:
        """End subscriptions."""
        await self._send({"type": "FEED_SUBSCRIPTION", "remove": list(subscriptions)})

    async def take(self, patience_s: float) -> list[tuple[str, Event]]:
        """Everything that came, with its type; empty if nothing does in time. Raises why the channel ended."""
        if not self._waiting:
            try:
                async with asyncio.timeout(patience_s):
                    await self._stir()
            except TimeoutError:
                pass
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    # -- from the connection

    def take_in(self, message: Message) -> None:
        """A message of this channel."""
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
                self._receive(message.get("data"))
            case "ERROR":
                self.end(told_error(message))
            case _:
                pass  # a later version may say more
        self._stirred.set()

    def _receive(self, data: object) -> None:
        if not isinstance(data, list):
            self.end(FeedLost("protocol", "dxLink sent invalid data"))
            return
        try:
            self._waiting.extend(rows_of(cast("list[Any]", data), self._fields))
        except FeedLost as problem:
            self.end(problem)
        except (TypeError, AttributeError):
            self.end(FeedLost("protocol", "dxLink sent unreadable events"))
        if len(self._waiting) > MOST_WAITING:
            self.end(
                FeedLost("seam_overflow", f"more than {MOST_WAITING:,} events were waiting to be processed")
            )

    def end(self, problem: FeedLost) -> None:
        """It has ended, for this reason, unless it had before."""
        self.failure = self.failure or problem
        self._stirred.set()

    async def _stir(self) -> None:
        self._stirred.clear()
        if self.failure is None:
            await self._stirred.wait()
        if self.failure is not None:
            raise type(self.failure)(self.failure.code, str(self.failure))

    async def _send(self, message: Message) -> None:
        await self._send_on({**message, "channel": self.number})


#: What errors mean; of a channel, the vendor's `UNAUTHORIZED` is about what was subscribed.
_ERRORS: Mapping[str, str] = {
    "TIMEOUT": "disconnected",
    "INVALID_MESSAGE": "protocol",
    "BAD_ACTION": "protocol",
}


def told_error(message: Message, *, whole: bool = False) -> FeedLost:
    """What an error of the vendor's means: of a channel, or of the `whole` connection."""
    error = str(message.get("error"))
    if error == "UNAUTHORIZED":
        if whole:
            return FeedLost("login_expired", "the quote token has expired")
        return FeedRefused("not_entitled", "tastytrade has no market data of this contract for this login")
    known = error if error in _ERRORS or error in ("UNKNOWN", "UNSUPPORTED_PROTOCOL") else "an error"
    return FeedLost(_ERRORS.get(error, "vendor_error"), f"dxLink reported {known}")
