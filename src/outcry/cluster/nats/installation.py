"""Check that no other Outcry installation uses the same NATS account.

The first process stores the id of its installation in NATS permanently. A process with another id waits and does not
join the cluster, because two installations on one account would acquire each other's streams.
"""

import asyncio
import secrets
from contextlib import suppress

from outcry.base.log_events import LogEvent, Report
from outcry.cluster.calls import BusDown
from outcry.cluster.nats.link import BusRefused, Link
from outcry.cluster.nats.message_store import MessageStore, WriteConflict

STREAM = {"name": "BELONGS", "subjects": ["belongs"], "max_msgs_per_subject": 1, "storage": "file"}
_SUBJECT = "belongs"
_RETRY_S = 1.0
#: First and longest wait (s) for JetStream, which loses requests while its servers elect a leader.
_FIRST_S, _LONGEST_S = 1.0, 8.0
_ANOTHERS = (
    "the bus is of a cluster with another OUTCRY_SECRET, so this process takes no part: give each cluster a NATS "
    f"account of its own, or, if the secret was changed, remove the stream {STREAM['name']}"
)


async def claim_bus(link: Link, mark: str, report: Report) -> None:
    """Wait until NATS stores the id of our installation (`mark`), and store it if there is none.

    Report each new reason for waiting.
    """
    marks, reported, patience_s = MessageStore(link, STREAM), "", _FIRST_S
    while True:
        try:
            await link.up()
            async with asyncio.timeout(patience_s):
                stored = await _mark(marks, mark)
            if stored == mark:
                return
            problem = _ANOTHERS
        except (BusDown, BusRefused) as fault:
            problem = str(fault)
        except TimeoutError:
            problem, patience_s = "JetStream does not answer", min(2 * patience_s, _LONGEST_S)
        if problem != reported:
            reported = problem
            report(LogEvent.CLUSTER_NOT_JOINED, problem=problem)
        await asyncio.sleep(_RETRY_S)


async def _mark(marks: MessageStore, mark: str) -> str:
    """Return the installation id that NATS stores, after storing ours if there was none."""
    newest = await marks.newest(_SUBJECT)
    if newest is None:
        with suppress(WriteConflict):
            await marks.add(_SUBJECT, mark.encode(), 0, secrets.token_hex(8))
            return mark
        newest = await marks.newest(_SUBJECT)
    return newest.body.decode() if newest is not None else ""
