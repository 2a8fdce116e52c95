"""Checks of the growing files.

At every replica, the profile of the running session must contain each of their trades once. The recorded alerts must
equal those that one process derives from the log of the stream.

The service follows a file in real time, and a trade that it reads too late fires no alert. The log states when each
trade was read, so the alerts are compared with the log, not with an undisturbed run.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import aiohttp
from sim.market import GrowingFile
from sim.processes import Processes, Worker

from outcry.access.licences import OPERATOR
from outcry.app.installation import Installation
from outcry.base.log_events import discard
from outcry.cluster.nats.log import JetStreamLog
from outcry.cluster.nats.thread import LinkThread
from outcry.live.alert_row import alert_row
from outcry.live.entries import Caught, part
from outcry.live.logged import LoggedStream
from outcry.live.model import StreamKey
from outcry.recordings.formats.scid import SOURCE


async def profile_differences(
    files: Sequence[GrowingFile], processes: Processes, installation: Installation, key: str
) -> list[str]:
    """Return where a replica's profile of a file's contract differs from the written trades, one line each."""
    faults: list[str] = []
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout, headers={"x-api-key": key}) as session:
        for file in files:
            expected = _volumes(file, installation)
            for api in processes.of("api"):
                try:
                    answer = await _get(session, api, f"/api/profile?symbol={file.contract.key}")
                    state = await _get(session, api, f"/api/context?symbol={file.contract.key}")
                except (aiohttp.ClientError, TimeoutError) as problem:
                    faults.append(f"{api.name} does not answer: {problem!r}")
                    continue
                rows = answer.get("rows", ())
                found = {round(row["price"] * 1e9): row["volume"] for row in rows if row["volume"]}
                if found != expected:
                    lots = f"{sum(found.values())} lots, not {sum(expected.values())}, {state.get('state', state)}"
                    faults.append(f"{api.name}, {file.contract.key} as it was followed: {lots}")
    return faults


async def _get(session: aiohttp.ClientSession, api: Worker, path: str) -> Any:
    async with session.get(f"http://127.0.0.1:{api.port}{path}") as answer:
        return await answer.json()


def _volumes(file: GrowingFile, installation: Installation) -> dict[int, int]:
    """Return the lots by price (10⁻⁹) of the running session."""
    session = installation.reference.calendar.session_at(file.contract.root, installation.clock.now_ns())
    found: Counter[int] = Counter()
    if session is not None:
        rows = file.rows
        mine = rows[(rows["ts_event"] >= session.open_ns) & (rows["ts_event"] < session.close_ns)]
        for price, size in zip(mine["price"].tolist(), mine["size"].tolist(), strict=True):
            found[price] += size
    return dict(found)


def alert_differences(
    files: Sequence[GrowingFile], processes: Processes, installation: Installation
) -> list[str]:
    """Return where the recorded alerts of a file's contract differ from those that its log fires. Blocking."""
    faults: list[str] = []
    with LinkThread(processes.cluster, discard) as thread:
        log = JetStreamLog(thread, discard)
        for file in files:
            key = StreamKey(OPERATOR, SOURCE, file.contract)
            wanted = asyncio.run(_alerts_of_log(log, key, installation))
            found = [
                row.key for row in installation.alerts.alerts([OPERATOR], limit=10**6)
                if (row.feed, row.contract) == (SOURCE, file.contract.key)
            ]  # fmt: skip
            if Counter(found) != Counter(wanted):
                faults.append(
                    f"{key.text}: {len(found)} alerts are recorded, and its log fires {len(wanted)}"
                )
    return faults


async def _alerts_of_log(log: JetStreamLog, key: StreamKey, installation: Installation) -> list[str]:
    """Return the keys of the alerts that the entries of a stream's log fire after the file's history was loaded."""
    tick_e9 = installation.reference.universe.products[key.contract.root].tick_e9
    found: list[str] = []

    stream = LoggedStream(key.text, tick_e9, log)
    for frame in log.read(key.text, 0):
        outcome = await stream.reapply(frame)
        found += [
            alert_row(key, tick_e9, opening, alert, simulated=False).key
            for opening, alert in (outcome.fired if outcome else ())
        ]
        _, entry = part(frame, frame.first, frame.first + frame.count)
        if isinstance(entry, Caught):  # alerts of the history before it are not reported
            found.clear()
    return found
