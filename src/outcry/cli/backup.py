"""`outcry backup`: copy an installation while the service runs. The copy can be served as it is.

The command locks and changes nothing in the installation. Only the user who ran the command can read the copy, whatever
the umask. An incomplete copy is deleted.
"""

import errno
import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from outcry.app.inspection import TAPE_FOLDER, NoInstallation, check_installed, readable
from outcry.app.installation import LOG_FOLDER
from outcry.app.secret import SECRET_FILE
from outcry.app.settings import Settings, read_settings
from outcry.app.vault import VAULT_FILE
from outcry.base.clock import SystemClock
from outcry.base.file_lock import exclusive_lock
from outcry.cli.backup_rotation import LOCK, complete, installation_id, new_backup, rotate
from outcry.database.database import DATABASE_FILE
from outcry.live.log_files import paths_of
from outcry.live.log_segments import NoFrame, next_frame, open_segment, walk
from outcry.trades.own_tables import INSTRUMENTS_FOLDER, read_own_tables
from outcry.trades.reference_tables import BadReference

#: Maximum attempts. The copy is repeated if a running service replaces files meanwhile.
_TRIES = 10
#: Default folder of dated backups, in the data folder.
DEFAULT_FOLDER = "backups"
_PLAIN = (SECRET_FILE, VAULT_FILE, "outcry.toml", "overrides.csv")


class _InUse(Exception):
    """Another process writes a backup to the same folder."""


class _Changed(Exception):
    """The service replaced or deleted a file before it was copied."""


def backup(folder: Path | None = None, *, keep: int | None = None, data: str | None = None) -> int:
    """Back up the database, tape, live logs, secret and vault key. The service can keep running.

    Your settings file and your tables of instruments and overrides are included.

    To restore, set OUTCRY_DATA to the backup folder. The backup contains the secret and the vault key: protect it like
    the original. Keys set with OUTCRY_SECRET and OUTCRY_VAULT_KEYS are not included.

    With --keep, each run writes a new dated folder inside FOLDER and then deletes the oldest ones. It deletes only
    unchanged backups of this installation that --keep made. If it cannot decide, or if the new backup has faults, it
    deletes nothing, says why, and the exit status is 1.

        outcry backup /srv/backups --keep 7

    Parameters
    ----------
    folder
        Backup folder. It must be new or empty, unless --keep is given. With --keep, the default is `backups` in the
        data folder; another disk is safer.
    keep
        Number of backups to retain, at least 1.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    if keep is not None and keep < 1:
        print(f"outcry: Invalid --keep {keep}: use 1 or more.", file=sys.stderr)
        return 2
    if folder is None and keep is None:
        print("outcry: No FOLDER given. Name a new or empty folder, or use --keep.", file=sys.stderr)
        return 2
    settings = read_settings(data=data)
    if settings.database_url:
        print(
            "outcry: `outcry backup` cannot copy PostgreSQL. Back it up with its own tools (pg_dump), and copy the "
            "tape folder.",
            file=sys.stderr,
        )
        return 2
    try:
        check_installed(settings)
    except NoInstallation as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        return 1
    if keep is not None:
        return _rotated(settings, folder or settings.folder / DEFAULT_FOLDER, keep)
    assert folder is not None
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        print(f"outcry: {folder} is not an empty folder. Choose a new or empty folder.", file=sys.stderr)
        return 2
    try:
        with _private(folder):
            faults = list(_copied(settings, folder))
    except (OSError, sqlite3.Error, _Changed) as problem:
        print(f"outcry: Backup failed: {_message(problem, folder)}", file=sys.stderr)
        return 1
    _report(folder, faults)
    return 1 if faults else 0


def _rotated(settings: Settings, parent: Path, keep: int) -> int:
    """Write a dated backup into a folder, then delete the oldest ones. Return the exit status."""
    partial = parent
    try:
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with exclusive_lock(parent / LOCK, _InUse()):
            now_ns = SystemClock().now_ns()
            partial, final = new_backup(parent, now_ns)
            installation = installation_id(settings)
            with _private(partial):
                faults = list(_copied(settings, partial))
                complete(partial, final, installation, now_ns)
            _report(final, faults)
            if faults:
                print("outcry: Older backups were not deleted, because this one has faults.", file=sys.stderr)
                return 1
            done = rotate(parent, keep, final, installation)
    except _InUse:
        print(f"outcry: Another backup is writing to {parent}. Wait until it has finished.", file=sys.stderr)
        return 1
    except (OSError, sqlite3.Error, _Changed) as problem:
        print(f"outcry: Backup failed: {_message(problem, partial)}", file=sys.stderr)
        return 1
    for folder in done.deleted:
        print(f"Deleted {folder}")
    for doubt in done.doubts:
        print(f"outcry: {doubt}", file=sys.stderr)
    return 1 if done.doubts else 0


def _report(folder: Path, faults: Iterable[str]) -> None:
    for fault in faults:
        print(f"outcry: {fault}", file=sys.stderr)
    print(f"Backed up to {folder}", flush=True)


@contextmanager
def _private(folder: Path) -> Generator[None]:
    """Create the backup folder with access for its owner only. On an error, delete everything created in it."""
    new, umask = not folder.exists(), os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        yield
    except BaseException:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        left = [str(path) for path in folder.iterdir()] if folder.is_dir() else []
        if left:
            print(f"outcry: Could not delete {', '.join(left)}. Delete them by hand.", file=sys.stderr)
        elif new and folder.is_dir():
            folder.rmdir()
        raise
    finally:
        os.umask(umask)


def _copied(settings: Settings, folder: Path) -> Iterator[str]:
    """Copy the whole installation, and yield a line for each damaged or missing file.

    The database is copied first, because it lists the tape files. The logs of live streams are copied after it, because
    a log may be newer than its snapshot in the database but not older. If the service deletes or replaces a file before
    it is copied, the database is copied again.
    """
    source = settings.folder
    missing: list[str] = []
    missing_logs: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="outcry-") as spare, readable(source, Path(spare)) as uri:
        for _ in range(_TRIES):
            logs, before = _log_paths(source), missing
            _copy_database(uri, folder / DATABASE_FILE)
            missing = list(_copy_tape(source, folder))
            missing_logs = [path for path in logs if not _copy_log(path, folder / path.relative_to(source))]
            if not missing_logs and missing == before:
                break
    if missing_logs:
        raise _Changed(f"The service deleted {missing_logs[0]} during the copy. Run `outcry backup` again.")
    _copy_newer_logs(source, folder)
    for name in _PLAIN:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    _copy_own_tables(source, folder)
    yield from (
        f"Tape file {source / TAPE_FOLDER / name} is missing. Import its recording again." for name in missing
    )
    yield from _damaged(source, folder)


def _copy_own_tables(source: Path, folder: Path) -> None:
    """Copy the operator's tables of instruments as one state, or byte by byte if they cannot be read."""
    try:
        texts = {name: text.encode() for name, text in read_own_tables(source).texts.items()}
    except BadReference:
        texts = {path.name: path.read_bytes() for path in (source / INSTRUMENTS_FOLDER).glob("*.csv")}
    for name, data in texts.items():
        (folder / INSTRUMENTS_FOLDER).mkdir(exist_ok=True)
        (folder / INSTRUMENTS_FOLDER / name).write_bytes(data)


