"""Open an installation: its data folder, its database and the parts that all its users share.

`open_installation` is the one place that opens a database. It closes everything that it opened.
"""

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from outcry.access.keys import ApiKeys
from outcry.access.licences import Licences
from outcry.answers.query import Query
from outcry.app.secret import server_secret
from outcry.app.settings import BadSettings, Settings
from outcry.app.vault import vault_of
from outcry.base.clock import Clock, SystemClock
from outcry.base.extras import install_command
from outcry.base.portable_files import is_open_to_others
from outcry.connections.vault import Vault
from outcry.connections.vault_store import SqlVaultStore
from outcry.database.database import DATABASE_FILE, Database, open_engine, sqlite_url
from outcry.database.disk import Disk
from outcry.database.migrate import prepare
from outcry.delivery.fan_out import OutboxEntries
from outcry.delivery.sink import Sink
from outcry.live.background_log import BackgroundLog
from outcry.live.file_log import FileLog
from outcry.live.log_files import names_in
from outcry.live.registry import Registry
from outcry.live.store import LiveStore
from outcry.people.preset_store import SqlPresets
from outcry.people.store import SqlIdentityStore
from outcry.recordings.session_trades import ReadTape
from outcry.sessions.instrument_tables import InstrumentTables
from outcry.sessions.product_units import check_units
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import TapeFile
from outcry.trades.own_tables import finish_update
from outcry.trades.records import Quality, Rows
from outcry.trades.reference_tables import Reference, load_reference

if TYPE_CHECKING:
    from outcry.recordings.importing import Importer
    from outcry.recordings.tape import TapeFolder

LOG_FOLDER = "live"


@dataclass(frozen=True)
class Installation:
    """An opened installation: settings, database and the parts that all users share.

    tables_folder: data folder with the operator's own instruments. sink: the demo's own receiver of webhooks.
    steady_ns: the monotonic clock that request limits use. market_clock: the clock of the market, which the demo
    simulates.
    """

    settings: Settings
    clock: Clock
    market_clock: Clock
    reference: Reference
    engine: Engine
    database: Database
    store: SqlStore
    disk: Disk
    keys: ApiKeys
    licences: Licences
    registry: Registry
    alerts: LiveStore
    query: Query
    tables_folder: Path
    secret: bytes = field(repr=False)
    sink: Sink | None = None
    steady_ns: Callable[[], int] = time.monotonic_ns

    @property
    def simulated(self) -> bool:
        """Whether the market is simulated, as in the demo."""
        return self.market_clock is not self.clock

    @property
    def site(self) -> str:
        """The URL of the pages, for links in messages. Without the setting `public_url` it is on `localhost`."""
        return self.settings.public_url.rstrip("/") or f"http://localhost:{self.settings.port}"

    @cached_property
    def log(self) -> BackgroundLog:
        """The log of all live streams. The process that serves locks the log with `exclusively`."""
        return BackgroundLog(FileLog(self.settings.folder / LOG_FOLDER))

    @cached_property
    def tape(self) -> "TapeFolder":
        """The tape: the folder with the trades of completed sessions."""
        from outcry.recordings.tape import TapeFolder  # noqa: PLC0415 - imports databento-dbn

        return TapeFolder(self.settings.folder / "tape")

    @cached_property
    def importer(self) -> "Importer":
        """The importer of recordings, for files and ended live sessions."""
        from outcry.recordings.formats.file_library import FileLibrary  # noqa: PLC0415 - imports readers
        from outcry.recordings.importing import Importer  # noqa: PLC0415 - imports databento-dbn

        return Importer(
            FileLibrary(self.reference.calendar),
            self.store,
            self.tape,
            self.reference.universe,
            self.reference.calendar,
        )

    @cached_property
    def tables(self) -> InstrumentTables:
        """The operator's own tables of instruments, to check and change them."""
        folder = self.settings.folder
        return InstrumentTables(
            self.tables_folder, self.settings.session_variants, self.store, self.database, self.reference,
            lambda: names_in(folder / LOG_FOLDER),
        )  # fmt: skip

    @cached_property
    def vault(self) -> Vault:
        """The vault of broker credentials. Raises `BadVaultKeys`."""
        return vault_of(self.settings, SqlVaultStore(self.database), self.clock)


