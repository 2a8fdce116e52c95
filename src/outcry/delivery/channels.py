"""The channels of delivery: a sender for each kind of target, and the guarded HTTP client that most of them share.

They load when the first message is sent or the first URL is checked, because they import an HTTP client, a DNS client
and templates, and read the system's certificate authorities. Decision record 0060.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outcry.base.deferred import Deferred
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import Message
from outcry.delivery.sender import Sender, SendResult

if TYPE_CHECKING:
    from outcry.delivery.egress import Egress


@dataclass(frozen=True, slots=True)
class Channels:
    """Senders by target, and the HTTP client."""

    senders: Mapping[Target, Sender]
    egress: "Egress"


class DeferredChannels:
    """Channels that load in a thread when they are first used. Used on the event loop."""

    def __init__(self, load: Callable[[], Channels]) -> None:
        self._channels = Deferred(load)

    def sender(self, target: Target) -> Sender:
        """Return the sender of a target, which loads the channels with its first message."""
        return _DeferredSender(self._channels, target)

    async def check(self, url: str) -> str:
        """Check a webhook URL, as `Egress.check` does."""
        channels = await self._channels.loaded()
        return await channels.egress.check(url)

    async def close(self) -> None:
        """Close all connections."""
        if self._channels.if_built is not None:
            await self._channels.if_built.egress.close()


class _DeferredSender:
    def __init__(self, channels: Deferred[Channels], target: Target) -> None:
        self._channels, self._target = channels, target

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        channels = await self._channels.loaded()
        return await channels.senders[self._target].send(message, address, secrets)
