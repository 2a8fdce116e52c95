"""The whole service in a separate process, fed at a fixed rate: `python -m bench.service '{"data": ...}'`.

It prints a JSON line with its port once it answers, and one with the start of its feeds. When it ends, it writes its
notes of every event and alert to `out`, as numpy arrays.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any

import msgspec
import numpy as np
import uvloop
from bench.paced_feed import BASE_NS, PacedFeed, Zero
from bench.tape import EVERYTHING, FEEDS, contracts, regular_hours

from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.http.server import Binding, serve
from outcry.market.instruments import Contract
from outcry.trades.feed import Cursor, Feed


class Task(msgspec.Struct, kw_only=True):
    """Parameters of a run.

    feeds: number of feeds, of thirty products each. asked_each: number of events of a stream after which its levels are
    requested in process; 0: never. bare: seconds to run only the feeds, without the service.
    """

    data: str
    out: str
    rows_a_beat: float
    beat_ms: int
    feeds: int = len(FEEDS)
    asked_each: int = 0
    bare: float = 0.0


class Notes:
    """Times of events and alerts (ns, monotonic)."""

    def __init__(self, task: Task) -> None:
        self._asked_each = task.asked_each
        self.installation: Installation | None = None
        self.events: list[tuple[int, int, int, int]] = []
        self.asked: list[tuple[int, int]] = []
        self.alerts: list[tuple[int, int, int]] = []
        self._numbers: dict[str, int] = {}
        self._since_asked = self._seq = 0

    def event(self, feed: str, contract: Contract, due_ns: int, sent_ns: int, taken_ns: int) -> None:
        """Record that an event was taken.

        At intervals, request the levels of its stream, if it belongs to the first feed.
        """
        number = self._numbers.setdefault(f"{feed}/{contract.root}", len(self._numbers))
        self.events.append((number, due_ns, sent_ns, taken_ns))
        installation = self.installation
        if installation is None or not self._asked_each or feed != FEEDS[0]:
            return
        self._since_asked += 1
        if self._since_asked >= self._asked_each:
            self._since_asked = 0
            installation.query.levels(EVERYTHING, contract.root, installation.clock.now_ns())
            self.asked.append((sent_ns, monotonic_ns()))

    def alerted(self) -> None:
        """Record that alerts are in the registry."""
        assert self.installation is not None
        posted_ns = monotonic_ns()
        rows, _ = self.installation.registry.alerts_after(self._seq)
        self._seq = rows[-1].seq if rows else self._seq
        for row in rows:
            number = self._numbers.get(f"{row.feed}/{row.symbol}")
            if number is not None and row.at_ns >= BASE_NS:
                self.alerts.append((number, row.at_ns, posted_ns))

    def save(self, path: Path, zero_ns: int) -> None:
        """Write all notes to a file."""
        np.savez(
            path, zero=zero_ns, base=BASE_NS, names=np.array(list(self._numbers)),
            events=np.array(self.events, np.int64).reshape(-1, 4),
            asked=np.array(self.asked, np.int64).reshape(-1, 2), alerts=np.array(self.alerts, np.int64).reshape(-1, 3),
        )  # fmt: skip


def main() -> None:
    """Serve until the process is asked to end."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    notes = Notes(task)
    with open_installation(read_settings({}, data=task.data)) as installation, installation.log.exclusively():
        rows = {
            contract: regular_hours(installation.reference, contract)
            for contract in contracts(installation.reference)
        }
        zero = Zero(task.feeds * len(rows), lambda at_ns: _say(zero=at_ns, base=BASE_NS))
        feeds = [
            PacedFeed(name, rows, zero, rows_a_beat=task.rows_a_beat, beat_ms=task.beat_ms, noted=notes.event)
            for name in FEEDS[: task.feeds]
        ]
        if task.bare:
            uvloop.run(_drained(feeds, task.bare))
        else:
            notes.installation = installation
            installation.registry.on_alerts(notes.alerted)
            serve(
                build_application(installation, [(0, feed) for feed in feeds]).application,
                Binding(port=0),
                lambda _host, port: _say(port=port),
            )
        notes.save(Path(task.out), zero.at_ns)


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def _drained(feeds: Sequence[Feed], seconds: float) -> None:
    """Run the same feeds without the service, to measure the delay of the machine itself."""

    async def take(feed: Feed, contract: Contract) -> None:
        async for _ in feed.open(contract, Cursor(0)):
            pass

    taking = [
        asyncio.create_task(take(feed, contract)) for feed in feeds for contract in await feed.contracts()
    ]
    await asyncio.sleep(seconds + 0.5)
    for task in taking:
        task.cancel()
    await asyncio.gather(*taking, return_exceptions=True)


if __name__ == "__main__":
    main()
