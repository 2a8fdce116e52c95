"""Asking the name service, in threads of its own.

Rules kept: a name is asked about once at a time, however many want to know, and not at all if nobody does any more;
who wants to know waits for so long and no longer, and is told whether the name was at fault or the queue; a name whose
servers hang is asked by a few threads set aside for such names, and no domain has more than its share of threads, so it
holds up nobody else. Judging has threads of its own: what people save holds up no delivery.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from queue import SimpleQueue

from outcry.delivery.slots import NoTurn
from outcry.delivery.url_rule import Number

PATIENCE_S = 3.0
#: A name that takes longer than this is asked by the threads for slow ones from then on, until it is quick again.
SLOW_S = 1.0
THREADS, SLOW_THREADS = 64, 16
JUDGING_THREADS, SLOW_JUDGING_THREADS = 32, 8
#: One domain (the last two labels of a name) has this part of the threads at most.
_SHARE = 8
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


@dataclass(eq=False, slots=True)
class _Question:
    """A name that is asked about, or shall be. `awaited`: by how many; `begun_s`: since when it is asked."""

    name: str
    answer: asyncio.Future[_Answer]
    awaited: int = 0
    begun_s: float | None = None

    @property
    def domain(self) -> str:
        return ".".join(self.name.rsplit(".", 2)[-2:])

    def asked_for_s(self) -> float:
        """How long the name has had to answer."""
        return 0.0 if self.begun_s is None else time.perf_counter() - self.begun_s


class NameService:
    """Addresses of names. Used on one event loop."""

    def __init__(self, resolver: Resolver = ask_system, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        #: By whether it is for judging, and the name.
        self._asked: dict[tuple[bool, str], _Question] = {}
        #: Oldest first.
        self._slow: dict[str, None] = {}
        #: By whether they are for judging, and for slow names.
        self._desks = {
            (False, False): _Desk(resolver, THREADS), (False, True): _Desk(resolver, SLOW_THREADS),
            (True, False): _Desk(resolver, JUDGING_THREADS), (True, True): _Desk(resolver, SLOW_JUDGING_THREADS),
        }  # fmt: skip

    async def addresses(self, name: str, *, judging: bool = False) -> _Answer:
        """All addresses of a name, at least one. Raises `Unresolvable`; `NoTurn` where it was not asked about for long
        enough to say so."""
        question = self._asked.get((judging, name)) or self._ask(name, judging=judging)
        question.awaited += 1
        try:
            async with asyncio.timeout(self._patience_s):
                found = await asyncio.shield(question.answer)
        except TimeoutError:
            if question.asked_for_s() < self._patience_s / 2:
                raise NoTurn from None
            self._remember(name, slow=True)
            raise Unresolvable from None
        finally:
            question.awaited -= 1
            if not question.awaited and question.begun_s is None:
                question.answer.cancel()
                self._asked.pop((judging, name), None)
        if not found:
            raise Unresolvable
        return found

    def close(self) -> None:
        """Let the threads go. Those that hang end with the process."""
        for desk in self._desks.values():
            desk.close()

    def _ask(self, name: str, *, judging: bool) -> _Question:
        question = _Question(name, asyncio.get_running_loop().create_future())
        self._asked[judging, name] = question

        def settled(_: object) -> None:
            if question.begun_s is not None:
                self._asked.pop((judging, name), None)
                self._remember(name, slow=question.asked_for_s() > SLOW_S)

        question.answer.add_done_callback(settled)
        self._desks[judging, name in self._slow].put(question)
        return question

    def _remember(self, name: str, *, slow: bool) -> None:
        self._slow.pop(name, None)
        if slow:
            self._slow[name] = None
        if len(self._slow) > _MOST_SLOW_NAMES:
            del self._slow[next(iter(self._slow))]


class _Desk:
    """Has questions asked, `most` at once, oldest first, but no more than its share of one domain."""

    def __init__(self, resolver: Resolver, most: int) -> None:
        self._resolver, self._most, self._share = resolver, most, max(1, most // _SHARE)
        self._waiting: list[_Question] = []
        self._asked_in: Counter[str] = Counter()
        self._askers = _Askers(most)

    def put(self, question: _Question) -> None:
        """Have a question asked in its turn, unless it is cancelled before."""
        self._waiting.append(question)
        self._begin()

    def close(self) -> None:
        """Ask no more."""
        self._waiting.clear()
        self._askers.close()

    def _begin(self) -> None:
        """Have all asked that may be."""
        self._waiting = [question for question in self._waiting if not question.answer.done()]
        for question in tuple(self._waiting):
            if self._asked_in.total() == self._most:
                return
            if self._asked_in[question.domain] < self._share:
                self._waiting.remove(question)
                self._asked_in[question.domain] += 1
                question.begun_s = time.perf_counter()
                self._askers.do(partial(self._ask, question, asyncio.get_running_loop()))

    def _ask(self, question: _Question, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread."""
        try:
            answer = tuple(map(ip_address, self._resolver(question.name)))
        except (OSError, ValueError):  # not found, or nothing that could be an address
            answer = ()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._settle, question, answer)

    def _settle(self, question: _Question, answer: _Answer) -> None:
        self._asked_in[question.domain] -= 1
        if not self._asked_in[question.domain]:
            del self._asked_in[question.domain]
        question.answer.set_result(answer)
        self._begin()


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
