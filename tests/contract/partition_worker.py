"""A process that shares partitions: `python -m tests.contract.partition_worker <urls> <file>`.

It writes each change of ownership to the file with the machine's monotonic time. SIGTERM ends it.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress

from outcry.base.log_events import discard
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.partitions import NatsPartitions
from outcry.cluster.nats.presence import NatsPresence


async def main(urls: str, path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(word: str, detail: object) -> None:
        os.write(file, f"{time.monotonic_ns()} {word} {detail}\n".encode())

    async def gained(partition: int) -> None:
        note("gained", partition)

    async def lost(partition: int) -> None:
        note("lost", partition)

    async with Link(urls, discard) as link:
        presence = NatsPresence(link)
        partitions = NatsPartitions(link, presence, "engine", discard)
        running = asyncio.create_task(partitions.run(gained, lost))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        before: frozenset[int] | None = None
        looked_ns = time.monotonic_ns()
        while not running.done():
            before_ns, looked_ns = looked_ns, time.monotonic_ns()
            owned = partitions.owned
            if owned != before:
                note("owned", f"{before_ns} {','.join(map(str, sorted(owned)))}")
                before = owned
            await asyncio.sleep(0.005)
        with suppress(asyncio.CancelledError):
            await running


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