@contextmanager
def open_installation(
    settings: Settings, clock: Clock | None = None, market_clock: Callable[[Reference], Clock] | None = None,
    sink: Sink | None = None, steady_ns: Callable[[], int] = time.monotonic_ns, tables_folder: Path | None = None,
    *, refolds: bool = False,
) -> Generator[Installation]:  # fmt: skip
    """Open an installation and migrate its database; close everything at the end of the block.

    `tables_folder`: data folder with the operator's own instruments, if it is another one, as in the demo.
    `market_clock`: builds the clock of a market that does not run in real time. `steady_ns`: the monotonic clock of
    request limits. `refolds`: whether the caller mends a changed tick of stored data, which is refused otherwise.
    Raises `OSError`, `SchemaTooNew`, `NotUnicode`, `BadReference`, `UnitsChanged`, `MissingSecret`, and SQLAlchemy's
    error for an invalid database URL.
    """
    folder = settings.folder
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = _engine(settings)
    disk = Disk(folder, settings.disk_reserve_mib * 2**20)
    database = Database(engine, lambda: disk.stalled)
    store, alerts, registry = SqlStore(database), LiveStore(database, OutboxEntries()), Registry()
    clock = clock or SystemClock()
    try:
        finish_update(tables_folder or folder)
        reference = load_reference(tables_folder or folder, variants=settings.session_variants)
        if not settings.database_url:
            _keep_private(folder / DATABASE_FILE)
        prepare(engine)
        if market_clock is None:  # each start of the demo deletes its data
            # A cluster has its live streams in NATS, where nothing ends those with the earlier tick.
            mends = refolds and not settings.database_url
            check_units(database, reference.universe.products, names_in(folder / LOG_FOLDER), refolds=mends)
        secret = server_secret(settings, SqlIdentityStore(database))
        yield Installation(
            settings=settings,
            clock=clock,
            market_clock=market_clock(reference) if market_clock else clock,
            reference=reference,
            engine=engine,
            database=database,
            store=store,
            disk=disk,
            keys=ApiKeys(store, secret, clock),
            licences=Licences(store),
            registry=registry,
            alerts=alerts,
            secret=secret,
            sink=sink,
            steady_ns=steady_ns,
            tables_folder=tables_folder or folder,
            query=Query(
                store,
                reference.universe,
                reference.calendar,
                registry,
                alerts,
                _tape_reader(folder / "tape"),
                SqlPresets(database),
            ),
        )
    finally:
        database.close()


def _tape_reader(folder: Path) -> ReadTape:
    """Return a function that reads tape files. It imports databento-dbn when it is first used."""

    def read(files: Iterable[TapeFile], quality: Quality) -> Rows:
        from outcry.recordings.tape import TapeFolder  # noqa: PLC0415 - imports databento-dbn

        return TapeFolder(folder).read_all(files, quality)

    return read


def _engine(settings: Settings) -> Engine:
    try:
        return open_engine(settings.database_url or sqlite_url(settings.folder))
    except (ModuleNotFoundError, SQLAlchemyError, ValueError) as problem:
        # the URL is not repeated, because it may contain a password
        raise BadSettings(
            f"Invalid OUTCRY_DATABASE_URL ({type(problem).__name__}). Use a PostgreSQL URL such as "
            f"postgresql://user@host/outcry, and install its driver: {install_command('cluster')}. Leave it empty for "
            "SQLite."
        ) from None


def _keep_private(path: Path) -> None:
    """Let only its owner access the database file, because the file contains password hashes.

    SQLite gives the files that it creates beside the database the same mode.
    """
    path.touch(mode=0o600)
    if is_open_to_others(path):
        path.chmod(0o600)
