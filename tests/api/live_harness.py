"""Live feeds driven by a test: channels it updates, alerts it records, and a reader of the event stream."""

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from types import TracebackType
from typing import Any

import msgspec
from tests.api.harness import FakeQuery, FakeResult, Harness, MemoryAccounts, build_harness
from tests.api.sample_answers import ANSWERS
from tests.sample_live_session import VIEW

from outcry.access.licences import Scope
from outcry.access.model import GrantRow
from outcry.answers.query import SymbolStatus
from outcry.base.errors import NoLicensedSource, UnknownSymbol
from outcry.live.model import AlertRow, StreamKey
from outcry.live.registry import Availability, Channel, Registry
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract, Universe, UnknownName
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.live_session import LiveView
from outcry.market.units import NANOS_PER_MS, NANOS_PER_SECOND
from outcry.trades.reference_tables import load_reference

UNIVERSE = load_reference().universe
DAY = date(2026, 1, 2)
LIVE = Availability(live=True, reason="live", market_ns=0, trade_date=DAY)
AT_NS = 1_767_366_245_000_000_000
BEGIN_NS = 1_767_366_000_000_000_000  # 2026-01-02T15:00Z


class Feed:
    """One channel: its price, its developing POC, and the length of its list of naked POCs."""

    def __init__(self, registry: Registry, owner: int, root: str, feed: str = "demo") -> None:
        contract = Contract(root, 2026, 3)
        self.channel = Channel(StreamKey(owner, feed, contract), simulated=True, peek=self.view)
        self.price, self.poc, self.at_ms, self.pocs = 6900.0, 6890.0, 0, 1
        self._registry = registry
        registry.put(self.channel)
        self.stand(LIVE)

    def stand(self, availability: Availability) -> None:
        self._registry.set_availability(self.channel, availability)

    def move(self, *, price: float | None = None, poc: float | None = None) -> None:
        """Simulate a trade that sets the price and optionally the profile."""
        self.price = self.price if price is None else price
        self.poc = self.poc if poc is None else poc
        self.at_ms += 1
        self.channel.version += 1

    def view(self) -> LiveView:
        """Return the sample session with this price, developing POC and list of naked POCs."""
        contract = self.channel.key.contract
        tick_e9 = UNIVERSE.products[contract.root].tick_e9
        price_ticks, poc_ticks = (round(price * 1e9) // tick_e9 for price in (self.price, self.poc))
        carried = CarriedLevels((CarriedLevel(poc_ticks, date(2025, 12, 31)),) * self.pocs, (), ())
        return replace(
            VIEW, opening=replace(VIEW.opening, contract=contract.key, root=contract.root, carried=carried),
            last_ticks=price_ticks, last_ns=BEGIN_NS + self.at_ms % 1000 * NANOS_PER_MS,
        )  # fmt: skip


class BoardQuery(FakeQuery):
    """Query that answers live from a registry, else `delayed` for ES and CL; knows all products."""

    def __init__(self, accounts: MemoryAccounts, registry: Registry, universe: Universe = UNIVERSE) -> None:
        super().__init__(accounts)
        self._registry, self._universe = registry, universe
        self.completed = {"ES", "CL"}

    def watch(self, scope: Scope, symbol: str, now_ns: int) -> SymbolStatus:
        try:
            meant = self._universe.resolve(symbol, DAY)
        except UnknownName as problem:
            raise UnknownSymbol("unknown_symbol", symbol=symbol, suggestions=[]) from problem
        root, contract = meant.product.root, meant.contract
        seen = self._registry.find(scope, root, contract)
        reasons = [seen.channel.availability.reason for seen in self._registry.channels(scope, root)]
        return SymbolStatus(root, contract, seen, "live" if seen else (reasons or ["no_connection"])[0])

    def levels(self, scope: Scope, symbol: str | None, now_ns: int) -> Any:
        self.calls.append(("levels", scope.user_id, symbol))
        if self.failure is not None:
            raise self.failure
        root = self._universe.resolve(symbol or "", DAY).product.root
        if root not in self.completed:
            raise NoLicensedSource("no_licensed_source", symbol=root, reasons=[])
        whole: Any = ANSWERS["LevelsAnswer"]
        prior = msgspec.structs.replace(whole.prior, poc=self.poc)
        return FakeResult(msgspec.structs.replace(whole, symbol=root, prior=prior), self.fresh_until_ns)

    def symbols(self, scope: Scope, now_ns: int) -> Any:
        whole: Any = ANSWERS["SymbolsAnswer"]
        one = whole.symbols[0]
        states = [msgspec.structs.replace(one, symbol=root, data_source="delayed") for root in self.completed]
        return FakeResult(msgspec.structs.replace(whole, symbols=states))


class Archive:
    """In-memory alert store with those methods of `LiveStore` that streams use."""

    def __init__(self) -> None:
        self.rows: list[AlertRow] = []
        self.asked = 0

    def alerts(self, owners: Any, *, after_seq: int = 0, before_seq: int | None = None, limit: int = 1000,
               newest_first: bool = False, **_: Any) -> list[AlertRow]:  # fmt: skip
        self.asked += 1
        found = [
            row
            for row in self.rows
            if row.owner in owners and row.seq > after_seq and (before_seq is None or row.seq < before_seq)
        ]
        return (found[::-1] if newest_first else found)[:limit]

    def last_seq(self) -> int:
        return self.rows[-1].seq if self.rows else 0


class Market:
    """A registry, a service that uses it, and methods that change both."""

    def __init__(self, parts: dict[str, Any] | None = None, **options: Any) -> None:
        self.registry = Registry()
        self.archive = Archive()
        self.harness: Harness = build_harness(
            lambda accounts: BoardQuery(accounts, self.registry),
            self.registry,
            {"universe": UNIVERSE, "alerts": self.archive} | (parts or {}),
            **options,
        )
        self._lock = threading.Lock()

    def feed(self, root: str, owner: int = 0, feed: str = "demo") -> Feed:
        return Feed(self.registry, owner, root, feed)

    def grant(self, *roots: str) -> int:
        """Grant all users the operator's live feed of these products."""
        return self.harness.accounts.add_grant(GrantRow(0, "everyone", "live", roots, None, None, 0, None), 0)

    def alert(self, root: str = "ES", owner: int = 0, feed: str = "demo", **more: Any) -> AlertRow:
        """Record and publish one alert with the next `seq`."""
        with self._lock:
            row = make_alert(root, self.archive.last_seq() + 1, owner, feed, **more)
            self.archive.rows.append(row)
            self.registry.post([row])
        return row

    def stream(self, key: str | None, path: str = "/api/stream", **headers: str) -> "StreamReader":
        return StreamReader(self.harness, key, path, **headers)


def make_alert(root: str, seq: int, owner: int = 0, feed: str = "demo", **more: Any) -> AlertRow:
    at_ns = AT_NS + seq * NANOS_PER_SECOND
    row = AlertRow(
        owner=owner, feed=feed, contract=f"{root}H2026", symbol=root, type=AlertType.IB_BREAK_UP, severity="critical",
        session=SessionKind.RTH, trade_date=DAY, key=f"{root}:ib-break-up:{at_ns // 1_000_000}", at_ns=at_ns,
        price_e9=6900_250_000_000, ref="IBH", params={"ibHigh": 6900_000_000_000, "rule": "v1"}, invented=True, seq=seq,
    )  # fmt: skip
    return replace(row, **more)


@dataclass(frozen=True)
class Event:
    name: str
    data: Any
    id: str | None

    @property
    def seq(self) -> int:
        assert self.id is not None
        return int(self.id)


class StreamReader:
    """Reads one stream."""

    def __init__(self, harness: Harness, key: str | None, path: str = "/api/stream", **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["x-api-key"] = key
        self._connection.request("GET", path, headers=sent)
        self.response = self._connection.getresponse()
        self.status = self.response.status
        self.headers = {name.lower(): value for name, value in self.response.getheaders()}
        self.comments: list[str] = []
        self.retry: str | None = None

    def __enter__(self) -> "StreamReader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.response.close()
        self._connection.close()

    def refusal(self) -> Any:
        return json.loads(self.response.read())

    def next(self) -> Event:
        """Return the next event. Raises `EOFError` at the end of the stream and `TimeoutError` after ten seconds."""
        fields: dict[str, str] = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                raise EOFError
            line = line.removesuffix("\n")
            if line.startswith(":"):
                self.comments.append(line)
            elif line.startswith("retry: "):
                self.retry = line.removeprefix("retry: ")
            elif line:
                name, _, value = line.partition(": ")
                assert name not in fields
                fields[name] = value
            elif fields:
                return Event(fields["event"], json.loads(fields["data"]), fields.get("id"))

    def until(self, name: str) -> Event:
        """Return the next event of a name; skip earlier ones."""
        while (found := self.next()).name != name:
            pass
        return found

    def rest(self) -> Iterator[Event]:
        """Return all remaining events."""
        while True:
            try:
                yield self.next()
            except EOFError:
                return
