"""A real server on a real socket, with scripted store, queries and clock."""

import http.client
import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from tests.api.sample_answers import ANSWERS
from tests.timeouts import wait_until

from outcry.access.keys import ApiKeys
from outcry.access.licences import Licences, Scope
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.access.model import GrantRow, KeyRow, Role, Tier
from outcry.answers.live_answers import LiveAnswer
from outcry.answers.profile_request import ProfileRequest
from outcry.answers.query import SymbolStatus
from outcry.api.app import Application, Options, Services, create_app
from outcry.base.errors import NoLicensedSource, NotFound, UnknownSymbol
from outcry.database.errors import StoreBusy
from outcry.http.server import Binding, build_server
from outcry.live.registry import Registry
from outcry.wire.answers import Answer, HistoryAnswer, LevelsAnswer
from outcry.wire.profile import ProfileAnswer

SECOND = 1_000_000_000
START_NS = 1_767_366_245_123_000_000  # 2026-01-02T15:04:05.123Z
SERVER_SECRET = b"a secret only the tests know"
A = TypeVar("A", bound=Answer)


class HandClock:
    """Manually advanced clock."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self.at_ns = now_ns

    def now_ns(self) -> int:
        return self.at_ns


@dataclass
class MemoryAccounts:
    """In-memory `SqlAccounts`."""

    users: list[str] = field(default_factory=list)
    rows: list[KeyRow] = field(default_factory=list)
    granted: list[GrantRow] = field(default_factory=list)
    moves: int = 0
    asked: int = 0
    busy: bool = False

    def revision(self) -> int:
        self.asked += 1
        if self.busy:
            raise StoreBusy
        return self.moves

    def ensure_user(self, email: str, now_ns: int) -> int:
        if email.lower() not in self.users:
            self.users.append(email.lower())
        return self.users.index(email.lower()) + 1

    def find_user(self, email: str) -> int | None:
        return self.users.index(email.lower()) + 1 if email.lower() in self.users else None

    def add_key(
        self, user_id: int, tier: Tier, prefix: str, digest: bytes, now_ns: int, *, role: Role = "read",
        label: str = "", expires_ns: int | None = None, most: int | None = None,
    ) -> int | None:  # fmt: skip
        if most is not None and sum(row.is_live(now_ns) for row in self.keys(user_id)) >= most:
            return None
        self.moves += 1
        key_id = len(self.rows) + 1
        email = self.users[user_id - 1]
        row = KeyRow(key_id, user_id, email, tier, prefix, digest, now_ns, None, role, label, expires_ns)
        self.rows.append(row)
        return key_id

    def replace_key(
        self, user_id: int, key_id: int, prefix: str, digest: bytes, grace_ns: int, now_ns: int, *, most: int
    ) -> int | None:
        (old,) = [row for row in self.keys(user_id) if row.id == key_id]
        over_ns = None if old.expires_ns is None else now_ns + old.expires_ns - old.created_ns
        new = self.add_key(
            user_id,
            old.tier,
            prefix,
            digest,
            now_ns,
            role=old.role,
            label=old.label,
            expires_ns=over_ns,
            most=most,
        )
        if new is not None:
            ends_ns = min(now_ns + grace_ns, old.expires_ns or now_ns + grace_ns)
            self.change(old.id, expires_ns=ends_ns, replaced_by=new)
        return new

    def name_key(self, user_id: int, key_id: int, label: str) -> bool:
        mine = [row.id for row in self.keys(user_id) if row.id == key_id]
        return bool(mine) and self.change(key_id, label=label) is not None

    def revoke_key_of(self, user_id: int, key_id: int, now_ns: int) -> KeyRow | None:
        mine = [row.id for row in self.keys(user_id) if row.id == key_id and row.revoked_ns is None]
        return self.change(key_id, revoked_ns=now_ns) if mine else None

    def keys(self, user_id: int | None = None) -> Sequence[KeyRow]:
        return tuple(row for row in self.rows if user_id in (None, row.user_id))

    def keys_named(self, beginning: str) -> Sequence[KeyRow]:
        return tuple(row for row in self.rows if row.prefix.startswith(beginning))

    def keys_since(self, revision: int | None) -> Iterator[KeyRow]:
        return iter(self.keys())

    def has_prefix(self, prefix: str) -> bool:
        return any(row.prefix == prefix for row in self.rows)

    def used_keys(self, times: Mapping[int, int]) -> None:
        for key_id, at_ns in times.items():
            self.change(key_id, last_used_ns=at_ns)
            self.moves -= 1

    def change(self, key_id: int, **values: Any) -> KeyRow:
        self.moves += 1
        self.rows[key_id - 1] = replace(self.rows[key_id - 1], **values)
        return self.rows[key_id - 1]

    def grants(self) -> Sequence[GrantRow]:
        return tuple(grant for grant in self.granted if grant.revoked_ns is None)

    def add_grant(self, grant: GrantRow, now_ns: int) -> int:
        self.moves += 1
        self.granted.append(replace(grant, id=len(self.granted) + 1))
        return len(self.granted)

    def revoke_grant(self, grant_id: int, now_ns: int) -> bool:
        self.moves += 1
        self.granted[grant_id - 1] = replace(self.granted[grant_id - 1], revoked_ns=now_ns)
        return True


@dataclass(frozen=True)
class FakeResult(Generic[A]):
    answer: A
    fresh_until_ns: int | None = None
    live_answer: LiveAnswer[A] | None = None


class FakeQuery:
    """Query with data for ES and, in its universe without data, NQ; counts its calls and fails on request."""

    def __init__(self, accounts: MemoryAccounts) -> None:
        self._accounts = accounts
        self.calls: list[tuple[Any, ...]] = []
        self.failure: BaseException | None = None
        self.gate: threading.Event | None = None
        self.poc = 6900.25
        self.fresh_until_ns: int | None = None
        self.private_to: int | None = None

    def revision(self) -> int:
        return self._accounts.revision()

    def watch_store(self, revision_seen: Callable[[], int | None], frozen: Callable[[], bool]) -> None:
        """Do nothing, because there is no store."""

    def _ask(self, name: str, scope: Scope, symbol: str | None, *more: object) -> None:
        self.calls.append((name, scope.user_id, symbol, *more))
        if self.gate is not None:
            self.gate.wait(5)
        if self.failure is not None:
            raise self.failure
        if symbol is None:
            return
        if symbol.upper() not in ("ES", "NQ"):
            raise UnknownSymbol("unknown_symbol", symbol=symbol, suggestions=["ES"])
        if symbol.upper() == "NQ" or (self.private_to is not None and scope.user_id != self.private_to):
            raise NoLicensedSource("no_licensed_source", symbol=symbol.upper(), reasons=["not_granted"])

    def levels(self, scope: Scope, symbol: str | None, now_ns: int) -> Any:
        self._ask("levels", scope, symbol)
        answer = ANSWERS["LevelsAnswer"]
        assert isinstance(answer, LevelsAnswer)
        prior = type(answer.prior)(poc=self.poc, vah=6912.5, val=6889.75)
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        return FakeResult(LevelsAnswer(**{**fields, "prior": prior}), self.fresh_until_ns)

    def symbols(self, scope: Scope, now_ns: int) -> Any:
        self._ask("symbols", scope, None)
        return FakeResult(ANSWERS["SymbolsAnswer"])

    def profile(self, scope: Scope, symbol: str, date: str | None, now_ns: int) -> Any:
        self._ask("profile", scope, symbol, date)
        answer = ANSWERS["ProfileAnswer"]
        assert isinstance(answer, ProfileAnswer)
        if date not in (None, answer.levels.date):
            raise NotFound("not_found")
        return FakeResult(answer)

    def chosen_profile(self, scope: Scope, symbol: str, request: ProfileRequest, now_ns: int) -> Any:
        self._ask("chosen_profile", scope, symbol, request)
        return FakeResult(ANSWERS["ProfileAnswer"])

    def presets(self, scope: Scope, now_ns: int) -> Any:
        self._ask("presets", scope, None)
        return FakeResult(ANSWERS["PresetsAnswer"])

    def match(self, scope: Scope, symbol: str, day: str, given: object, now_ns: int) -> Any:
        self._ask("match", scope, symbol, day, given)
        return FakeResult(ANSWERS["MatchAnswer"])

    def chart(self, scope: Scope, symbol: str, sessions: int | None, now_ns: int) -> Any:
        self._ask("chart", scope, symbol, sessions)
        return FakeResult(ANSWERS["ChartAnswer"])

    def history(self, scope: Scope, symbol: str, from_: str | None, to: str | None, now_ns: int) -> Any:
        self._ask("history", scope, symbol, from_, to)
        return FakeResult(HistoryAnswer(symbol="ES", from_=from_ or "", to=to or "", count=0, sessions=[]))

    def watch(self, scope: Scope, symbol: str, now_ns: int) -> Any:
        if symbol.upper() not in ("ES", "NQ"):
            raise UnknownSymbol("unknown_symbol", symbol=symbol, suggestions=["ES"])
        return SymbolStatus(symbol.upper(), None, None, "no_connection")

    def context(self, scope: Scope, symbol: str, now_ns: int) -> Any:
        self._ask("context", scope, symbol)
        return FakeResult(ANSWERS["ContextAnswer"])

    def alerts(self, scope: Scope, symbol: str | None, now_ns: int) -> Any:
        self.calls.append(("alerts", scope.user_id, symbol))
        return FakeResult(ANSWERS["AlertsAnswer"], self.fresh_until_ns)

    def alerts_history(self, scope: Scope, symbol: str | None, *more: Any) -> Any:
        self.calls.append(("alerts_history", scope.user_id, symbol, *more[:-1]))
        return FakeResult(ANSWERS["AlertsHistoryAnswer"])


@dataclass
class Harness:
    """A service, with direct access to its dependencies."""

    app: Application
    accounts: MemoryAccounts
    query: FakeQuery
    keys: ApiKeys
    clock: HandClock
    log: io.BytesIO
    #: Monotonic clock of the limits.
    steady: HandClock = field(default_factory=HandClock)
    port: int = 0

    def key(self, tier: Tier = "admin", email: str = "ann@example.com", role: Role = "read") -> str:
        return self.keys.create(email, tier, self.clock.now_ns(), role=role)

    def get(
        self,
        path: str,
        key: str | None = None,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> "Reply":
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = dict(headers or {})
            if key is not None:
                sent["x-api-key"] = key
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Reply(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())
        finally:
            connection.close()


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


def build_harness(
    make_query: Callable[[MemoryAccounts], Any] = FakeQuery,
    registry: Registry | None = None,
    parts: dict[str, Any] | None = None,
    **options: Any,
) -> Harness:
    """Create a harness. `parts`: further parts of the application."""
    accounts, clock, steady, log = MemoryAccounts(), HandClock(), HandClock(), io.BytesIO()
    query = make_query(accounts)
    keys = ApiKeys(accounts, SERVER_SECRET, clock)
    limiter = SlidingWindowLimiter(steady.now_ns)
    services = Services(
        query, keys, Licences(accounts), limiter, clock, registry or Registry(), **parts or {}
    )
    return Harness(
        create_app(services, Options(log=log, **options)), accounts, query, keys, clock, log, steady
    )


@contextmanager
def served(
    harness: Harness, *, fastpath: bool = True, shutdown_s: int = 2, **binding: Any
) -> Iterator[Harness]:
    """Run the service's application on a free port of this machine until the block ends."""
    up = threading.Event()

    def started(_host: str, port: int) -> None:
        harness.port = port
        up.set()

    server = build_server(
        harness.app, Binding(port=0, fastpath=fastpath, shutdown_s=shutdown_s, **binding), started
    )
    thread = threading.Thread(target=server.run, name="server", daemon=True)
    thread.start()
    assert up.wait(10), "the server did not start"
    try:
        yield harness
    finally:
        server.stop()
        thread.join(10)
        assert not thread.is_alive(), "the server did not stop"


def known(harness: Harness) -> None:
    """Wait until the service has polled its store twice, so that the second poll started after the last change."""
    asked = harness.accounts.asked
    wait_until(lambda: harness.accounts.asked >= asked + 2)
