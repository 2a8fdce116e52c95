"""A delivery worker with its own database: bulk subscriptions, fired alerts, and progress."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from os import getpid
from pathlib import Path

import msgspec
from bench.endpoints import CERTIFICATE, DOMAIN, Taken, number_of
from sqlalchemy import text
from support.resolvers import ScriptedResolver

from outcry.access.licences import Audience
from outcry.base.clock import SystemClock
from outcry.base.encryption import Encryptor
from outcry.database import schema
from outcry.database.database import Database, open_engine, sqlite_url
from outcry.database.migrate import migrate
from outcry.delivery.dispatcher import Dispatcher, Parts
from outcry.delivery.egress import Egress
from outcry.delivery.fan_out import OutboxEntries
from outcry.delivery.https_webhook import HttpsSender
from outcry.delivery.model import Target
from outcry.delivery.notices import OwnerNotices
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import EntryPhase, Message
from outcry.delivery.resolver import GuardedResolver
from outcry.delivery.signing_secrets import place_of
from outcry.delivery.trust import system_trust
from outcry.delivery.url_rule import read_rule
from outcry.http.server import collect_rarely
from outcry.live.model import AlertRow, FanOut
from outcry.live.store import LiveStore
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.sessions.store import SqlStore

SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU="
#: Subscriptions created in one transaction, and the time limit for all their queues (s).
_AT_ONCE, _PATIENCE_S = 2_000, 120.0
_EVERYONE = Audience(everyone=True, tiers=frozenset(), users=frozenset())


class _Nobody(OwnerNotices):
    """Ignores notices of failing endpoints."""

    def __init__(self) -> None: ...

    def warned(self, message: Message, hours: int) -> None: ...

    def switched_off(self, message: Message, reason: str) -> None: ...


@dataclass
class Endpoints:
    """The endpoints' process: its port, and the path of its certificate."""

    process: "subprocess.Popen[bytes]"
    port: int
    certificate: Path

    def url(self, host: int, path: str) -> str:
        """Return a URL there; each host has its own name and IP address."""
        return f"https://h{host}.{DOMAIN}:{self.port}/{path}"

    def taken(self) -> Sequence[Taken]:
        """Return the requests received since the last call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return msgspec.json.decode(self.process.stdout.readline(), type=list[Taken])


@contextmanager
def endpoints(folder: Path, hosts: int) -> Generator[Endpoints]:
    """Run endpoints on this many hosts for the duration of the context."""
    call = [sys.executable, "-m", "bench.endpoints", str(folder), str(hosts)]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield Endpoints(process, int(process.stdout.readline()), folder / CERTIFICATE)
        finally:
            process.kill()


def resolve(name: str) -> Sequence[str]:
    """Return the IP address of an endpoint's name."""
    return [number_of(int(name.partition(".")[0].removeprefix("h")))]


class Worker:
    """A dispatcher with its dependencies, used on one event loop.

    `url`: of a database shared by several workers; by default SQLite in the folder.
    """

    def __init__(self, folder: Path, there: Endpoints, hosts: int, url: str = "") -> None:
        folder.mkdir()
        engine = open_engine(url or sqlite_url(folder))
        migrate(engine)
        self.database, self.clock = Database(engine), SystemClock()
        self.live = LiveStore(self.database, OutboxEntries())
        self._encryptor = Encryptor(b"a secret of the bench", "subscriptions")
        self._user = SqlStore(self.database).ensure_user("ann@example.com", 1)
        admitted = ",".join(f"h{host}.{DOMAIN}:{there.port}" for host in range(hosts))
        refusing = f"h0.{DOMAIN}:1"  # without a listener
        trust = system_trust(str(there.certificate))
        rule = read_rule("", f"{admitted},{refusing}")
        scripted = ScriptedResolver(resolve)
        self.egress = Egress(GuardedResolver(rule, public=scripted, private=scripted), trust)
        sender = HttpsSender(self.egress, "http://localhost:8000", self.clock)
        parts = Parts(
            SqlOutbox(self.database),
            {Target.HTTPS: sender},
            self._encryptor,
            self.clock,
            _Nobody(),
            f"bench{getpid()}",
        )
        self.dispatcher = Dispatcher(parts)
        self.said: list[str] = []
        self.dispatcher.report = lambda event, **details: self.said.append(f"{event} {details}")
        self._fired = 0

    def subscribe(self, addresses: Sequence[str], symbols: Sequence[str]) -> None:
        """Add subscriptions, each for one symbol; an empty symbol means all."""
        rows = [
            {
                "user_id": self._user, "target": "https", "label": "", "shown": "", "symbols": symbol,
                "min_severity": "info", "phase": "active", "reason": "", "secret_last4": "", "created_ns": at,
                "sealed_address": self._encryptor.encrypt(address, place_of(self._user, at)),
                "sealed_secret": self._encryptor.encrypt(SECRET, place_of(self._user, at)),
            }
            for at, (address, symbol) in enumerate(zip(addresses, symbols, strict=True))
        ]  # fmt: skip
        for at in range(0, len(rows), _AT_ONCE):
            with self.database.write("people") as connection:
                connection.execute(schema.subscriptions.insert(), rows[at : at + _AT_ONCE])
        with self.database.write("people", patience_s=_PATIENCE_S) as connection:
            connection.exec_driver_sql("insert into lanes (subscription_id) select id from subscriptions")

    def subscribe_all(self, address: str, count: int) -> None:
        """Add this many subscriptions for every symbol, to which nothing is sent."""
        self.subscribe([address], [""])
        with self.database.write("people") as connection:
            names = ", ".join(column.name for column in schema.subscriptions.c if column.name != "id")
            numbers = "with recursive n(i) as (select 2 union all select i + 1 from n where i < ?)"
            connection.exec_driver_sql(
                f"insert into subscriptions ({names}) {numbers} select {names} from subscriptions, n",
                (count,),
            )
            connection.exec_driver_sql(
                "insert into lanes (subscription_id) select id from subscriptions where id > 1"
            )

    def fire(self, symbol: str = "ES") -> str:
        """Record one alert; return its key."""
        self._fired += 1
        key = f"{symbol}:ib-break-up:{self._fired}"
        row = AlertRow(
            owner=0, feed="demo", contract=f"{symbol}H2026", symbol=symbol, type=AlertType.IB_BREAK_UP,
            severity="warn", session=SessionKind.RTH, trade_date=date(2026, 1, 2), key=key,
            at_ns=self.clock.now_ns(), price_e9=5_000_250_000_000, ref="IBH",
            params={"ibHigh": 5_000_000_000_000}, invented=False,
        )  # fmt: skip
        self.live.record_alerts([row], {}, FanOut(lambda _owner, _root: _EVERYONE, self.clock.now_ns()))
        return key

    def waiting(self) -> int:
        """Return the number of entries still to be delivered."""
        count = text("select count(*) from outbox where phase = :phase")
        with self.database.reading() as connection:
            return connection.execute(count, {"phase": EntryPhase.WAITING.value}).scalar_one()

    async def run(self) -> "asyncio.Task[None]":
        """Start delivering; garbage is collected as rarely as in the service."""
        collect_rarely()
        return asyncio.create_task(self.dispatcher.run())

    async def end(self, running: "asyncio.Task[None]") -> None:
        """Stop delivering."""
        gc.unfreeze()
        running.cancel()
        await asyncio.wait([running])
        await self.egress.close()
        self.dispatcher.close()
        self.database.close()
        if self.said:
            raise RuntimeError(f"the worker complained: {self.said[:3]}")
