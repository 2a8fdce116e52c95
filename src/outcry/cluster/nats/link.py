"""The connection to NATS: reconnects in the background, applies a timeout to each request, and creates streams.

A process starts and continues while NATS is unavailable. It logs once that NATS is unavailable, and once that NATS is
back. Errors of the NATS library become `BusDown`, refusals of JetStream (the storage of NATS) `BusRefused`.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from types import TracebackType
from typing import Any, Self

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error, SlowConsumerError
from nats.js import JetStreamContext
from nats.js.errors import APIError

from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks
from outcry.cluster.calls import BusDown, NobodyServes
from outcry.cluster.nats.client import ReconnectingClient

#: Longest wait (s) for JetStream.
ANSWER_S = 5.0
_REPLICAS = 3
_REPLY_BYTES = 256 << 20
_NO_RESPONDERS = "503"
#: JetStream's error codes: no such stream; one with another configuration exists, and cannot be changed to this one.
_NO_STREAM, _OTHER_FORM, _FIXED = 10059, 10058, 10052
#: JetStream's error codes: the number of replicas cannot be placed yet.
_NOT_YET = frozenset({10005, 10023})


class BusRefused(Exception):
    """JetStream refuses the request and would refuse it again. `code` is JetStream's error code."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


@contextmanager
def bus_errors() -> Generator[None]:
    """Convert errors of the NATS library to `BusDown` and `BusRefused` within the block."""
    try:
        yield
    except APIError as problem:
        raise _judged(problem.code or 0, problem.err_code or 0, problem.description or "") from None
    except (Error, OSError, TimeoutError) as problem:
        raise BusDown(str(problem) or type(problem).__name__) from None