def _copy_database(uri: str, target: Path) -> None:
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(uri, uri=True)) as live, closing(sqlite3.connect(target)) as copy:
        live.backup(copy)


def _copy_tape(source: Path, folder: Path) -> Iterator[str]:
    """Copy the tape files that the copied database lists; yield the missing ones.

    Other files, from an earlier attempt, are deleted.
    """
    named, target = _digests(folder), folder / TAPE_FOLDER
    for path in sorted(target.rglob("*.dbn.zst")):
        if path.relative_to(target).as_posix() not in named:
            path.unlink()
    for name in sorted(named):
        if not (target / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(source / TAPE_FOLDER / name, target / name)
            except FileNotFoundError:
                yield name


def _digests(folder: Path) -> dict[str, str]:
    """Return the tape files that the copied database lists, with their digests (empty if not computed yet)."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as copy:
        columns = {
            table: {row[1] for row in copy.execute(f"PRAGMA table_info({table})")}
            for table in ("recordings", "import_recordings")
        }
        if "digest" not in columns["recordings"]:  # an earlier schema without digests
            return {path: "" for (path,) in copy.execute("SELECT path FROM recordings")}
        found: dict[str, str] = {}
        if "path" in columns["import_recordings"]:
            found |= dict(copy.execute("SELECT path, file_digest FROM import_recordings WHERE path > ''"))
        return found | dict(copy.execute("SELECT path, digest FROM recordings"))


def _damaged(source: Path, folder: Path) -> Iterator[str]:
    """Yield a line for each damaged file in the copy."""
    for name, digest in _digests(folder).items():
        copied = folder / TAPE_FOLDER / name
        if digest and copied.exists():
            with copied.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    yield (
                        f"Tape file {source / TAPE_FOLDER / name} is damaged, and so is its copy. Run `outcry doctor`."
                    )
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as copy:
        wrong = [line for (line,) in copy.execute("PRAGMA integrity_check(3)") if line != "ok"]
    yield from (
        f"The database is damaged, and so is its copy ({line}). Run `outcry doctor`." for line in wrong
    )


def _log_paths(source: Path) -> list[Path]:
    return sorted((source / LOG_FOLDER).glob("*/*/*/*.log"))


def _copy_log(path: Path, target: Path) -> bool:
    """Copy a log file up to its last complete batch. Return False if the service deleted the file meanwhile."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(path, target)
    except FileNotFoundError:
        return False
    with target.open("r+b") as file:
        size = target.stat().st_size
        try:
            with open_segment(target) as frames:
                for _ in walk(frames, int(target.stem), size):
                    pass
        except NoFrame as problem:
            file.seek(problem.at)
            rest = file.read()
            if next_frame(rest, problem.expected) is None and path == _newest(path.parent):
                file.truncate(problem.at)
    return True


def _newest(folder: Path) -> Path:
    return paths_of(folder)[-1]


def _copy_newer_logs(source: Path, folder: Path) -> None:
    """Copy log files that were created or grew since they were copied first."""
    for path in _log_paths(source):
        target = folder / path.relative_to(source)
        if not target.exists() or target.stat().st_size < path.stat().st_size:
            _copy_log(path, target)


def _message(problem: Exception, folder: Path) -> str:
    full = isinstance(problem, OSError) and problem.errno in {errno.ENOSPC, errno.EDQUOT}
    full = full or (isinstance(problem, sqlite3.Error) and "disk is full" in str(problem))
    if not full:
        return str(problem)
    named = getattr(problem, "filename2", None) or getattr(problem, "filename", None)
    place = f" ({named})" if named and str(named).startswith(str(folder)) else ""
    return f"The disk of {folder} is full{place}. The incomplete copy was deleted. Free space or choose another folder."
