"""Where the role `feeds` is put together: connections and the operator's own files in one process, their streams in
others."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from outcry.agent.feed_runner import MarketContext
from outcry.agent.spool import Spool
from outcry.app.feeds import parts_of
from outcry.base.cancellation import end
from outcry.base.log_events import Report
from outcry.cluster.calls import Calls
from outcry.cluster.remote_streams import RemoteStreams
from outcry.cluster.shared_connections import SharedConnections
from outcry.cluster.stream_owner.client import StreamOwnerClient
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.live.file_log import FileLog
from outcry.live.model import LogInUse
from outcry.live.partitions import Partitions
from outcry.trades.feed import Feed

if TYPE_CHECKING:
    from outcry.app.service import House

SPOOL_FOLDER = "feeds-spool"
#: What a process may keep of what nobody takes: hours of everything a busy house brings.
SPOOL_BYTES = 8 << 30


async def run_feeds(
    house: "House", calls: Calls, partitions: Partitions, complete: Callable[[], bool], own: Sequence[tuple[int, Feed]],
    report: Report,
) -> None:  # fmt: skip
    """Bring feeds until cancelled: this process's share of connections, and feeds of its own. `complete`: whether the
    house's registry shows every stream there is."""
    reference = house.reference
    market = MarketContext(reference.universe, reference.calendar, house.clock)
    with own_spool(house.settings.folder / SPOOL_FOLDER) as spool:
        streams = RemoteStreams(spool, StreamOwnerClient(calls), market, house.registry, complete, report)
        supervisor = ConnectionSupervisor(streams, parts_of(house), several=True)
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
