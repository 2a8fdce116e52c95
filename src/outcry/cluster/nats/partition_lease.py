"""One partition as a process has it: from the word of the server that it is ours to the end of that, ours or not.

Rules kept: what the server said holds for as long as the pin lasts from when we asked, by our own clock, so who stood
still knows before anything else; `gained` and `lost` of a partition are called one at a time, and in turn.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from outcry.base.log_events import LogEvent, Report
from outcry.live.partitions import Turn

#: How long the server keeps a partition for who does not ask for it.
PIN_S = 1.5
#: Who has one asks for it so often.
BEAT_S = 0.4
#: By then whoever had it before knows that it has lost it, unless it stands still.
SETTLED_S = BEAT_S + 0.05
#: What our clock and the server's may differ by, in that time.
_MARGIN_S = 0.05
#: Who could not take a partition up leaves it to others for so long.
_BARRED_S = 1.0


class LeaseCallbacks(NamedTuple):
    """What is done as partitions come and go. give_back: let the server give it to others, once `lost` has ended."""

    gained: Turn
    lost: Turn
    give_back: Callable[["PartitionLease"], Awaitable[None]]
    report: Report


class PartitionLease:
    """A partition here. `pin`: the server's word for its being ours; empty: it is not. `asked_s`: when it was asked
    for last while it was not; `asked_until_s`: how long that stands; `beaten_s`: when it was by its pin."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pin = ""
        self.pinned_s = self.beaten_s = -math.inf
        self.asked_s = self.asked_until_s = self.barred_until_s = -math.inf
        #: Whether who had it before has ended with it; else we wait a little, as it may not know yet.
        self.left = False
        #: No longer asked for: it is being given to others.
        self.leaving = False
        self.given_back = False
        self.tenure: asyncio.Task[None] | None = None
        self._sure_until_s = -math.inf
        self._open = False
        self._over = asyncio.Event()

    @property
    def sure(self) -> bool:
        """Whether it is ours for certain."""
        return bool(self.pin) and self.sure_for_s > 0

    @property
    def sure_for_s(self) -> float:
        """How long it is ours yet, if the server is not asked again."""
        return self._sure_until_s - time.monotonic()

    @property
    def owned(self) -> bool:
        """Whether it was taken up, and is ours."""
        return self._open and not self._over.is_set() and self.sure

    @property
    def held(self) -> bool:
        """Whether it is taken up, or being so, to stay."""
        return self.tenure is not None and not self._over.is_set()

    def pinned(self, pin: str, *, left: bool) -> None:
        """The server says that it is ours; it is for certain once it answers to that name."""
        self.lose()
        self.pin, self.left, self.pinned_s = pin, left, time.monotonic()
        self.asked_until_s = -math.inf

    def confirmed(self, asked_s: float) -> None:
        """The server has answered what was asked by its pin at that time."""
        self._sure_until_s = max(self._sure_until_s, asked_s + PIN_S - _MARGIN_S)

    def lapsed(self) -> bool:
        """Whether it was ours, or was said to be, and is no more by our clock."""
        now_s = time.monotonic()
        return bool(self.pin) and now_s >= max(self._sure_until_s, self.pinned_s + PIN_S)

    def lose(self) -> None:
        """It is not ours any more."""
        self.pin, self._sure_until_s = "", -math.inf
        self.given_back = False
        self._over.set()

    def leave(self) -> None:
        """Give it to others, once who uses it here has ended with it."""
        self.leaving = True
        self._over.set()

    def sit(self, duties: LeaseCallbacks) -> None:
        """Have it taken up, unless that is going on. With `leaving`: give it back."""
        if self.tenure is None:
            self._over.clear()
            self.tenure = asyncio.get_running_loop().create_task(self._sit(duties))

    async def _sit(self, duties: LeaseCallbacks) -> None:
        try:
            while self.sure:
                if not self.leaving:
                    await self._serve(duties)
                if self.sure and self.leaving:
                    self.given_back = True
                    await duties.give_back(self)
                    self.lose()
                self.leaving = False
                if self.sure:
                    self._over.clear()
        finally:
            self.leaving, self.tenure = False, None

    async def _serve(self, duties: LeaseCallbacks) -> None:
        """Take it up, see it through, let it go."""
        if not self.left and await self._over_by(self.pinned_s + SETTLED_S):
            return
        over = asyncio.ensure_future(self._over.wait())
        gaining = asyncio.ensure_future(duties.gained(self.number))
        try:
            await asyncio.wait((gaining, over), return_when=asyncio.FIRST_COMPLETED)
            if gaining.done() and not over.done():
                gaining.result()
                self._open = True
                await over
        except Exception as problem:  # noqa: BLE001 - a supervisor: one partition's fault is no other's
            duties.report(LogEvent.PARTITION_NOT_ACQUIRED, partition=self.number, problem=repr(problem))
            self.barred_until_s = time.monotonic() + _BARRED_S
            self.leave()
        finally:
            self._open = False
            over.cancel()
            gaining.cancel()
            await asyncio.gather(over, gaining, return_exceptions=True)
        try:
            await duties.lost(self.number)
        except Exception as problem:  # noqa: BLE001 - as above: it is others' whatever went wrong
            duties.report(LogEvent.PARTITION_NOT_RELEASED, partition=self.number, problem=repr(problem))

    async def _over_by(self, at_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(at_s - time.monotonic()):
                await self._over.wait()
        return self._over.is_set()
