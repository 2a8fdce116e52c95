"""This process's lease of one partition: the time for which the process certainly owns the partition.

A partition is a fixed share of the live streams or other work. JetStream assigns ("pins") it to one client and confirms
each renewal. The id of that assignment is the *pin*. A confirmation is valid for a fixed time after the request, by
this process's monotonic clock. So a process that was suspended notices the loss before it does anything else. A lease
calls `gained` and `lost` of its partition alternately; the calls never overlap.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks, is_set_within
from outcry.live.partitions import Turn

#: The server releases a partition whose owner has sent no request for this long.
PIN_S = 1.5
#: Interval at which the owner of a partition renews it.
RENEWAL_INTERVAL_S = 0.4
#: After this time the previous owner knows that it has lost the partition, unless it is suspended.
SETTLED_S = RENEWAL_INTERVAL_S + 0.05
#: Largest drift between our clock and the server's during a pin.
_MARGIN_S = 0.05
#: A process that failed to acquire a partition leaves it to others for this long.
_BARRED_S = 1.0


class LeaseCallbacks(NamedTuple):
    """Functions that a lease calls, and the tasks in which it acquires partitions.

    gained, lost: start and stop this process's work on a partition. give_back: releases the partition at the server,
    after `lost` has returned.
    """

    gained: Turn
    lost: Turn
    give_back: Callable[["PartitionLease"], Awaitable[None]]
    report: Report
    tasks: BackgroundTasks


class PartitionLease:
    """This process's lease of a partition. Times are by `time.monotonic`.

    pin: the id under which the server has assigned us the partition, empty without one. renewal_sent_s: time of the
    last request to be assigned the partition. renewal_pending_until_s: when that request ends. beaten_s: time of the
    last request to stay its owner.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.pin = ""
        self.pinned_s = self.beaten_s = -math.inf
        self.renewal_sent_s = self.renewal_pending_until_s = self.barred_until_s = -math.inf
        #: Whether the previous owner has released it. If not, we wait: it may not have noticed the loss yet.
        self.left = False
        #: The partition is being released.
        self.leaving = False
        self.given_back = False
        self.task: asyncio.Task[None] | None = None
        self._sure_until_s = -math.inf
        self._open = False
        self._over = asyncio.Event()

    @property
    def sure(self) -> bool:
        """Whether this process certainly owns the partition now."""
        return bool(self.pin) and self.sure_for_s > 0

    @property
    def sure_for_s(self) -> float:
        """Seconds for which this process certainly owns the partition without another renewal."""
        return self._sure_until_s - time.monotonic()

    @property
    def owned(self) -> bool:
        """Whether this process has acquired the partition and still owns it."""
        return self._open and not self._over.is_set() and self.sure

    @property
    def active(self) -> bool:
        """Whether the partition is acquired or being acquired, and not being released."""
        return self.task is not None and not self._over.is_set()

    def pinned(self, pin: str, *, left: bool) -> None:
        """Store the pin (id of the assignment) that the server sent.

        Ownership is certain only after the server has accepted a renewal with this pin. left: whether the previous
        owner said that it has released the partition.
        """
        self.lose()
        self.pin, self.left, self.pinned_s = pin, left, time.monotonic()
        self.renewal_pending_until_s = -math.inf

    def confirmed(self, renewal_sent_s: float) -> None:
        """Extend ownership, because the server has confirmed the renewal sent at `renewal_sent_s`."""
        self._sure_until_s = max(self._sure_until_s, renewal_sent_s + PIN_S - _MARGIN_S)

    def lapsed(self) -> bool:
        """Return whether the server's assignment to this process has expired, by this process's clock."""
        now_s = time.monotonic()
        return bool(self.pin) and now_s >= max(self._sure_until_s, self.pinned_s + PIN_S)

    def lose(self) -> None:
        """Record that this process no longer owns the partition."""
        self.pin, self._sure_until_s = "", -math.inf
        self.given_back = False
        self._over.set()

    def leave(self) -> None:
        """Release the partition once this process has stopped using it."""
        self.leaving = True
        self._over.set()

    def start(self, duties: LeaseCallbacks) -> None:
        """Start to acquire the partition, unless that has begun; release it if `leaving` is set."""
        if self.task is None:
            self._over.clear()
            self.task = duties.tasks.start(f"partition {self.number}", self._run(duties))

    async def _run(self, duties: LeaseCallbacks) -> None:
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
            self.leaving, self.task = False, None

    async def _serve(self, duties: LeaseCallbacks) -> None:
        """Acquire the partition, wait until it is lost or must be released, and end its use."""
        if not self.left and await is_set_within(self._over, self.pinned_s + SETTLED_S - time.monotonic()):
            return
        over = asyncio.ensure_future(self._over.wait())
        gaining = asyncio.ensure_future(duties.gained(self.number))
        try:
            await asyncio.wait((gaining, over), return_when=asyncio.FIRST_COMPLETED)
            if gaining.done() and not over.done():
                gaining.result()
                self._open = True
                await over
        except Exception as problem:  # noqa: BLE001 - a supervisor: one partition's fault does not affect others
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
        except Exception as problem:  # noqa: BLE001 - as above: another process acquires it anyway
            duties.report(LogEvent.PARTITION_NOT_RELEASED, partition=self.number, problem=repr(problem))
