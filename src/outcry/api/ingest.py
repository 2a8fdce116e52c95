"""`POST /api/ingest?feed=NAME`: receive the events of a feed that another process pushes.

`trades.push_format` defines the body. Only a key created for pushing may push, and only as its owner. A refused push
stores nothing. The service answers (`{"next": n}`, the number of the next event) only after it has accepted the events,
so a client cannot send faster than the service reads. The rate limit does not count pushes. Instead, a key may have
only a few pushes in progress at a time, and only one of each feed and contract.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from outcry.access.licences import OPERATOR, Scope
from outcry.access.limiter import Verdict
from outcry.api.parameters import read_query
from outcry.base.errors import Occupied, ServiceError
from outcry.http.auth import Caller
from outcry.http.edge import Edge, Receive, Reply
from outcry.http.errors import JSON_TYPE, UNAVAILABLE, method_not_allowed, problem_of, wrong_key
from outcry.http.requests import Request
from outcry.trades.push_format import MEDIA_TYPE, MOST_BODY_BYTES, Intake, Push, read_push, refused

PATH = "/api/ingest"
#: Maximum pushes in progress per key. Bounds the memory that one key can use.
MOST_AT_ONCE = 4
_NAMES = frozenset(("feed",))
_LARGE = 64 * 1024  # bytes above which a thread parses the body, so that the event loop is not blocked


class ClientGone(Exception):
    """The client disconnected before the answer."""


class Ingest:
    """Answers requests that push feed events. `intake`: receives the events."""

    def __init__(self, edge: Edge, intake: Intake) -> None:
        self._edge = edge
        self._intake = intake
        self._under_way: Counter[str] = Counter()

    def counts(self, caller: Caller) -> bool:
        """Return whether the rate limit counts a caller's push.

        It counts all pushes except those with a key created for pushing.
        """
        return caller.role == "read"

    async def reply(
        self, request: Request, receive: Receive, caller: Caller, verdict: Verdict, *, current: bool
    ) -> Reply:
        """Receive the push of an authenticated caller. `current`: whether keys were checked within the last second."""
        edge = self._edge
        if caller.role == "read":
            return edge.refuse(request, PATH, caller, verdict, wrong_key("ingest"))
        if request.method != "POST":
            problem = method_not_allowed(("POST",), "method_not_allowed.post")
            return edge.refuse(request, PATH, caller, verdict, problem)
        if not current or caller.scope is None:
            return edge.refuse(request, PATH, caller, verdict, UNAVAILABLE)
        try:
            taken = await self._admitted(request, receive, caller, caller.scope)
            usage = await self._intake.usage(owner_of(caller, caller.scope))
        except ServiceError as error:
            return edge.refuse(request, PATH, caller, verdict, problem_of(error))
        except ClientGone:
            return edge.refuse(request, PATH, caller, verdict, UNAVAILABLE)
        body = msgspec.json.encode({"next": taken} | ({"quota": usage} if usage and usage.is_near else {}))
        headers = [
            (b"content-type", JSON_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        return Reply(200, headers, body, PATH, caller, verdict)

    async def _admitted(self, request: Request, receive: Receive, caller: Caller, scope: Scope) -> int:
        if self._under_way[caller.subject] >= MOST_AT_ONCE:
            raise Occupied("rate_limited.ingest", retry_after_ms=500)
        self._under_way[caller.subject] += 1
        try:
            return await self._take(request, receive, owner_of(caller, scope))
        finally:
            self._under_way[caller.subject] -= 1
            if not self._under_way[caller.subject]:
                del self._under_way[caller.subject]

    async def _take(self, request: Request, receive: Receive, owner: int) -> int:
        feed = read_query(request.query, _NAMES).get("feed", "")
        body = await _body(request, receive)
        push = await self._read(body)
        taking = asyncio.ensure_future(self._intake.take(owner, feed, push))
        # Cancel the push if the client disconnects: it may repeat the same push at once, which must not be refused.
        hanging_up = asyncio.ensure_future(_hung_up(receive))
        try:
            await asyncio.wait((taking, hanging_up), return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                raise ClientGone
            return taking.result()
        finally:
            for task in (taking, hanging_up):
                task.cancel()
                with suppress(asyncio.CancelledError, ServiceError):
                    await task

    async def _read(self, body: bytes) -> Push:
        universe, now_ns = self._intake.universe, self._edge.clock.now_ns()
        if len(body) < _LARGE:
            return read_push(body, universe, now_ns)
        return await asyncio.to_thread(read_push, body, universe, now_ns)


def owner_of(caller: Caller, scope: Scope) -> int:
    """Return the user id of the owner of the feed that a key may push."""
    return OPERATOR if caller.role == "ingest-operator" else scope.user_id


async def _body(request: Request, receive: Receive) -> bytes:
    """Read the body of a push, up to the maximum size. Raises `InvalidRequest` and `ClientGone`."""
    headers: dict[bytes, bytes] = dict(request.scope["headers"])
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != MEDIA_TYPE.encode():
        raise refused("media_type")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MOST_BODY_BYTES:
        raise refused("too_large")
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message: Any = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > MOST_BODY_BYTES:
            raise refused("too_large")
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
