"""Push feed events over HTTP to a remote service, with an API key.

Each push waits for its answer on its own thread, so a slow service does not block the event loop.
"""

import asyncio
import ssl
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from outcry.agent.sender import LONGEST_PAUSE_S, PushQueue, RetryLater, Sender
from outcry.live.model import StreamKey

#: Number of concurrent pushes. The service allows one more for each key.
MAX_SENDERS = 3


@dataclass(frozen=True, slots=True)
class ServiceEndpoint:
    """The service to push to.

    url: base URL of the service. key: an API key for pushing. trust: trusted CAs for TLS, the system's if None.
    """

    url: str
    key: str = field(repr=False)
    trust: ssl.SSLContext | None = None


class HttpTransport:
    """Implements `PushTransport` over HTTP. The API key identifies the owner of the feeds."""

    longest_pause_s = LONGEST_PAUSE_S

    def __init__(self, service: ServiceEndpoint) -> None:
        self._senders = [Sender(service.url, service.key, trust=service.trust) for _ in range(MAX_SENDERS)]
        self._free: asyncio.Queue[Sender] = asyncio.Queue()
        for sender in self._senders:
            self._free.put_nowait(sender)
        self._pool = ThreadPoolExecutor(MAX_SENDERS, "outcry-push")

    async def attempt(self, key: StreamKey, queue: PushQueue) -> RetryLater | None:
        """Send the next push of a queue once, as soon as a connection is free. Return None if there was progress."""
        sender = await self._free.get()
        loop = asyncio.get_running_loop()

        def done(_: Future[RetryLater | None]) -> None:
            with suppress(RuntimeError):  # the loop is closed, so no push waits for a sender
                loop.call_soon_threadsafe(self._free.put_nowait, sender)

        pushed = self._pool.submit(_attempt, sender, key.feed, queue)
        pushed.add_done_callback(done)
        return await asyncio.wrap_future(pushed)

    def close(self) -> None:
        """Abort pushes in progress and close the connections."""
        for sender in self._senders:
            sender.abort()
        self._pool.shutdown(cancel_futures=True)
        for sender in self._senders:
            sender.close()


def _attempt(sender: Sender, feed: str, queue: PushQueue) -> RetryLater | None:
    pause_s = sender.attempt(feed, queue)
    return None if pause_s is None else RetryLater(sender.problem, pause_s)
