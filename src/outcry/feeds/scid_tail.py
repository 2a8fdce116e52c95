"""Live feed of trades from a Sierra Chart file that is still being written.

Sierra appends received trades every few seconds and updates the last bar in place. Only complete records are sent.
Records in the file when it is opened are history; later ones are live.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

from outcry.base.clock import Clock
from outcry.feeds.live_rows import as_live
from outcry.feeds.scid_growing import GrowingScid, feed_errors
from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_SECOND
from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.archive import CountedFile
from outcry.recordings.formats.contract_names import ContractNames
from outcry.recordings.formats.scid import SOURCE
from outcry.trades.feed import (
    Backfill,
    Bars,
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    FeedLost,
    FeedRefused,
    Heartbeat,
    Resume,
    RowFlag,
    Trades,
)
from outcry.trades.records import Batch, Quality

#: Sierra's default interval between two writes, in seconds.
FLUSH_S = 5.0


def tail_of(path: Path, universe: Universe, clock: Clock, today: date) -> "ScidTail":
    """Create the feed of a growing file, for the contract in the file name.

    A short year means the contract nearest to `today`. Raises `FileRefused` if the name contains no contract,
    or one whose sizes are fractions.
    """
    names = ContractNames(universe)
    contract = names.in_file_name(path, today)
    if contract is None:
        raise FileRefused(
            path,
            "",
            "the file name has no contract",
            "name it like Sierra Chart does, for example ESZ26_FUT_CME.scid",
        )
    names.refuse_fractions(contract, path)
    return ScidTail(path, contract, universe, clock)


class ScidTail:
    """Live feed of one growing Sierra Chart file, which contains one contract. Implements `Feed`.

    poll_s: seconds between two reads of the file. flush_s: longest delay of Sierra's writes (s). Heartbeats lag the
    clock by as much, because earlier trades may still be written.
    """

    caps = FeedCaps(
        resolution_ns=1_000_000, has_id=False, has_side=True, backfill=Backfill.TICKS, reach_ns=2**62,
        resume=Resume.BY_TIME, has_volume_counter=False,
        lag_ns=round((FLUSH_S + 1) * NANOS_PER_SECOND),  # plus one read of the file each second
    )  # fmt: skip
    run = ""

    def __init__(
        self, path: Path, contract: Contract, universe: Universe, clock: Clock, *,
        poll_s: float = 1.0, flush_s: float = FLUSH_S, name: str = SOURCE,
    ) -> None:  # fmt: skip
        self.name = name
        self._path, self._contract, self._universe, self._clock = path, contract, universe, clock
        self._poll_s, self._flush_ns = poll_s, round(flush_s * NANOS_PER_SECOND)
        self._closed = False

    async def contracts(self) -> list[Contract]:
        """Return the one contract that the file contains."""
        return [self._contract]

    async def close(self) -> None:
        """Close the feed; a stream ends at its next read of the file."""
        self._closed = True

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream the contract from a cursor. Records in the file when it is opened are history."""
        self._check(contract)
        tail = await asyncio.to_thread(self._begin, since.since_ns)
        try:
            worst, more = Quality.TICKS, True
            while more and not self._closed:
                read = await asyncio.to_thread(tail.look, self._settled_ns())
                for batch in read.batches:
                    worst = max(worst, batch.quality, key=lambda quality: quality.rank)
                    yield self._event(batch, backfill=True)
                more = read.more
                if not more:
                    if hole := await asyncio.to_thread(tail.not_held, read.reached_ns):
                        yield hole
                    yield CaughtUp(read.reached_ns, worst)
            while not self._closed:
                if not more:
                    await asyncio.sleep(self._poll_s)
                read = await asyncio.to_thread(tail.look, self._settled_ns())
                for batch in read.batches:
                    yield self._event(batch, backfill=False)
                more = read.more
                yield Heartbeat(read.reached_ns)
        finally:
            tail.close()

    def _settled_ns(self) -> int:
        return self._clock.now_ns() - self._flush_ns

    def _event(self, batch: Batch, *, backfill: bool) -> Event:
        if batch.quality is not Quality.TICKS:
            return Bars(batch.rows, batch.quality, backfill)
        flags = RowFlag.BACKFILL if backfill else RowFlag(0)
        return Trades(as_live(batch.rows, self._clock.now_ns(), flags))

    def _check(self, contract: Contract) -> None:
        if contract != self._contract:
            raise FeedRefused(
                "unknown_contract",
                f"{self._path.name} contains trades of {self._contract.key}, not of {contract.key}",
            )
        named = ContractNames(self._universe).in_file_name(self._path, self._universe.expiry(contract))
        if named not in {None, contract}:
            raise FeedRefused("wrong_contract", f"{self._path.name} is not a file of {contract.key}")

    def _begin(self, since_ns: int) -> GrowingScid:
        with feed_errors():
            try:
                file = CountedFile(self._path)
            except FileRefused as problem:
                raise FeedLost("file_unreadable", str(problem)) from problem
            try:
                tick_e9 = self._universe.products[self._contract.root].tick_e9
                return GrowingScid(file, self._contract, tick_e9, since_ns)
            except BaseException:
                file.close()
                raise