class Link:
    """A connection to NATS on the running loop, which reconnects in the background.

    Use it as a context manager. urls: as in `Settings.cluster`; log events omit the names and passwords in
    them. report: writes log events.
    """

    def __init__(self, urls: str, report: Report) -> None:
        self._report = report
        self._client = ReconnectingClient(urls)
        self._up = asyncio.Event()
        self._disconnected = self._reported_few = False
        self._inbox = ""
        self._numbers = count()
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._gathered: dict[str, list[Msg]] = {}
        self._made: set[str] = set()
        self._tasks = BackgroundTasks(report)
        #: Called when the link is lost, and when it is back.
        self.on_lost: list[Callable[[], None]] = []
        self.on_back: list[Callable[[], None]] = []

    # -- lifecycle

    async def __aenter__(self) -> Self:
        self._tasks.start("nats", self._open())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._tasks.stop()
        if self._up.is_set():
            with suppress(Error, OSError, TimeoutError):
                await self._client.flush(1)
        self._up.clear()
        self._fail_waiting()
        await self._client.shut()

    async def _open(self) -> None:
        await self._client.open(self._on_error, self._on_lost, self._on_back)
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(f"{self._inbox}.*", cb=self._on_answer, pending_bytes_limit=_REPLY_BYTES)
        await self._on_back()

    @property
    def connected(self) -> bool:
        """Whether NATS is connected, as far as this process has noticed."""
        return self._up.is_set()

    @property
    def received_at_s(self) -> float:
        """Time of the server's last answer by `time.monotonic`; 0 before the first.

        The link pings the server twice a second.
        """
        return self._client.received_at_s

    async def up(self) -> None:
        """Wait until NATS is connected."""
        await self._up.wait()

    @property
    def client(self) -> ReconnectingClient:
        """The client; its subscriptions survive reconnects. Use it within `bus_errors`.

        Raises `BusDown` before the first connection.
        """
        if not self._inbox:
            raise BusDown("the bus has not been there yet")
        return self._client

    @property
    def jetstream(self) -> JetStreamContext:
        """The library's access to JetStream. Use it within `bus_errors`.

        Raises `BusDown` before the first connection.
        """
        return self.client.jetstream(timeout=ANSWER_S)

    @property
    def max_bytes(self) -> int:
        """Maximum size of a message at the server, headers included."""
        return self._client.max_payload

    # -- requests

    async def request(
        self,
        subject: str,
        body: bytes = b"",
        timeout_s: float = ANSWER_S,
        headers: dict[str, str] | None = None,
    ) -> Msg:
        """Send a request and return the answer.

        Raises `NobodyServes` at once if no process listens to the subject. Raises `BusDown` at once if the link is
        lost, else after `timeout_s` without an answer.
        """
        return await self._request(str(next(self._numbers)), subject, body, timeout_s, headers)

    async def _request(
        self, token: str, subject: str, body: bytes, timeout_s: float, headers: dict[str, str] | None
    ) -> Msg:
        if not self._up.is_set():
            raise BusDown(LogEvent.NATS_DISCONNECTED)
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        try:
            with bus_errors():
                async with asyncio.timeout(timeout_s):
                    await self._client.publish(subject, body, f"{self._inbox}.{token}", headers)
                    return await answer
        finally:
            del self._waiting[token]

    async def requests(self, subject: str, body: bytes, timeout_s: float = ANSWER_S) -> list[Msg]:
        """Send a request that has several answers, and return them without the last message, which only marks the end.

        Raises the errors of `request`.
        """
        token = str(next(self._numbers))
        answers = self._gathered[token] = list[Msg]()
        try:
            answers.append(await self._request(token, subject, body, timeout_s, None))
        finally:
            del self._gathered[token]
        return answers

    async def api(self, name: str, ask: Mapping[str, Any] | None = None, timeout_s: float = ANSWER_S) -> Any:
        """Call JetStream's API, such as `STREAM.INFO.LOG`, and return its answer.

        Raises `BusDown`, `BusRefused`.
        """
        body = b"" if ask is None else msgspec.json.encode(ask)
        try:
            return answered(await self.request(f"$JS.API.{name}", body, timeout_s))
        except BusRefused as problem:
            if problem.code == _NO_STREAM:
                self._made.clear()  # the stream was removed: the next user creates it again
            raise

    async def ensure_stream(self, config: Mapping[str, Any]) -> None:
        """Create a JetStream stream, or change its configuration where possible. Processes may do so concurrently.

        config: JetStream's configuration. The stream gets three replicas, or fewer if there are fewer servers. Raises
        `BusDown`, `BusRefused`.
        """
        name = str(config["name"])
        if name in self._made:
            return
        wanted = {"num_replicas": self._replicas(), **config}
        try:
            known = await self.api(f"STREAM.INFO.{name}")
        except BusRefused as problem:
            if problem.code != _NO_STREAM:
                raise
            known = await self._create(name, wanted)
        differs = {key: value for key, value in wanted.items() if known["config"].get(key) != value}
        if known["config"]["num_replicas"] > wanted["num_replicas"]:
            del differs["num_replicas"]  # another process was configured with more servers
        if differs:
            try:
                await self.api(f"STREAM.UPDATE.{name}", {**known["config"], **differs})
            except BusRefused as problem:
                self._report(
                    LogEvent.NATS_STREAM_DIFFERS,
                    stream=name,
                    differs=sorted(differs),
                    problem=str(problem),
                )
        self._made.add(name)

    async def _create(self, name: str, wanted: Mapping[str, Any]) -> Any:
        try:
            return await self.api(f"STREAM.CREATE.{name}", wanted)
        except BusRefused as problem:
            if problem.code != _OTHER_FORM:
                raise
            return await self.api(f"STREAM.INFO.{name}")

    def _replicas(self) -> int:
        """Return the number of replicas that the servers allow, at most three.

        A NATS cluster has at least as many servers as there are configured URLs. A server outside a cluster allows one
        replica.
        """
        return min(_REPLICAS, len(self._client.addresses)) if self._client.clustered else 1

    # -- callbacks of the client

    async def _on_answer(self, message: Msg) -> None:
        token = message.subject.rpartition(".")[2]
        waiting = self._waiting.get(token)
        if waiting is None or waiting.done():
            return
        status = message.headers.get("Status") if message.headers else None
        if status == _NO_RESPONDERS and not message.data:
            waiting.set_exception(NobodyServes("nobody listens"))
        elif token in self._gathered and status is None:
            self._gathered[token].append(message)
        else:
            waiting.set_result(message)

    async def _on_lost(self) -> None:
        self._up.clear()
        self._made.clear()  # the server may have lost streams in memory
        self._client.forget_unsent()
        self._fail_waiting()
        for call in self.on_lost:
            call()

    async def _on_back(self) -> None:
        if self._disconnected:
            self._disconnected = False
            self._report(LogEvent.NATS_RECONNECTED)
        self._up.set()
        if self._client.clustered and self._replicas() < _REPLICAS and not self._reported_few:
            self._reported_few = True
            self._report(
                LogEvent.NATS_SERVERS_FEW,
                named=self._replicas(),
            )
        for call in self.on_back:
            call()

    async def _on_error(self, problem: Exception) -> None:
        if isinstance(problem, SlowConsumerError):
            self._report(LogEvent.NATS_MESSAGE_DROPPED, subject=problem.subject)
        elif self._up.is_set() and not isinstance(problem, Error | OSError | TimeoutError):
            self._report(LogEvent.NATS_MESSAGE_FAILED, problem=repr(problem))
        elif not self._disconnected:
            self._disconnected = True
            servers = ",".join(self._client.addresses)
            self._report(
                LogEvent.NATS_DISCONNECTED, servers=servers, problem=str(problem) or type(problem).__name__
            )

    def _fail_waiting(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(BusDown("the bus went away"))


def answered(message: Msg) -> Any:
    """Return JetStream's decoded answer. Raises `BusDown`, `BusRefused`."""
    reply = msgspec.json.decode(message.data)
    if error := reply.get("error"):
        raise _judged(error.get("code", 0), error.get("err_code", 0), error.get("description", ""))
    return reply


def _judged(status: int, code: int, why: str) -> BusDown | BusRefused:
    """Convert a JetStream error to an exception: `BusDown` if a retry may succeed, else `BusRefused`."""
    cannot_now = code in _NOT_YET or (status >= 500 and code != _FIXED)
    return BusDown(why) if cannot_now else BusRefused(code, why)
