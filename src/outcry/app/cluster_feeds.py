"""Run the role `feeds` of a cluster process: its feeds send their trades to the processes with the role `engine`."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from outcry.agent.feed_runner import MarketContext
from outcry.agent.spool import Spool
from outcry.app.feeds import parts_of
from outcry.app.installation import Installation
from outcry.base.log_events import Report
from outcry.base.tasks import BackgroundTasks
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.remote_streams import RemoteStreams
from outcry.cluster.shared_connections import SharedConnections
from outcry.cluster.stream_owner.client import StreamOwnerClient
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.live.file_log import FileLog
from outcry.live.model import LogInUse
from outcry.live.partitions import Partitions
from outcry.trades.feed import Feed

SPOOL_FOLDER = "feeds-spool"
#: Limit of trades that no engine has accepted yet: hours of a busy installation.
SPOOL_BYTES = 8 << 30


async def run_feeds(
    installation: Installation, calls: NatsCalls, partitions: Partitions, complete: Callable[[], bool],
    own: Sequence[tuple[int, Feed]], report: Report,
) -> None:  # fmt: skip
    """Run feeds until cancelled: this process's share of users' connections, and the operator's feeds `own`.

    complete: whether the registry of this process lists every stream.
    """
    reference = installation.reference
    market = MarketContext(reference.universe, reference.calendar, installation.clock)
    with own_spool(installation.settings.folder / SPOOL_FOLDER) as spool:
        streams = RemoteStreams(
            spool, StreamOwnerClient(calls), market, installation.registry, complete, report
        )
        supervisor = ConnectionSupervisor(streams, parts_of(installation), several=True)
        async with BackgroundTasks(report) as tasks:
            tasks.start("spool", streams.run())
            for owner, feed in own:
                streams.attach(owner, feed)
            await SharedConnections(supervisor, partitions, calls).run()


@contextmanager
def own_spool(folder: Path, limit_bytes: int = SPOOL_BYTES) -> Generator[Spool]:
    """Open an empty spool (queue of pushes on disk) for this process only.

    The spool need not survive its process, because vendors resend the trades that an ended process did not pass on.
    """
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
