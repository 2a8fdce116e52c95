"""Send a feed's events to the process that owns the stream, by calls over the message bus (NATS)."""

from outcry.access.licences import OPERATOR
from outcry.agent.sender import PushQueue, RetryLater, record_result
from outcry.base.errors import InvalidRequest, Occupied, ServiceError
from outcry.client.errors import ApiError, Unreachable
from outcry.cluster.stream_owner.client import StreamOwnerClient
from outcry.live.model import StreamKey
from outcry.trades.push_format import Origin

#: HTTP status codes of refusals, because queues decide by status whether to retry.
_STATUS: dict[type[ServiceError], int] = {InvalidRequest: 422, Occupied: 429}


class BusTransport:
    """Sends batches of feed events by calls over the message bus. Implements `PushTransport`.

    The process that runs a feed need not be the one that computes its levels. A user's connection runs in the process
    that owns the connection's partition; the operator's feed runs in the first process that starts.
    """

    #: A call is cheap, and the next owner is available within about two seconds.
    longest_pause_s = 0.4

    def __init__(self, owners: StreamOwnerClient) -> None:
        self._owners = owners

    async def attempt(self, key: StreamKey, queue: PushQueue) -> RetryLater | None:
        """Send the next push of a queue to the process that owns its stream, once.

        Return None if the owner accepted events, else the reason and the pause before a retry.
        """
        push = queue.push()
        origin = Origin.PROCESS if key.owner == OPERATOR else Origin.RUNNER
        answer: int | ApiError | Unreachable
        try:
            answer = await self._owners.push(key.owner, key.feed, push, origin)
        except ServiceError as problem:
            status = _STATUS.get(type(problem))
            if status is None:
                answer = Unreachable("the owner of the stream cannot be reached")
            else:
                answer = ApiError(problem.code, status, problem.message_id, "", problem.details)
        return record_result(queue, push, answer, "the owner of the stream")

    def close(self) -> None:
        """Do nothing: calls leave no open connection."""
