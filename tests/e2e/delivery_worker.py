"""Record and deliver alerts in processes that are killed repeatedly, then check what arrived.

Run as `python -m tests.e2e.delivery_worker FOLDER ALERTS SEED WORKERS [DATABASE]`. It prints counts; exit status 1 if
anything is wrong. DATABASE: its URL, unless it is SQLite's in FOLDER. Processes are forked from a parent with all
imports and neither threads nor a database: a TLS endpoint that records its requests, a service that records and
delivers alerts, and more workers on the same outbox. Every five seconds one of these is killed and restarted, mostly
during a particular step (`SharedSteps`). On SQLite all clocks run twelve times as fast, so that a lease of a minute
expires in five seconds; PostgreSQL notices a dead worker earlier.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from sqlalchemy import text
from tests.e2e.delivery_play import ENDPOINTS, alert, faults, receive, symbols
from tests.e2e.kill_worker import SharedSteps, Worker, say

from outcry.access.licences import Audience
from outcry.app.answering import discard
from outcry.base.encryption import Encryptor
from outcry.database import migrate as migration
from outcry.database.database import Database, open_engine, sqlite_url
from outcry.delivery.dispatcher import Dispatcher, Parts
from outcry.delivery.egress import Egress
from outcry.delivery.fan_out import OutboxEntries
from outcry.delivery.https_webhook import HttpsSender
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.notices import OwnerNotices
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import EntryPhase
from outcry.delivery.resolver import GuardedResolver
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.delivery.subscriptions import place_of
from outcry.delivery.trust import system_trust
from outcry.delivery.url_rule import read_rule
from outcry.live.model import FanOut
from outcry.live.store import LiveStore
from outcry.sessions.store import SqlStore

#: Parts of a worker's work, and of how many kills one is aimed at each; what is not listed can fall at any moment.
AIMED = ("recording", "claiming", "recording", "", "firing", "claiming")
#: Names of steps in `SharedSteps`: the outbox stores results, it claims due messages, alerts are recorded.
SHOWN_AS = {"recording": "archive", "claiming": "snapshot", "firing": "alerts"}
KILLED_EACH_S = 5.0
#: How often the clock's seconds come in one of ours.
SPEED = 12
BATCH, EACH_S, SLOWLY_S = 20, 0.05, 0.2
STREAM = "0/demo/all"
SECRET = "whsec_" + "QUJDREVGR0g" * 4
EVERYONE = Audience(everyone=True, tiers=frozenset(), users=frozenset())
#: Much longer than it takes; but a machine may be busy.
PATIENCE_S = 600.0


class FastClock:
    """Implements `Clock`, so many times as fast as the machine's."""

    def __init__(self, began_ns: int, speed: int) -> None:
        self._began_ns, self._speed = began_ns, speed

    def now_ns(self) -> int:
        return self._began_ns + (time.time_ns() - self._began_ns) * self._speed  # noqa: TID251 - a clock of its own


@dataclass(frozen=True)
class Workload:
    """What a campaign does: its folder, the number of alerts, and its start."""

    folder: Path
    alerts: int
    began_ns: int
    port: int
    url: str

    def clock(self) -> FastClock:
        return FastClock(self.began_ns, SPEED if self.is_sqlite else 1)

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def database(self) -> Database:
        return Database(open_engine(self.url))

    def encryptor(self) -> Encryptor:
        return Encryptor(b"a secret of these tests", "subscriptions")


# -- the three processes


def deliver(workload: Workload, steps: SharedSteps, name: str, *, fires: bool) -> None:
    """Deliver until killed; with `fires`, record alerts too, from where the last one of these processes came to."""
    for owner, method, part in ((SqlOutbox, "record", "recording"), (SqlOutbox, "claim", "claiming"),
                                (LiveStore, "record_alerts", "firing")):  # fmt: skip
        steps.watch(owner, method, SHOWN_AS[part])
    database, clock = workload.database(), workload.clock()

    async def run() -> None:
        trust = system_trust(str(workload.folder / "certificate.pem"))
        egress = Egress(GuardedResolver(read_rule("", f"127.0.0.1:{workload.port}")), trust)
        sender = HttpsSender(egress, "http://localhost:8000", clock)
        nobody = cast("OwnerNotices", SimpleNamespace(warned=lambda *_: None, switched_off=lambda *_: None))
        parts = Parts(SqlOutbox(database), {Target.HTTPS: sender}, workload.encryptor(), clock, nobody, name)
        dispatcher = Dispatcher(parts)
        dispatcher.report = lambda event, **details: discard(sys.stderr.write(f"{event} {details}\n"))
        delivering = asyncio.create_task(dispatcher.run())
        if fires:
            await _fire(workload, database, clock, dispatcher)
        await delivering

    asyncio.run(run())


async def _fire(workload: Workload, database: Database, clock: FastClock, dispatcher: Dispatcher) -> None:
    live = LiveStore(database, OutboxEntries())
    at = live.position(STREAM)
    while at < workload.alerts:
        rows = [alert(number) for number in range(at, min(at + BATCH, workload.alerts))]
        at += len(rows)
        fan_out = FanOut(lambda _owner, _root: EVERYONE, clock.now_ns())
        await asyncio.to_thread(live.record_alerts, rows, {STREAM: at}, fan_out)
        dispatcher.wake()
        await asyncio.sleep(EACH_S if workload.is_sqlite else SLOWLY_S)


