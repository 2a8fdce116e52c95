"""Asking the name service, in threads of its own.

Rules kept: a name is asked about once at a time, however many want to know; who wants to know waits for so long and no
longer; a name whose servers hang is asked by a few threads set aside for such names, so it holds up nobody else.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from queue import SimpleQueue

from outcry.deliver.address import Number

PATIENCE_S = 3.0
#: A name that takes longer than this is asked by the threads for slow ones from then on, until it is quick again.
SLOW_S = 1.0
THREADS, SLOW_THREADS = 64, 16
_MOST_SLOW_NAMES = 10_000

#: All addresses of a name, as text; raises `OSError` where there are none. Called in a thread.
Resolver = Callable[[str], Iterable[str]]
_Answer = tuple[Number, ...]


class Unresolvable(Exception):
    """A name was not found, or not in time."""


def ask_system(name: str) -> Iterable[str]:
    """What this machine's resolver says, all of it: also of kinds of address that it could not connect to itself."""
    found = socket.getaddrinfo(name.encode("ascii"), None, type=socket.SOCK_STREAM)
    return dict.fromkeys(str(address[4][0]) for address in found)


class NameService:
    """Addresses of names. Used on one event loop."""

    def __init__(self, resolver: Resolver = ask_system, patience_s: float = PATIENCE_S) -> None:
        self._resolver, self._patience_s = resolver, patience_s
        self._asked: dict[str, asyncio.Future[_Answer]] = {}
        self._slow: set[str] = set()
        self._quick_askers, self._slow_askers = _Askers(THREADS), _Askers(SLOW_THREADS)

    async def addresses(self, name: str) -> _Answer:
        """All addresses of a name, at least one. Raises `Unresolvable`."""
        asked = self._asked.get(name) or self._ask(name)
        try:
            async with asyncio.timeout(self._patience_s):
                found = await asyncio.shield(asked)
        except TimeoutError:
            self._remember(name, slow=True)
            raise Unresolvable from None
        if not found:
            raise Unresolvable
        return found

    def close(self) -> None:
        """Let the threads go. Those that hang end with the process."""
        self._quick_askers.close()
        self._slow_askers.close()

    def _ask(self, name: str) -> asyncio.Future[_Answer]:
        loop = asyncio.get_running_loop()
        asked = self._asked[name] = loop.create_future()

        def settle(answer: _Answer, took_s: float) -> None:
            self._asked.pop(name, None)
            self._remember(name, slow=took_s > SLOW_S)
            if not asked.done():
                asked.set_result(answer)

        def ask() -> None:
            begun_s = time.perf_counter()
            try:
                answer = tuple(map(ip_address, self._resolver(name)))
            except (OSError, ValueError):  # not found, or nothing that could be an address
                answer = ()
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, answer, time.perf_counter() - begun_s)

        (self._slow_askers if name in self._slow else self._quick_askers).do(ask)
        return asked

    def _remember(self, name: str, *, slow: bool) -> None:
        if not slow:
            self._slow.discard(name)
        elif len(self._slow) < _MOST_SLOW_NAMES:
            self._slow.add(name)


class _Askers:
    """Up to `most` threads, which keep no process from ending."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0

    def do(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        if self._threads < self._most:
            self._threads += 1
            threading.Thread(target=self._work, name="names", daemon=True).start()

    def close(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
