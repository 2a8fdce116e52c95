"""Carries the lines of a spool to a service, for as long as it takes.

Rules kept: a service that is away is asked again and again, later each time; one line that is slow holds up no other;
what the service says is shown, and changes nothing but what is sent next.
"""

import asyncio
import random
import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from outcry.client.errors import ApiError
from outcry.client.sender import LONGEST_PAUSE_S, Sender
from outcry.client.spooled import SpooledLine
from outcry.services.pushing import KEEP_ALIVE_S

#: Pushes at a time; a key may have one more.
MOST_SENDERS = 3
#: Of a line that has much to say, a push goes out no more often than this.
PACE_S = 0.1
FIRST_PAUSE_S = 0.2
#: How long to wait after a refusal that does not pass by itself.
REFUSED_PAUSE_S = 30.0
#: What a service says of a run that is over: another goes on from it.
_RUN_OVER = frozenset({"replaced", "disconnected", "closed", "hole"})


@dataclass(frozen=True, slots=True)
class Service:
    """Where to push: address, a key made for it, and whom to believe over TLS (None: the system's roots)."""

    url: str
    key: str = field(repr=False)
    trust: ssl.SSLContext | None = None


@dataclass(slots=True)
class Reached:
    """How the service was found last: `code` is `ok`, `service_unreachable`, `fault` (one of ours), or what it refuses
    with; `text` for a person."""

    code: str = "connecting"
    text: str = ""


class Outward:
    """The way out of an agent. `reached`: how the service stands; changed: called as that changes."""

    def __init__(self, service: Service, changed: Callable[[], object], rush: float = 1.0) -> None:
        self._rush, self._changed = rush, changed
        self._senders = [Sender(service.url, service.key, trust=service.trust) for _ in range(MOST_SENDERS)]
        self._free: asyncio.Queue[Sender] = asyncio.Queue()
        for sender in self._senders:
            self._free.put_nowait(sender)
        self._pool = ThreadPoolExecutor(MOST_SENDERS, "outcry-push")
        self.reached = Reached()
        #: What the service says of single lines, by feed and contract: empty where all is well.
        self.refused: dict[tuple[str, str], str] = {}

    async def carry(self, feed: str, line: SpooledLine, news: asyncio.Event) -> None:
        """Send what a line has, as `news` comes, until cancelled."""
        failures = 0
        while True:
            if not line.waiting:
                with suppress(TimeoutError):
                    # not `wait_for`, which may lose a cancellation before Python 3.12
                    async with asyncio.timeout(KEEP_ALIVE_S / self._rush):
                        await news.wait()
            news.clear()
            if not line.end:
                continue  # nothing was ever heard of it: nothing is to be kept alive
            pause_s = await self.send(feed, line)
            failures = 0 if pause_s is None else failures + 1
            if pause_s is None:
                await asyncio.sleep(PACE_S / self._rush)
                continue
            grown_s = min(FIRST_PAUSE_S * 2 ** min(failures - 1, 8), LONGEST_PAUSE_S)
            spread = random.uniform(0.5, 1.0)  # noqa: S311 - spreads attempts; nothing secret about it
            await asyncio.sleep(max(pause_s, grown_s * spread) / self._rush)

    async def send(self, feed: str, line: SpooledLine) -> float | None:
        """Send one push; None where it went forward, else how long to wait."""
        sender = await self._free.get()
        loop, place = asyncio.get_running_loop(), (feed, line.contract.key)

        def done(_: Future[float | None]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a sender any more
                loop.call_soon_threadsafe(self._free.put_nowait, sender)

        pushed = self._pool.submit(sender.attempt, feed, line)
        pushed.add_done_callback(done)
        try:
            pause_s = await asyncio.wrap_future(pushed)
        except ApiError as problem:
            return self._refusal(place, line, problem)
        except Exception as problem:  # noqa: BLE001 - a supervisor: one line's fault is no other's
            self.refused[place] = "fault"
            self._show("fault", repr(problem))
            return REFUSED_PAUSE_S
        if pause_s is None:
            self.refused.pop(place, None)
            self._show("ok", "")
        elif isinstance(sender.problem, ApiError):
            self.refused[place] = _code(sender.problem)
            self._show("ok", "")
        else:
            self._show("service_unreachable", str(sender.problem))
        return pause_s

    def _refusal(self, place: tuple[str, str], line: SpooledLine, problem: ApiError) -> float:
        code = _code(problem)
        if code in _RUN_OVER:
            line.renew()
            return 0.0
        if problem.status in {401, 403}:
            self._show(code, str(problem))
        else:
            self.refused[place] = code
            self._show("ok", "")
        return REFUSED_PAUSE_S

    def _show(self, code: str, text: str) -> None:
        text = "".join(sign for sign in text if sign.isprintable())[:200]
        if (self.reached.code, self.reached.text) != (code, text):
            self.reached.code, self.reached.text = code, text
            self._changed()

    def close(self) -> None:
        """Hang up; pushes under way end as not answered."""
        for sender in self._senders:
            sender.abort()
        self._pool.shutdown(cancel_futures=True)
        for sender in self._senders:
            sender.close()


def _code(problem: ApiError) -> str:
    """The stable word of a refusal, whatever a service puts in its place."""
    reason = problem.body.get("reason", problem.code)
    return reason[:40] if isinstance(reason, str) and reason.isprintable() else "refused"
