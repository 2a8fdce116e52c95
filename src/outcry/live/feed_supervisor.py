"""Supervision of feeds: one task for each contract, which connects again after an error.

The engine and the agent (the program on a user's machine) both use it. The reception of a contract ends only if its
feed has ended for good, or if the user must act. An error of one contract does not affect others.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from outcry.base.backoff import Backoff
from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import CANCEL_AGAIN_S, BackgroundTasks, end
from outcry.live.model import LogTakenOver, StreamKey
from outcry.market.instruments import Contract
from outcry.trades.feed import Feed, FeedLost, FeedRefused

#: How often the contracts of a feed are listed again, because a roll adds one.
CONTRACTS_S = 60.0
#: After a connection of this length the next backoff starts again at its first pause.
GOOD_SESSION_S = 60.0

#: Follows one contract of a feed until it ends; see `follow_until_ended`.
FollowContract = Callable[[StreamKey, Feed], Coroutine[Any, Any, None]]


class FollowedStream(Protocol):
    """Interface of the receiver of one contract of a feed: a stream of the engine, or a queue of the agent.

    All methods except `follow` record the reason why no data arrives.
    """

    async def follow(self) -> bool:
        """Receive events from one connection until it closes; return whether the feed has ended for good.

        Raises `FeedLost`, `FeedRefused`, `LogTakenOver`, and `OSError` if events cannot be stored.
        """
        ...

    def refused(self, problem: FeedRefused) -> None:
        """Record that the feed refuses the contract until the user acts."""
        ...

    def lost(self, problem: FeedLost) -> None:
        """Record that the connection is lost."""
        ...

    def closed(self) -> None:
        """Record that the feed closed the stream without an error; it will be opened again."""
        ...

    def not_stored(self, problem: OSError) -> None:
        """Record that events cannot be stored."""
        ...

    async def failed(self, problem: Exception) -> None:
        """Record an unexpected error, and repair the stream if the error left it in a wrong state."""
        ...


async def follow_until_ended(stream: FollowedStream, speedup: float) -> None:
    """Receive a stream from its feed until the feed ends or refuses. Connect again after each other error.

    Raises `LogTakenOver`. speedup: divides all pauses, for tests.
    """
    backoff, loop = Backoff(speedup), asyncio.get_running_loop()
    while True:
        began_s = loop.time()
        try:
            if await stream.follow():
                return
            stream.closed()
        except FeedRefused as problem:
            stream.refused(problem)
            return
        except FeedLost as problem:
            stream.lost(problem)
        except LogTakenOver:
            raise
        except OSError as problem:
            stream.not_stored(problem)
        except Exception as problem:  # noqa: BLE001 - a supervisor: an error of one stream must not stop the others
            await stream.failed(problem)
        if loop.time() - began_s > GOOD_SESSION_S / speedup:
            backoff.reset()
        await backoff.sleep()


class FeedSupervisor:
    """Runs feeds: receives every contract of each feed, including contracts that a roll adds later.

    speedup: divides all pauses, for tests.
    """

    def __init__(self, follow_contract: FollowContract, report: Report, speedup: float = 1.0) -> None:
        self._follow_contract, self._report, self._speedup = follow_contract, report, speedup
        #: Contracts that each feed listed last, by owner and name.
        self._listed: dict[tuple[int, str], frozenset[Contract]] = {}
        self._tasks = BackgroundTasks(report)

    def contracts_of(self, owner: int, name: str) -> frozenset[Contract]:
        """Return the contracts of a feed, as the feed last listed them."""
        return self._listed.get((owner, name), frozenset())

    async def follow(self, owner: int, name: str, feed: Feed) -> None:
        """Receive each contract of a feed until all have ended, then close the feed.

        name: the feed's name, as it is part of stream keys.
        """
        running: dict[Contract, asyncio.Task[None]] = {}
        try:
            while (contracts := await self._list(owner, name, feed)) is not None:
                for contract in contracts:
                    if contract not in running or _has_failed(running[contract]):
                        key = StreamKey(owner, name, contract)
                        running[contract] = self._tasks.start(key.text, self._follow_contract(key, feed))
                active = [task for task in running.values() if not task.done()]
                if active:
                    await asyncio.wait(active, timeout=CONTRACTS_S / self._speedup)
                elif running:
                    return
                else:
                    await asyncio.sleep(CONTRACTS_S / self._speedup)
        finally:
            try:
                await end(running.values(), CANCEL_AGAIN_S)
            finally:  # also if cancelled twice
                await feed.close()

    async def _list(self, owner: int, name: str, feed: Feed) -> list[Contract] | None:
        """Return the contracts that a feed lists, after retries if necessary.

        Returns None if the feed refuses until the user acts.
        """
        backoff = Backoff(self._speedup)
        while True:
            try:
                contracts = await feed.contracts()
            except FeedRefused as problem:
                self._report(LogEvent.FEED_REJECTED, feed=name, code=problem.code, problem=str(problem))
                return None
            except Exception as problem:  # noqa: BLE001 - a supervisor: an error of one feed must not stop the others
                self._report(LogEvent.FEED_FAILED, feed=name, problem=repr(problem))
                await backoff.sleep()
            else:
                self._listed[owner, name] = frozenset(contracts)
                return contracts


def _has_failed(task: asyncio.Task[None]) -> bool:
    """Return whether a task ended with an unexpected error, so that it is started again."""
    return task.done() and not task.cancelled() and task.exception() is not None
