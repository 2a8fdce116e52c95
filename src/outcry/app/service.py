"""The one place where the object graph is built: settings in, a house out.

Rule kept: everything opened here is closed by `House.close`; nothing else in the program opens a database or a clock.
"""

import atexit
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, cast

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from outcry.access.keys import ApiKeys, Licences
from outcry.access.licences import OPERATOR
from outcry.answers.query import Query
from outcry.app.secret import derived, server_secret
from outcry.app.settings import BadSettings, Settings
from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent
from outcry.database.database import DATABASE_FILE, Database, open_engine, sqlite_url
from outcry.database.disk import Disk, bytes_in
from outcry.database.errors import StoreBusy
from outcry.database.migrate import migrate
from outcry.delivery.fan_out import OutboxEntries
from outcry.delivery.sink import Sink
from outcry.live.model import FanOut, Snapshots, TradeLog
from outcry.live.registry import Registry
from outcry.live.store import SqlLiveStore
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.store import SqlIdentityStore
from outcry.recordings.tape import TapeFolder
from outcry.sessions.store import SqlStore
from outcry.trades.reference_tables import Reference, load_reference

if TYPE_CHECKING:
    from outcry.access.limiter import Limiter
    from outcry.api.app import Application, Background
    from outcry.app.cluster import ClusterSide
    from outcry.app.people import People
    from outcry.connections.model import Connections
    from outcry.connections.vault import Vault
    from outcry.live.background_log import BackgroundLog
    from outcry.live.engine import Engine as LiveEngine
    from outcry.live.quotas import Quotas
    from outcry.live.service import LiveService
    from outcry.recordings.importing import Importer
    from outcry.trades.feed import Feed
    from outcry.trades.push_format import Intake

LOG_FOLDER = "live"


class SystemClock:
    """The machine's clock. Implements `Clock`."""

    def now_ns(self) -> int:
        """See `Clock`."""
        return time.time_ns()  # noqa: TID251 - the one place the present is read


