"""`outcry doctor`: check everything an installation has stored, without changing it."""

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from outcry.app.inspection import TAPE_FOLDER, Inspection, NoInstallation, inspect_installation
from outcry.app.installation import LOG_FOLDER
from outcry.app.secret import SECRET_FILE
from outcry.app.settings import Settings, read_settings
from outcry.base.clock import SystemClock
from outcry.base.portable_files import is_open_to_others
from outcry.cli.columns import FINDINGS
from outcry.cli.tables import Output, StreamedRows
from outcry.cli.vaulting import report
from outcry.database.errors import StoreBusy
from outcry.database.migrate import HEAD, SchemaTooNew
from outcry.database.schema import metadata
from outcry.delivery.fan_out import OutboxEntries
from outcry.live.entries import decode
from outcry.live.log_files import names_in
from outcry.live.log_inspection import inspect_logs, quarantined_files
from outcry.live.store import LiveStore
from outcry.live.stream_snapshot import SnapshotDamaged, unsealed
from outcry.market.snapshot import SnapshotMismatch, load
from outcry.market.units import NANOS_PER_SECOND
from outcry.recordings.verification import verified, verified_contributions
from outcry.sessions.instrument_tables import check_stored
from outcry.trades.reference_tables import INSTRUMENTS_FOLDER, BadReference, load_reference

#: Maximum number of lines about one damaged database.
_MOST_LINES = 20
_FAULT = "fault\t"

Check = Callable[[Inspection], Iterator[str]]