# -- the parent


def prepare(workload: Workload) -> None:
    """A database with subscriptions: the first for every symbol, each other for one."""
    engine = open_engine(workload.url)
    migration.migrate(engine)
    database, encryptor = Database(engine), workload.encryptor()
    user = SqlStore(database).ensure_user("ann@example.com", workload.began_ns)
    store = SqlSubscriptionStore(database)
    for number in range(ENDPOINTS):
        created_ns = workload.began_ns + number
        place = place_of(user, created_ns)
        address = f"https://127.0.0.1:{workload.port}/in/{number}"
        store.add_subscription(
            SubscriptionRow(
                id=0, user_id=user, target=Target.HTTPS, label=str(number), shown="127.0.0.1",
                sealed_address=encryptor.encrypt(address, place), symbols=symbols(number), min_severity="info",
                phase=SubscriptionPhase.ACTIVE, reason="", sealed_secret=encryptor.encrypt(SECRET, place),
                secret_last4="AAAA", sealed_old_secret=None, old_until_ns=None, created_ns=created_ns,
            ),
            ENDPOINTS,
        )  # fmt: skip
    database.close()


class Campaign:
    """Workers, killed in turn until all alerts are recorded and delivered. The first records them too."""

    def __init__(self, workload: Workload, seed: int, workers: int) -> None:
        self._workload, self._chance = workload, random.Random(seed)
        self._steps = [SharedSteps() for _ in range(workers)]
        self._names = 0
        self._workers = [self._start(which) for which in range(workers)]
        self.killed_s: list[float] = []
        self.hit: Counter[str] = Counter()

    def run(self) -> None:
        """Kill as long as alerts are recorded; then let all come to the end of it."""
        deadline_s = next_s = time.monotonic()
        deadline_s += PATIENCE_S
        next_s += KILLED_EACH_S
        while any(left := still(self._workload)):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"after {PATIENCE_S} s {left} are still to be recorded and delivered")
            if time.monotonic() >= next_s and left[0]:
                self._strike()
                next_s = time.monotonic() + KILLED_EACH_S
            time.sleep(0.3)

    def end(self) -> None:
        """Let no process stay."""
        for worker in self._workers:
            worker.kill()

    def _strike(self) -> None:
        """Kill a worker in the part of its work that it is aimed at, and start another."""
        kills = len(self.killed_s)
        aim = AIMED[kills % len(AIMED)]
        which = 0 if aim == "firing" else kills % len(self._workers)
        steps, worker = self._steps[which], self._workers[which]
        end_s = time.monotonic() + 10.0
        while aim and SHOWN_AS[aim] not in steps.now() and time.monotonic() < end_s:
            time.sleep(0.0002)
        time.sleep(self._chance.uniform(0.0, 0.002))
        now = steps.now()
        worker.kill()
        self.killed_s.append(time.monotonic())
        self.hit.update([part for part, name in SHOWN_AS.items() if name in now] or ["nothing of these"])
        self._workers[which] = self._start(which)

    def _start(self, which: int) -> Worker:
        self._names += 1
        self._steps[which].clear()
        work = partial(deliver, self._workload, self._steps[which], f"worker {self._names}", fires=which == 0)
        return Worker(work, self._workload.folder / "said")


def still(workload: Workload) -> tuple[int, int]:
    """How many alerts are still to be recorded, and how many entries to be delivered."""
    path = workload.folder / "still"

    def count() -> None:  # in a process of its own: no database may be open where others are forked
        with workload.database().reading() as connection:
            recorded = connection.exec_driver_sql("select count(*) from alerts").scalar_one()
            waiting = text("select count(*) from outbox where phase = :phase")
            entries = connection.execute(waiting, {"phase": EntryPhase.WAITING.value}).scalar_one()
        path.write_text(f"{workload.alerts - recorded} {entries}")

    Worker(count, workload.folder / "said").finish()
    alerts, entries = map(int, path.read_text().split())
    return alerts, entries


def main(folder: str, alerts: int, seed: int, workers: int, url: str = "") -> int:
    home, began_s = Path(folder), time.monotonic()
    home.mkdir(parents=True)
    endpoint = Worker(partial(receive, home), home / "said")
    try:
        while not (home / "port").exists():
            assert not endpoint.done()
            time.sleep(0.01)
        began_ns = time.time_ns()  # noqa: TID251 - the clock's zero
        workload = Workload(
            home, alerts, began_ns, int((home / "port").read_text()), url or str(sqlite_url(home))
        )
        Worker(partial(prepare, workload), home / "said").finish()
        campaign = Campaign(workload, seed, workers)
        try:
            campaign.run()
        finally:
            campaign.end()
    finally:
        os.kill(endpoint.pid, signal.SIGTERM)
        endpoint.finish()
    received = [json.loads(line) for line in (home / "received").read_text().splitlines()]
    again = len(received) - len({line["id"] for line in received})
    hits = ", ".join(f"{part} {count}" for part, count in campaign.hit.most_common())
    say(
        f"{len(campaign.killed_s)} kills, {len(received)} requests, {again} repeats, "
        f"{time.monotonic() - began_s:.0f} s; during: {hits}"
    )
    wrong = list(faults(alerts, received, campaign.killed_s))
    for line in wrong[:20]:
        say(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:]))