@dataclass(frozen=True)
class House:
    """The parts of a running Outcry. What only some commands need is loaded by those that use it. `sink`: the
    demonstration's own receiver of webhooks. `steady_ns`: the monotonic clock that limits go by."""

    settings: Settings
    clock: Clock
    market_clock: Clock
    reference: Reference
    engine: Engine
    database: Database
    store: SqlStore
    tape: TapeFolder
    disk: Disk
    keys: ApiKeys
    registry: Registry
    alerts: SqlLiveStore
    query: Query
    secret: bytes = field(repr=False)
    sink: Sink | None = None
    steady_ns: Callable[[], int] = time.monotonic_ns

    @property
    def simulated(self) -> bool:
        """Whether the market is one that nobody trades."""
        return self.market_clock is not self.clock

    @property
    def pages(self) -> str:
        """Where the pages are, for links in what is sent: where people reach this service, as far as that is known."""
        return self.settings.public_url.rstrip("/") or f"http://localhost:{self.settings.port}"

    @cached_property
    def log(self) -> "BackgroundLog":
        """The log of every live stream; to be held `exclusively` by the one process that serves."""
        from outcry.live.background_log import BackgroundLog  # noqa: PLC0415
        from outcry.live.file_log import FileLog  # noqa: PLC0415

        return BackgroundLog(FileLog(self.settings.folder / LOG_FOLDER))

    @cached_property
    def importer(self) -> "Importer":
        """The importer over these parts; with it comes pyarrow, which a serving process does without."""
        from outcry.recordings.formats.file_library import FileLibrary  # noqa: PLC0415
        from outcry.recordings.importing import Importer  # noqa: PLC0415

        universe, calendar = self.reference.universe, self.reference.calendar
        return Importer(FileLibrary(), self.store, self.tape, universe, calendar)

    @cached_property
    def vault(self) -> "Vault":
        """What people's entries for their connections are sealed in. Raises `BadVaultKeys`."""
        from outcry.app.vault import vault_of  # noqa: PLC0415
        from outcry.connections.vault_store import SqlVaultStore  # noqa: PLC0415

        return vault_of(self.settings, SqlVaultStore(self.database), self.clock)

    @cached_property
    def licences(self) -> Licences:
        """What is granted to whom."""
        return Licences(self.store)

    @cached_property
    def cluster(self) -> "ClusterSide":
        """What this process has of a cluster, if it is one of several."""
        from outcry.app.cluster import ClusterSide  # noqa: PLC0415 - few need its libraries

        return ClusterSide(self)

    @cached_property
    def people(self) -> "People":
        """People, and the pages they come in by."""
        from outcry.app.people import people_of  # noqa: PLC0415

        return people_of(self)

    def live_engine(self) -> "LiveEngine":
        """The engine over these parts, its log in files."""
        return self.engine_over(self.log, self.alerts, self.registry)

    def engine_over(
        self, log: TradeLog, snapshots: Snapshots, registry: Registry, by: str = ""
    ) -> "LiveEngine":
        """The engine over a log, shown in a registry. `by`: see `Recovery`."""
        from outcry.live.archive import Archive  # noqa: PLC0415
        from outcry.live.engine import Engine as LiveEngine  # noqa: PLC0415
        from outcry.live.engine import Market, Stores  # noqa: PLC0415

        universe, calendar = self.reference.universe, self.reference.calendar
        stores = Stores(
            log, snapshots, self.alerts, self.store,
            Archive(lambda: self.importer, calendar.session_at),
        )  # fmt: skip
        # A morning simulated at the start happened before anybody could be told of it.
        since_ns = self.market_clock.now_ns() if self.simulated else 0
        fan_out = partial(self._fan_out, since_ns)
        market = Market(universe, calendar, self.market_clock, self.licences.of_user, fan_out)
        return LiveEngine(stores, market, registry, by=by)

    def live(self, feeds: "Sequence[tuple[int, Feed]]" = ()) -> "LiveService":
        """The engine over these parts, with feeds of its own and nothing beside them."""
        from outcry.live.service import LiveService  # noqa: PLC0415

        return LiveService(self.live_engine(), feeds, None)

    def _fan_out(self, since_ns: int) -> FanOut:
        """To whom alerts go now: as grants are at this moment, by the machine's clock, which people live by. Asks the
        store. See `FanOut.since_ns`."""
        now_ns = self.clock.now_ns()
        self.licences.refresh(now_ns)
        return FanOut(self.licences.audience, now_ns, since_ns)

    def tails(self) -> "list[tuple[int, Feed]]":
        """A feed for each growing file of the settings. Raises `FileRefused`."""
        from outcry.feeds.scid_tail import tail_of  # noqa: PLC0415

        today = datetime.fromtimestamp(self.clock.now_ns() // NANOS_PER_SECOND, UTC).date()
        paths = [Path(path.strip()) for path in self.settings.tail.split(",") if path.strip()]
        return [(OPERATOR, tail_of(path, self.reference.universe, self.clock, today)) for path in paths]

    def application(self, feeds: "Sequence[tuple[int, Feed]]" = ()) -> "Application":
        """The web application over these parts, and what runs beside it: everything, or this process's roles."""
        if self.settings.cluster:
            from outcry.app.cluster import part_of_cluster  # noqa: PLC0415 - few need its libraries

            return part_of_cluster(self, feeds)
        from outcry.access.local_limiter import SlidingWindowLimiter  # noqa: PLC0415
        from outcry.app.feeds import connections_of  # noqa: PLC0415
        from outcry.feeds.pushed import PushedFeeds  # noqa: PLC0415
        from outcry.live.service import LiveService  # noqa: PLC0415

        engine = self.live_engine()
        connections, supervisor = connections_of(self, engine)
        pushes = PushedFeeds(
            self.reference.universe,
            reserved={feed.name for _, feed in feeds},
            reserved_of=connections.reserved,
            streams_of=engine.streams_of,
            kept=engine.persisted,
            quotas=self._quotas(engine),
        )
        live = LiveService(engine, feeds, pushes, supervisor)
        return self.answering(
            SlidingWindowLimiter(self.steady_ns), live, pushes, connections, {"log": lambda: self.log.stuck}
        )

    def _quotas(self, engine: "LiveEngine") -> "Quotas":
        """What users may push, measured in the data folder."""
        from outcry.live.quotas import Limits, Quotas  # noqa: PLC0415

        folder = self.settings.folder

        def measure(owner: int) -> int:
            return bytes_in(folder / LOG_FOLDER / str(owner), folder / "tape" / f"user-{owner}")

        def report(event: LogEvent, **details: object) -> object:
            return engine.report(event, **details)

        limits = Limits(self.settings.push_quota_mib * 2**20, self.settings.push_streams)
        return Quotas(limits, measure, engine.streams_of, lambda: self.disk.short, report)

    def answering(
        self, limiter: "Limiter", live: "Background", pushes: "Intake", connections: "Connections | None",
        degraded: Mapping[str, Callable[[], bool]] = MappingProxyType({}),
    ) -> "Application":  # fmt: skip
        """The application as far as the roles of this process go. `live`: what runs beside it; `pushes`: where pushed
        feeds go; `connections`: users' own feeds, for the pages; `degraded`: see `Services`."""
        from outcry.api.app import Options, Services, create_app  # noqa: PLC0415
        from outcry.base.log_writer import LogWriter  # noqa: PLC0415

        roles = self.settings.roles
        lines = LogWriter(sys.stderr.buffer)
        atexit.register(lines.close)
        services = Services(
            query=self.query,
            keys=self.keys,
            licences=self.licences,
            limiter=limiter,
            clock=self.market_clock,
            registry=self.registry,
            universe=self.reference.universe,
            alerts=self.alerts,
            pushes=pushes,
            live=live,
            delivery=self.people.delivery if roles & {"deliver", "web"} else None,
            page_authenticator=self.people.authenticator if "web" in roles else None,
            pages=partial(self.people.pages, connections, pushes.usage)
            if "web" in roles and connections
            else None,
            checks={"store": lambda: void(self.store.revision())},
            degraded={**degraded, "disk": lambda: self.disk.stalled, "disk_reserve": lambda: self.disk.short},
            frozen=lambda: self.disk.stalled and not self.settings.database_url,
            ticket_secret=derived(self.secret, "stream tickets"),
        )
        options = Options(
            query_timeout_s=self.settings.patience_s,
            open_metrics=self.settings.open_metrics,
            api="api" in roles,
            log=cast("BinaryIO", lines),
            shares_store=bool(self.settings.cluster),
        )
        return create_app(services, options)


def void(_value: object) -> None:
    """Drop a value: for a check whose only answer is that it did not raise."""


@contextmanager
def open_house(
    settings: Settings, clock: Clock | None = None, market_clock: Callable[[Reference], Clock] | None = None,
    sink: Sink | None = None, steady_ns: Callable[[], int] = time.monotonic_ns,
) -> Generator[House]:  # fmt: skip
    """Open everything, the database migrated; close it at the end. `market_clock`: for a market that is not now;
    `steady_ns`: the monotonic clock that limits go by.

    Raises `OSError`, `SchemaTooNew`, `NotUnicode`, `BadReference`, `MissingSecret`, and SQLAlchemy's error for a bad
    address.
    """
    folder = settings.folder
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    reference = load_reference(folder, variants=settings.session_variants)
    if not settings.database_url:
        _keep_private(folder / DATABASE_FILE)
    engine = _engine(settings)
    disk = Disk(folder, settings.disk_reserve_mib * 2**20)
    database = Database(engine, lambda: disk.stalled)
    store, alerts, registry = SqlStore(database), SqlLiveStore(database, OutboxEntries()), Registry()
    clock = clock or SystemClock()
    try:
        _prepare(engine)
        tape = TapeFolder(folder / "tape")
        secret = server_secret(settings, SqlIdentityStore(database))
        yield House(
            settings=settings,
            clock=clock,
            market_clock=market_clock(reference) if market_clock else clock,
            reference=reference,
            engine=engine,
            database=database,
            store=store,
            tape=tape,
            disk=disk,
            keys=ApiKeys(store, secret, clock),
            registry=registry,
            alerts=alerts,
            secret=secret,
            sink=sink,
            steady_ns=steady_ns,
            query=Query(store, reference.universe, reference.calendar, registry, alerts),
        )
    finally:
        database.close()


def _engine(settings: Settings) -> Engine:
    try:
        return open_engine(settings.database_url or sqlite_url(settings.folder))
    except (ModuleNotFoundError, SQLAlchemyError, ValueError) as problem:
        # never the address itself: it may hold a password
        raise BadSettings(
            f"Invalid OUTCRY_DATABASE_URL ({type(problem).__name__}). Use a PostgreSQL URL such as "
            "postgresql://user@host/outcry, and install its driver: pip install 'outcry[cluster]'. Leave it empty for "
            "SQLite."
        ) from None


def _keep_private(path: Path) -> None:
    """Restrict the database to its owner, because it contains password hashes.

    SQLite gives its other files the same mode.
    """
    path.touch(mode=0o600)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _prepare(engine: Engine) -> None:
    try:
        migrate(engine)
    except (DBAPIError, UnicodeDecodeError) as problem:
        hint = (
            "Check that it is an Outcry database and that its folder is writable, or restore it from a backup."
            if engine.dialect.name == "sqlite"
            else "Check OUTCRY_DATABASE_URL and that the server is running."
        )
        said = problem.orig if isinstance(problem, DBAPIError) else problem
        raise StoreBusy(f"The database cannot be opened: {str(said).strip()}. {hint}") from problem
