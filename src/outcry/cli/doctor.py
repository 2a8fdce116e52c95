"""`outcry doctor`: look at everything an installation has stored, and change none of it."""

import shutil
from collections.abc import Callable, Iterator

from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from outcry.bus.inspection import look_at, set_aside
from outcry.cli.vaulting import told
from outcry.core.snapshot import SnapshotMismatch, load
from outcry.ports.store import StoreBusy
from outcry.services.live.entries import decode
from outcry.services.live.held import SnapshotDamaged, unsealed
from outcry.services.verification import verified
from outcry.settings import Settings, read_settings
from outcry.store.live import SqlLiveStore
from outcry.store.migrate import HEAD, SchemaTooNew
from outcry.store.reference import load_reference
from outcry.store.schema import metadata
from outcry.wiring import LOG_FOLDER, SECRET_FILE
from outcry.wiring.inspection import TAPE_FOLDER, Inspection, NoInstallation, inspect_installation

#: Lines SQLite may say of one damaged database.
_MOST_LINES = 20
_FAULT = "fault\t"

Check = Callable[[Inspection], Iterator[str]]


def doctor(*, data: str | None = None) -> int:
    """Check settings, tables, database, every tape file and live log; say what is wrong. Exit status 1 if anything is.

    Nothing is changed, created or migrated, and the service may go on running. Each fault is one line that names the
    file and what to do.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    faults = 0
    for line in _examined(settings):
        faults += line.startswith(_FAULT)
        print(line, flush=True)
    print("in order" if not faults else "1 fault" if faults == 1 else f"{faults} faults")
    return 1 if faults else 0


def _examined(settings: Settings) -> Iterator[str]:
    """A line for everything looked at; those of faults begin with `fault`."""
    try:
        with inspect_installation(settings) as found:
            for check in (_folder, _database, _rows, _tape, _live):
                try:
                    yield from check(found)
                except (SQLAlchemyError, StoreBusy, OSError, ValueError) as problem:
                    yield f"{_FAULT}{_where(found)}: {_in_one_line(problem)}: restore it from a backup"
    except (NoInstallation, SchemaTooNew) as problem:
        yield f"{_FAULT}{problem}"
    except (SQLAlchemyError, StoreBusy, ValueError) as problem:
        where = "the database" if settings.database_url else f"the database in {settings.folder}"
        yield f"{_FAULT}{where} cannot be read: {_in_one_line(problem)}: restore it from a backup"


def _folder(found: Inspection) -> Iterator[str]:
    settings = found.settings
    yield f"data folder\t{settings.folder}"
    yield f"free space\t{shutil.disk_usage(settings.folder).free // 2**20:,} MiB"
    yield f"products\t{len(load_reference(settings.folder, variants=settings.session_variants).universe.products)}"
    if settings.private_hosts:
        yield f"webhooks\tprivate hosts are admitted (for development): {settings.private_hosts}"
    secret = settings.folder / SECRET_FILE
    if secret.exists() and secret.stat().st_mode & 0o077:
        yield f"{_FAULT}{secret} can be read by others: chmod 600 {secret}"


def _database(found: Inspection) -> Iterator[str]:
    yield f"database\tmigration {found.migration}, revision {found.store.revision()}"
    if found.is_copy:
        yield f"database\tchecked in a copy migrated to {HEAD}: `outcry migrate` migrates the database itself"
    if found.migration is None:
        yield f"{_FAULT}{_where(found)} has no tables: restore it from a backup"
    with found.engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            checked = [str(line) for line in connection.execute(text("PRAGMA integrity_check")).scalars()]
            lines = [part.strip() for line in checked for part in line.splitlines() if part.strip() != "ok"]
            yield from (
                f"{_FAULT}{_where(found)}: {line}: restore it from a backup" for line in lines[:_MOST_LINES]
            )
            broken = connection.execute(text("PRAGMA foreign_key_check")).all()
            yield from (
                f"{_FAULT}{_where(found)}: row {row[1]} of {row[0]} names a row of {row[2]} that is not there: restore "
                "it from a backup"
                for row in broken[:_MOST_LINES]
            )
    yield from (f"{_FAULT}{fault}" for fault in told(found.settings, found.database))
    with found.engine.connect() as connection:
        for table in metadata.sorted_tables:  # the integrity check does not read the names of columns
            connection.execute(select(table).limit(0))


def _rows(found: Inspection) -> Iterator[str]:
    """Rows that do not match their checksums, ladders that cannot be read, and snapshots."""
    for row in found.store.damaged():
        yield f"{_FAULT}{row.text()}"
    for session in found.store.all_sessions():
        try:
            load(session.profile)
        except SnapshotMismatch as problem:
            yield f"{_FAULT}{session.contract} {session.trade_date} {session.kind}: {problem}: outcry refold"


def _tape(found: Inspection) -> Iterator[str]:
    recordings = found.store.all_recordings()
    without = 0
    for row in recordings:
        _, fault = verified(row, found.tape)
        if fault and found.store.tape_named([row.path]):  # a running service may have replaced it meanwhile
            yield f"{_FAULT}{fault}"
        without += not row.digest
    yield f"tape\t{len(recordings)} files"
    if without:
        yield f"tape\t{without} files have no digest yet: `outcry migrate` verifies them and adds it"
    folder = found.settings.folder / TAPE_FOLDER
    yield from (f"tape\tset aside as damaged: {path}" for path in sorted(folder.rglob("*.damaged*")))
    if not recordings and not found.store.has_damaged_recordings():
        left = next(folder.rglob("*.dbn.zst"), None) if folder.is_dir() else None
        if left is not None:
            yield (
                f"{_FAULT}{_where(found)} names none of the files below {folder}, {left.name} for one: it is not the "
                "database of this tape. Restore that from a backup"
            )


def _live(found: Inspection) -> Iterator[str]:
    folder = found.settings.folder / LOG_FOLDER
    snapshots: dict[str, int] = {}
    for stream, position, data in SqlLiveStore(found.database).all_snapshots():
        snapshots[stream] = position
        try:
            unsealed(stream, position, data)
        except SnapshotDamaged as problem:
            yield f"{_FAULT}{problem}: the next start reads the log instead"
    if found.settings.database_url and not folder.is_dir():
        yield "live\tno log in this folder: a cluster keeps it on its bus, which doctor does not check"
        return
    streams = 0
    for seen in look_at(folder, decode):
        streams += 1
        yield from (f"{_FAULT}{fault}" for fault in seen.faults)
        if not seen.faults and seen.last < snapshots.get(seen.key, 0):
            remedy = "the next start goes on from the snapshot"
            if not seen.last:
                remedy = "restore it from a backup, or its stream begins anew and asks the feed again"
            yield (
                f"{_FAULT}the log {folder / seen.key} ends at entry {seen.last}, its snapshot is of entry "
                f"{snapshots[seen.key]}: {remedy}"
            )
    yield f"live\t{streams} streams"
    yield from (f"live\tset aside as damaged: {path}" for path in set_aside(folder))


def _where(found: Inspection) -> str:
    return "the database" if found.settings.database_url else f"the database in {found.settings.folder}"


def _in_one_line(problem: Exception) -> str:
    cause = getattr(problem, "orig", None) or problem
    return " ".join(str(cause).split())