def doctor(*, output: Output = None, data: str | None = None) -> int:
    """Check the settings, reference tables, database, tape files and live logs. Exit status 1 if there are faults.

    The command changes, creates and migrates nothing. The service can keep running. Prints one row per finding. Rows of
    faults have `fault` in the column `check`; their finding names the file and what to do. In a pipe, the last line is
    the number of faults; JSON and CSV do not have this line.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    faults = 0
    with StreamedRows(FINDINGS, output, names=False) as rows:
        for line in _examined(settings):
            faults += line.startswith(_FAULT)
            check, _, finding = line.partition("\t")
            rows.add(check, finding)
    if output in {None, "table"}:
        print(
            "No faults found."
            if not faults
            else "1 fault found."
            if faults == 1
            else f"{faults} faults found."
        )
    return 1 if faults else 0


def _examined(settings: Settings) -> Iterator[str]:
    """Check everything stored, and yield a line for each thing checked. Lines about faults start with `fault`."""
    try:
        with inspect_installation(settings) as found:
            for check in (_folder, _database, _rows, _tape, _live):
                try:
                    yield from check(found)
                except (SQLAlchemyError, StoreBusy, OSError, ValueError) as problem:
                    yield f"{_FAULT}{_where(found)}: {_in_one_line(problem)}. Restore it from a backup."
    except (NoInstallation, SchemaTooNew) as problem:
        yield f"{_FAULT}{problem}"
    except (SQLAlchemyError, StoreBusy, ValueError) as problem:
        where = "The database" if settings.database_url else f"The database in {settings.folder}"
        yield f"{_FAULT}{where} cannot be read: {_in_one_line(problem)}. Restore it from a backup."


def _folder(found: Inspection) -> Iterator[str]:
    settings = found.settings
    yield f"data folder\t{settings.folder}"
    yield f"free space\t{shutil.disk_usage(settings.folder).free // 2**20:,} MiB"
    yield from _reference(found)
    if settings.private_hosts:
        yield f"webhooks\tprivate hosts are allowed (for development): {settings.private_hosts}"
    secret = settings.folder / SECRET_FILE
    if secret.exists() and is_open_to_others(secret):
        yield f"{_FAULT}{secret} is readable by other users. Run: chmod 600 {secret}"


def _reference(found: Inspection) -> Iterator[str]:
    """Check the reference tables, also against stored data.

    Yields the operator's own instruments, calendars that end within a year, and sessions of other hours.
    """
    settings = found.settings
    try:
        reference = load_reference(settings.folder, variants=settings.session_variants)
    except BadReference as problem:
        yield f"{_FAULT}{problem}. Correct the table."
        return
    products = reference.universe.products
    yield f"products\t{len(products)}"
    own = [root for root, product in products.items() if product.own_tables]
    if own:
        yield f"instruments\tyour tables apply to {', '.join(own)}"
    today = datetime.fromtimestamp(SystemClock().now_ns() // NANOS_PER_SECOND, UTC).date()
    for calendar, last in reference.calendar.hours.holidays_ending(today).items():
        yield (
            f"holidays\tof {calendar} are known until {last} only; update Outcry, or add rows to "
            f"{settings.folder / INSTRUMENTS_FOLDER / 'holidays.csv'}"
        )
    if found.migration is None:
        return
    stored = check_stored(reference, found.store, found.database, names_in(settings.folder / LOG_FOLDER))
    yield from (f"{_FAULT}{one.text}" for one in stored.changed)
    for one in stored.outdated:
        reason = "have other hours than the tables; stop the service and run `outcry refold`"
        yield (
            f"sessions\t{one.count} of {one.root} from {one.first} to {one.last} "
            f"{reason if one.known else 'cannot be used, because no table has the product'}"
        )


def _database(found: Inspection) -> Iterator[str]:
    yield f"database\tmigration {found.migration}, revision {found.store.revision()}"
    if found.is_copy:
        yield f"database\tchecked in a copy migrated to {HEAD}; run `outcry migrate` to migrate the database itself"
    if found.migration is None:
        yield f"{_FAULT}{_where(found)} has no tables. Restore it from a backup."
    with found.engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            checked = [str(line) for line in connection.execute(text("PRAGMA integrity_check")).scalars()]
            lines = [part.strip() for line in checked for part in line.splitlines() if part.strip() != "ok"]
            yield from (
                f"{_FAULT}{_where(found)}: {line}. Restore it from a backup." for line in lines[:_MOST_LINES]
            )
            broken = connection.execute(text("PRAGMA foreign_key_check")).all()
            yield from (
                f"{_FAULT}{_where(found)}: Row {row[1]} of {row[0]} refers to a missing row of {row[2]}. Restore the "
                "database from a backup."
                for row in broken[:_MOST_LINES]
            )
    yield from (f"{_FAULT}{fault}" for fault in report(found.settings, found.database))
    with found.engine.connect() as connection:
        for table in metadata.sorted_tables:  # the integrity check ignores column names
            connection.execute(select(table).limit(0))


def _live_store(found: Inspection) -> LiveStore:
    return LiveStore(found.database, OutboxEntries())


def _rows(found: Inspection) -> Iterator[str]:
    """Yield the faults in database rows: wrong checksums and unreadable profiles."""
    for row in (*found.store.damaged(), *_live_store(found).damaged()):
        yield f"{_FAULT}{row.text()}"
    for session in found.store.all_sessions():
        try:
            load(session.profile)
        except SnapshotMismatch as problem:
            yield (
                f"{_FAULT}Session {session.contract} {session.trade_date} {session.kind} cannot be read: {problem}. "
                "Run `outcry refold`."
            )


def _tape(found: Inspection) -> Iterator[str]:
    recordings = found.store.all_recordings()
    without = 0
    for row in recordings:
        _, fault = verified(row, found.tape)
        if fault and found.store.tape_named([row.path]):  # a running service may have replaced the file
            yield f"{_FAULT}{fault}"
        without += not row.digest
    yield from (f"{_FAULT}{fault}" for fault in verified_contributions(found.store, found.tape, recordings))
    yield f"tape\t{len(recordings)} files"
    if without:
        yield f"tape\t{without} files have no digest yet; run `outcry migrate` to verify them and add digests"
    folder = found.settings.folder / TAPE_FOLDER
    yield from (f"tape\trenamed as damaged: {path}" for path in sorted(folder.rglob("*.damaged*")))
    if not recordings and not found.store.has_damaged_recordings():
        left = next(folder.rglob("*.dbn.zst"), None) if folder.is_dir() else None
        if left is not None:
            yield (
                f"{_FAULT}{_where(found)} lists none of the tape files in {folder}, such as {left.name}. It is not the "
                "database of this tape. Restore the right database from a backup."
            )


def _live(found: Inspection) -> Iterator[str]:
    folder = found.settings.folder / LOG_FOLDER
    snapshots: dict[str, int] = {}
    for stream, position, data in _live_store(found).all_snapshots():
        snapshots[stream] = position
        try:
            unsealed(stream, position, data)
        except SnapshotDamaged as problem:
            yield f"{_FAULT}{problem}. The next start reads the log instead."
    if found.settings.database_url and not folder.is_dir():
        yield "live\tno log in this folder; a cluster stores it in NATS, which doctor does not check"
        return
    streams = 0
    for seen in inspect_logs(folder, decode):
        streams += 1
        yield from (f"{_FAULT}{fault}" for fault in seen.faults)
        if not seen.faults and seen.last < snapshots.get(seen.key, 0):
            remedy = "The next start continues from the snapshot."
            if not seen.last:
                remedy = "Restore it from a backup; otherwise the stream restarts empty and requests history again."
            yield (
                f"{_FAULT}The log {folder / seen.key} ends at entry {seen.last}, but its snapshot is at entry "
                f"{snapshots[seen.key]}. {remedy}"
            )
    yield f"live\t{streams} streams"
    yield from (f"live\trenamed as damaged: {path}" for path in quarantined_files(folder))


def _where(found: Inspection) -> str:
    return "The database" if found.settings.database_url else f"The database in {found.settings.folder}"


def _in_one_line(problem: Exception) -> str:
    cause = getattr(problem, "orig", None) or problem
    return " ".join(str(cause).split())
