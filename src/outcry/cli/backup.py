"""`outcry backup`: a copy of an installation that can be served as it is, taken while the service runs.

Rules kept: nothing of the installation is locked or changed; the copy is for its owner only, whatever the umask; a copy
that could not be finished is removed.
"""

import errno
import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from outcry.bus.log import file_starts
from outcry.bus.segments import NoFrame, next_frame, open_segment, walk
from outcry.settings import Settings, read_settings
from outcry.store.database import DATABASE_FILE
from outcry.wiring import LOG_FOLDER, SECRET_FILE
from outcry.wiring.inspection import TAPE_FOLDER, NoInstallation, check_installed, readable
from outcry.wiring.vault import VAULT_FILE

#: A running service may replace files while they are copied; then those that have come are copied too.
_TRIES = 10
_PLAIN = (SECRET_FILE, VAULT_FILE, "outcry.toml", "overrides.csv")


class _Changed(Exception):
    """A file was replaced by the service before it was copied."""


def backup(folder: Path, *, data: str | None = None) -> int:
    """Copy database, tape, live logs, secret and vault key into FOLDER, which must be empty or new; the service may go
    on running.

    To restore, name that folder with OUTCRY_DATA. It holds what its database is opened with: keep it as safe as the
    original. Whoever sets OUTCRY_SECRET and OUTCRY_VAULT_KEYS instead has backups without them.

    Parameters
    ----------
    folder
        Where to.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    if settings.database_url:
        print(
            "outcry: this database is backed up with its own tools; copy the tape folder beside it",
            file=sys.stderr,
        )
        return 2
    try:
        check_installed(settings)
    except NoInstallation as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        return 1
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        print(f"outcry: {folder} is not empty", file=sys.stderr)
        return 2
    try:
        with _private(folder):
            faults = list(_copied(settings, folder))
    except (OSError, sqlite3.Error, _Changed) as problem:
        print(f"outcry: no backup was made: {_said(problem, folder)}", file=sys.stderr)
        return 1
    for fault in faults:
        print(f"outcry: {fault}", file=sys.stderr)
    print(f"backed up to {folder}")
    return 1 if faults else 0


@contextmanager
def _private(folder: Path) -> Generator[None]:
    """Make the folder, and everything made in it, its owner's only; remove what was made if it is not finished."""
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
            print(f"outcry: could not be removed: {', '.join(left)}", file=sys.stderr)
        elif new and folder.is_dir():
            folder.rmdir()
        raise
    finally:
        os.umask(umask)


def _copied(settings: Settings, folder: Path) -> Iterator[str]:
    """Copy all of it; yield a line for each thing that was damaged before it was copied.

    The database is copied first and says which tape files belong to it; a log may be ahead of its snapshot, not behind.
    Where the service has dropped or replaced a file before it was copied, the database is copied again."""
    source = settings.folder
    missing: list[str] = []
    gone: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="outcry-") as spare, readable(source, Path(spare)) as uri:
        for _ in range(_TRIES):
            logs, before = _log_files(source), missing
            _copy_database(uri, folder / DATABASE_FILE)
            missing = list(_copy_tape(source, folder))
            gone = [path for path in logs if not _copy_log(path, folder / path.relative_to(source))]
            if not gone and missing == before:
                break
    if gone:
        raise _Changed(f"{gone[0]} is gone before it can be copied: try again")
    _copy_newer_logs(source, folder)
    for name in _PLAIN:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    yield from (
        f"tape file {source / TAPE_FOLDER / name} is missing: import its recording again" for name in missing
    )
    yield from _damaged(source, folder)


def _copy_database(uri: str, target: Path) -> None:
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(uri, uri=True)) as live, closing(sqlite3.connect(target)) as copy:
        live.backup(copy)


def _copy_tape(source: Path, folder: Path) -> Iterator[str]:
    """Copy the files that the copied database names, and remove what an earlier try copied beside them; yield those
    that are missing."""
    named, target = _digests(folder), folder / TAPE_FOLDER
    for path in sorted(target.rglob("*.dbn.zst")):
        if str(path.relative_to(target)) not in named:
            path.unlink()
    for name in sorted(named):
        if not (target / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(source / TAPE_FOLDER / name, target / name)
            except FileNotFoundError:
                yield name


def _digests(folder: Path) -> dict[str, str]:
    """The tape files that a copied database names, each with its digest, empty where it has none yet."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as copy:
        try:
            return dict(copy.execute("SELECT path, digest FROM recordings"))
        except sqlite3.OperationalError:  # of an earlier Outcry, without digests
            return {path: "" for (path,) in copy.execute("SELECT path FROM recordings")}


def _damaged(source: Path, folder: Path) -> Iterator[str]:
    """What was copied although it is damaged: better than nothing, but to be known."""
    for name, digest in _digests(folder).items():
        copied = folder / TAPE_FOLDER / name
        if digest and copied.exists():
            with copied.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    yield (
                        f"tape file {source / TAPE_FOLDER / name} is damaged, and so is its copy: run `outcry doctor`"
                    )
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as copy:
        wrong = [line for (line,) in copy.execute("PRAGMA integrity_check(3)") if line != "ok"]
    yield from (
        f"the database is damaged, and so is its copy ({line}): run `outcry doctor`" for line in wrong
    )


def _log_files(source: Path) -> list[Path]:
    return sorted((source / LOG_FOLDER).glob("*/*/*/*.log"))


def _copy_log(path: Path, target: Path) -> bool:
    """Copy a file of the log; False where it was dropped meanwhile. The frame that is being written is left out."""
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
    return folder / f"{file_starts(folder)[-1]:020d}.log"


def _copy_newer_logs(source: Path, folder: Path) -> None:
    """Files that were begun while others were copied: a file that was copied before it was full leads up to them."""
    for path in _log_files(source):
        target = folder / path.relative_to(source)
        if not target.exists() or target.stat().st_size < path.stat().st_size:
            _copy_log(path, target)


def _said(problem: Exception, folder: Path) -> str:
    full = isinstance(problem, OSError) and problem.errno in {errno.ENOSPC, errno.EDQUOT}
    full = full or (isinstance(problem, sqlite3.Error) and "disk is full" in str(problem))
    if not full:
        return str(problem)
    named = getattr(problem, "filename2", None) or getattr(problem, "filename", None)
    place = f" ({named})" if named and str(named).startswith(str(folder)) else ""
    return (
        f"disk full: {folder}{place} has no room for it. What was copied so far was removed: free space, or "
        "name another folder"
    )
