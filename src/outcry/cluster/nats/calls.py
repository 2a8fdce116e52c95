"""Calls between processes over NATS: a request, and the reply of the one process that registered the name.

The caller learns at once if no process has registered the name, or if that process has just ended.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

import msgspec
from nats.aio.msg import Msg

from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks
from outcry.cluster.calls import Answerer, BusDown, CallRefused, NobodyServes
from outcry.cluster.nats.link import Link, bus_errors
from outcry.cluster.nats.subscribing import subscribed

_REQUESTS, _NOTICES = "outcry.ask.", "outcry.tell."
_HEADER = "Outcry-Answer"


class _Kind(StrEnum):
    """Replies to a call other than an answer: the process refuses the call, or has just ended."""

    REFUSED = "refused"
    GONE = "gone"


class NatsCalls:
    """Calls and notifications between processes, on one event loop. Names are words with dots, such as `push.17`."""

    def __init__(self, link: Link, report: Report) -> None:
        self._link, self._report = link, report

    async def ask(self, name: str, body: bytes, timeout_s: float) -> bytes:
        """Send a request to the process that registered a name, and return its answer.

        Raises `NobodyServes` at once if no process has registered the name, `BusDown` after the timeout or if the bus
        is unavailable, and `CallRefused` if the process refuses the request. A request that exceeds the server's
        message size is refused as `too_long_for_bus`.
        """
        if self._link.connected and len(body) > self._link.max_bytes:
            raise CallRefused("too_long_for_bus", {"bytes": len(body), "most_bytes": self._link.max_bytes})
        answer = await self._link.request(_REQUESTS + name, body, timeout_s)
        match (answer.headers or {}).get(_HEADER):
            case _Kind.REFUSED:
                code, details = msgspec.json.decode(answer.data, type=tuple[str, dict[str, object]])
                raise CallRefused(code, details)
            case _Kind.GONE:
                raise NobodyServes(f"who served {name} has ended")
            case _:
                return answer.data

    @asynccontextmanager
    async def serve(self, name: str, answer: Answerer) -> AsyncGenerator[None]:
        """Answer calls to a name until the block ends. Calls without an answer by then fail with `NobodyServes`."""
        tasks, under_way = BackgroundTasks(self._report), dict[asyncio.Task[None], Msg]()
        ended = False

        async def take(message: Msg) -> None:
            if ended:
                await self._reply(message, b"", _Kind.GONE)
                return
            task = tasks.start(name, self._answer(name, answer, message))
            under_way[task] = message
            task.add_done_callback(under_way.pop)

        async with subscribed(self._link, _REQUESTS + name, take):
            try:
                yield
            finally:
                ended = True
                unanswered = list(under_way.items())
                await tasks.stop()
                for task, message in unanswered:
                    if task.cancelled():
                        await self._reply(message, b"", _Kind.GONE)

    async def tell(self, name: str, body: bytes) -> None:
        """Notify every process that listens to a name.

        The notification is lost if the bus is unavailable or no process listens.
        """
        with suppress(BusDown), bus_errors():
            await self._link.client.publish(_NOTICES + name, body)

    @asynccontextmanager
    async def listen(self, name: str, on_message: Callable[[bytes], None]) -> AsyncGenerator[None]:
        """Call `on_message` with each notification of a name, until the block ends."""

        async def take(message: Msg) -> None:
            on_message(message.data)

        async with subscribed(self._link, _NOTICES + name, take):
            yield

    async def _answer(self, name: str, answer: Answerer, message: Msg) -> None:
        try:
            reply = await answer(message.data)
        except CallRefused as refusal:
            await self._refuse(message, refusal)
        except Exception as problem:  # noqa: BLE001 - a supervisor: one call's fault does not affect others
            self._report(LogEvent.CALL_FAILED, call=name, problem=repr(problem))
            await self._refuse(message, CallRefused("fault"))
        else:
            if len(reply) > self._link.max_bytes:
                self._report(LogEvent.CALL_REPLY_TOO_LARGE, call=name, size_bytes=len(reply))
                await self._refuse(message, CallRefused("fault"))
            else:
                await self._reply(message, reply)

    async def _refuse(self, message: Msg, refusal: CallRefused) -> None:
        await self._reply(message, msgspec.json.encode((refusal.code, refusal.details)), _Kind.REFUSED)

    async def _reply(self, message: Msg, body: bytes, kind: _Kind | None = None) -> None:
        with suppress(BusDown), bus_errors():  # the caller's timeout detects a lost reply
            await self._link.client.publish(
                message.reply, body, headers=None if kind is None else {_HEADER: kind.value}
            )
