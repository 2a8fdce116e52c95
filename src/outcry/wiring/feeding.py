"""Where the role `feeds` is put together: connections and the operator's own files in one process, their streams in
others."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from outcry.bus.log import FileLog
from outcry.client.carried import CarriedStreams
from outcry.client.carrying import Market
from outcry.client.spool import Spool
from outcry.ports.calls import Calls
from outcry.ports.feed import Feed
from outcry.ports.live import LogInUse
from outcry.ports.partitions import Partitions
from outcry.services.connections.shared import SharedConnections
from outcry.services.connections.supervisor import Supervisor
from outcry.services.feeding.owners import Owners
from outcry.services.live.ending import end
from outcry.services.live.recorder import Tell
from outcry.wiring.feeds import parts_of

if TYPE_CHECKING:
    from outcry.wiring.house import House

SPOOL_FOLDER = "feeds-spool"
#: What a process may keep of what nobody takes: hours of everything a busy house brings.
SPOOL_BYTES = 8 << 30


async def run_feeds(
    house: "House", calls: Calls, partitions: Partitions, complete: Callable[[], bool], own: Sequence[tuple[int, Feed]],
    tell: Tell,
) -> None:  # fmt: skip
    """Bring feeds until cancelled: this process's share of connections, and feeds of its own. `complete`: whether the
    house's board shows every stream there is."""
    reference = house.reference
    market = Market(reference.universe, reference.calendar, house.clock)
    with own_spool(house.settings.folder / SPOOL_FOLDER) as spool:
        streams = CarriedStreams(spool, Owners(calls), market, house.board, complete, tell)
        supervisor = Supervisor(streams, parts_of(house), several=True)
        keeping = asyncio.create_task(streams.run(), name="spool")
        try:
            for owner, feed in own:
                streams.attach(owner, feed)
            await SharedConnections(supervisor, partitions, calls).run()
        finally:
            await end([keeping])


@contextmanager
def own_spool(folder: Path, limit_bytes: int = SPOOL_BYTES) -> Generator[Spool]:
    """A spool that no other process has, empty: what one that died had not sent is asked of the vendors again."""
    with ExitStack() as held:
        for number in count():
            log = FileLog(folder / str(number))
            try:
                held.enter_context(log.exclusively())
            except LogInUse:
                continue
            spool = Spool(log, folder / str(number), limit_bytes)
            spool.clear()
            yield spool
            return
