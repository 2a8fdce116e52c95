"""Sends the queues of a spool to a service until all events are accepted.

The sender retries an unavailable service with growing pauses. A slow queue does not delay the others. The user sees the
service's last answer (`ServiceStatus`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from outcry.agent.sender import PushQueue, RetryLater
from outcry.agent.spooled_queue import SpooledQueue
from outcry.base.backoff import Backoff
from outcry.base.tasks import is_set_within
from outcry.client.errors import ApiError
from outcry.live.model import StreamKey
from outcry.trades.push_format import KEEP_ALIVE_S

#: Shortest interval between two pushes of a queue.
PACE_S = 0.1
FIRST_PAUSE_S = 0.2
#: Pause after a refusal that a retry alone does not resolve.
REFUSED_PAUSE_S = 30.0
#: Pause after another run has replaced ours, so that two agents with one key do not replace each other in a loop.
REPLACED_PAUSE_S = 1.0
#: Answers of a service for a run that has ended: a new run continues from it.
_RUN_OVER = frozenset({"replaced", "disconnected", "closed", "hole"})


class PushTransport(Protocol):
    """Interface of a transport for pushes to a service, for one event loop."""

    @property
    def longest_pause_s(self) -> float:
        """Longest pause (s) before an unanswered push is sent again."""
        ...

    async def attempt(self, key: StreamKey, queue: PushQueue) -> RetryLater | None:
        """Send the next push of a queue once; return None if there was progress.

        Raises `ApiError` for a refusal that a retry does not resolve.
        """
        ...

    def close(self) -> None:
        """Close the connections; pushes in progress end without an answer."""
        ...


@dataclass(slots=True)
class ServiceStatus:
    """Result of the last contact with the service, for display.

    code: `ok`, `service_unreachable`, `fault` (an error on our side) or the service's refusal code. text: details.
    """

    code: str = "connecting"
    text: str = ""


class SpoolSender:
    """Sends the queues of a spool to a service.

    transport: sends the pushes. changed: called when `service`, the result of the last contact with the service,
    changes. speedup: factor by which pauses are shortened.
    """

    def __init__(self, transport: PushTransport, changed: Callable[[], object], speedup: float = 1.0) -> None:
        self._transport, self._speedup, self._changed = transport, speedup, changed
        self.service = ServiceStatus()
        #: The service's refusal code of each refused queue.
        self.refused: dict[StreamKey, str] = {}
        #: Queues whose last push got no answer.
        self._unanswered: set[StreamKey] = set()

    async def send_continuously(self, key: StreamKey, queue: SpooledQueue, added: asyncio.Event) -> None:
        """Send the events of a queue as they arrive, until cancelled. `added`: set when there are new events."""
        backoff = Backoff(self._speedup, FIRST_PAUSE_S, self._transport.longest_pause_s)
        while True:
            if not queue.waiting:
                await is_set_within(added, KEEP_ALIVE_S / self._speedup)
            added.clear()
            if not queue.end:
                continue  # the stream never had an event, so it needs no keep-alive push
            pause_s = await self.send(key, queue)
            if pause_s is None:
                backoff.reset()
                await asyncio.sleep(PACE_S / self._speedup)
            else:
                await asyncio.sleep(max(pause_s / self._speedup, backoff.next_s()))

    async def send(self, key: StreamKey, queue: SpooledQueue) -> float | None:
        """Send one push of a queue; return None if there was progress, else the pause (s)."""
        try:
            later = await self._transport.attempt(key, queue)
        except ApiError as problem:
            return self._refusal(key, queue, problem)
        except Exception as problem:  # noqa: BLE001 - a supervisor: one queue's fault does not affect others
            self.refused[key] = "fault"
            self._set_status("fault", repr(problem))
            return REFUSED_PAUSE_S
        if later is None:
            self.refused.pop(key, None)
            self._answered(key)
            return None
        if isinstance(later.problem, ApiError):
            self.refused[key] = _code(later.problem)
            self._answered(key)
        else:
            self._unanswered.add(key)
            self._set_status("service_unreachable", str(later.problem))
        return later.pause_s

    def _refusal(self, key: StreamKey, queue: SpooledQueue, problem: ApiError) -> float:
        code = _code(problem)
        if code in _RUN_OVER:
            queue.renew()
            return REPLACED_PAUSE_S if code == "replaced" else 0.0
        if problem.status in {401, 403}:
            self._set_status(code, str(problem))
        else:
            self.refused[key] = code
            self._answered(key)
        return REFUSED_PAUSE_S

    def _answered(self, key: StreamKey) -> None:
        self._unanswered.discard(key)
        if not self._unanswered:
            self._set_status("ok", "")

    def is_answering(self, key: StreamKey) -> bool:
        """Return whether the service answered the last push of a queue."""
        return key not in self._unanswered and self.service.code in {"ok", "service_unreachable"}

    def forget(self, key: StreamKey) -> None:
        """Forget the status of a queue that will not be sent any more."""
        self.refused.pop(key, None)
        self._unanswered.discard(key)

    def _set_status(self, code: str, text: str) -> None:
        text = "".join(sign for sign in text if sign.isprintable())[:200]
        if (self.service.code, self.service.text) != (code, text):
            self.service.code, self.service.text = code, text
            self._changed()

    def close(self) -> None:
        """Close the connections; pushes in progress end without an answer."""
        self._transport.close()


def _code(problem: ApiError) -> str:
    """Return the code of a refusal, or `refused` if the service sent an invalid one."""
    reason = problem.body.get("reason", problem.code)
    return reason[:40] if isinstance(reason, str) and reason.isprintable() else "refused"
