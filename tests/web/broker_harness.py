"""Scripted broker connections on a complete service: one of each kind of broker, in the status a test sets."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast
from unittest.mock import patch

from outcry.app.people import People
from outcry.base.log_events import EventLog
from outcry.connections.model import (
    Broker,
    BrokerField,
    CheckStep,
    ConnectionPhase,
    ConnectionRefused,
    ConnectionRow,
    Finding,
)
from outcry.connections.pushed import PushedConnections
from outcry.connections.service import BrokerConnections
from outcry.http.edge import AsgiApp
from outcry.live.registry import Registry
from outcry.web.page_services import UsageOf

ACME = Broker(
    "acme",
    "Acme <Futures>",
    (
        BrokerField("user", "User name", hint="As on the card"),
        BrokerField("password", "Password", secret=True),
        BrokerField("market", "Market", options=("CME", "Eurex")),
        BrokerField("app", "API key name", usual="Outcry", optional=True),
    ),
    hosted=True,
)
HOMELY = Broker(
    "homely", "Homely", (BrokerField("port", "Port", usual="7496"),), hosted=False, extra="homely"
)
AWAY = Broker("away", "Away", (), hosted=True, extra="away", installed=False)
GIVEN = {"user": "ann", "password": "correct horse", "market": "CME", "label": "Mine", "roots": ["ES", "NQ"]}
FOUND = (
    Finding(CheckStep.SIGN_IN, "", passed=True, code="ok"),
    Finding(CheckStep.SUBSCRIBED, "ESH2026", passed=True, code="ok"),
    Finding(CheckStep.HISTORY, "ESH2026", passed=True, code="ticks"),
    Finding(CheckStep.LIVE, "ESH2026", passed=True, code="ok"),
    Finding(CheckStep.SUBSCRIBED, "NQH2026", passed=False, code="not_entitled"),
    Finding(CheckStep.HISTORY, "NQH2026", passed=None, code="not_tried"),
)


class ScriptedConnections:
    """Stands in for `BrokerConnections`: refuses a password it does not know; a connection moves when told."""

    def __init__(self, brokers: Sequence[Broker] = (ACME, HOMELY, AWAY)) -> None:
        self._brokers = brokers
        self.registry: Registry | None = None
        self.rows: dict[int, ConnectionRow] = {}
        #: What was entered, newest last.
        self.given: list[Mapping[str, str]] = []
        #: What a check finds, and what it waits for first.
        self.findings: Sequence[Finding] | None = FOUND
        self.check_fails: Exception | None = None
        self.held = False

    def put(self, row: ConnectionRow) -> ConnectionRow:
        self.rows[row.id] = row
        return row

    def move(self, number: int, phase: ConnectionPhase, code: str) -> None:
        self.rows[number] = replace(self.rows[number], phase=phase, code=code)

    def brokers(self) -> Sequence[Broker]:
        return self._brokers

    def connectable(self, broker: Broker) -> bool:
        return broker.hosted and broker.installed

    def connections(self, user_id: int) -> Sequence[ConnectionRow]:
        own = [row for row in self.rows.values() if row.user_id == user_id]
        pushed = PushedConnections(self.registry) if self.registry else None
        return [*own, *(pushed.connections(user_id, {row.broker for row in own}) if pushed else ())]

    def counts(self) -> Mapping[ConnectionPhase, int]:
        return Counter(row.phase for row in self.rows.values())

    def connect(
        self,
        user_id: int,
        broker: str,
        label: str,
        given: Mapping[str, str],
        roots: Sequence[str],
        now_ns: int,
    ) -> int:
        self._judge(given)
        if any((row.user_id, row.broker) == (user_id, broker) for row in self.rows.values()):
            raise ConnectionRefused("already_connected", "broker")
        number = max(self.rows, default=0) + 1
        self.put(
            ConnectionRow(
                number, user_id, broker, label, ConnectionPhase.CONNECTING, "connecting", now_ns, tuple(roots),
                given.get("password", "")[-4:],
            )
        )  # fmt: skip
        return number

    def _judge(self, given: Mapping[str, str]) -> None:
        if "correct" not in given.get("password", "correct"):
            raise ConnectionRefused("rejected", "password")
        self.given.append(dict(given))

    def renew(self, user_id: int, connection_id: int, given: Mapping[str, str], now_ns: int) -> bool:
        self._judge(given)
        row = self.rows[connection_id]
        self.put(replace(row, hint=given.get("password", "")[-4:]))
        self.move(connection_id, ConnectionPhase.CONNECTING, "connecting")
        return row.user_id == user_id

    def choose(self, user_id: int, connection_id: int, roots: Sequence[str], label: str) -> bool:
        self.put(replace(self.rows[connection_id], symbols=tuple(roots), label=label))
        return self.rows[connection_id].user_id == user_id

    def pause(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        self.move(connection_id, ConnectionPhase.PAUSED, "paused")
        return self.rows[connection_id].user_id == user_id

    def resume(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        self.move(connection_id, ConnectionPhase.CONNECTING, "connecting")
        return self.rows[connection_id].user_id == user_id

    def disconnect(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        row = self.rows.get(connection_id)
        if row is None or row.user_id != user_id:
            return False
        del self.rows[connection_id]
        return True

    async def check(self, user_id: int, connection_id: int) -> Sequence[Finding] | None:
        while self.held:
            await asyncio.sleep(0.01)
        if self.check_fails is not None:
            raise self.check_fails
        return self.findings


@contextmanager
def connected_by(connections: ScriptedConnections | None) -> Iterator[None]:
    """Pages that are put together meanwhile know these connections; None: their own. Every service of the process is
    meant, so it lasts only while one is put together."""
    if connections is None:
        yield
        return

    original = People.pages

    def pages(people: People, _connections: object, usage: UsageOf, event_log: EventLog) -> AsgiApp:
        connections.registry = people.installation.registry
        return original(people, cast("BrokerConnections", connections), usage, event_log)

    with patch.object(People, "pages", pages):
        yield
