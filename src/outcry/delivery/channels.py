"""The delivery channels: a sender for each kind of target, such as Slack, and the HTTP client that most senders share.

The channels load when the first message is sent or the first URL is checked. Loading takes time: it imports an HTTP
client, a DNS client and templates, and reads the system's certificate authorities. Decision record 0060.
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
    """The senders by kind of target, and the HTTP client they share."""

    senders: Mapping[Target, Sender]
    egress: "Egress"


class DeferredChannels:
    """Delivery channels that load in a thread when they are first used. Call the methods on the event loop."""

    def __init__(self, load: Callable[[], Channels]) -> None:
        self._channels = Deferred(load)

    def sender(self, target: Target) -> Sender:
        """Return the sender for a kind of target. Its first message loads the channels."""
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
