"""Verify that a tape file still has its stored content.

If the database has a digest of the file, the file's bytes are compared with it. A file written by an earlier version
has no stored digest. Such a file is read completely, and its number of rows, its lots, and its first and last time are
compared with its row in the database. Its prices cannot be verified.
"""

from collections.abc import Iterable, Iterator

from outcry.recordings.tape import TapeFolder
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import RecordingRow
from outcry.trades.rows import volume_of


def verified(row: RecordingRow, tape: TapeFolder) -> tuple[str, str]:
    """Check a recording's file; return its SHA-256 and an error message, which is empty if the file is intact."""
    try:
        found = tape.digest(row.path)
        if row.digest:
            if row.digest != found:
                # raises an error that states the difference
                next(iter(tape.read(row.file, row.quality)), None)
            return found, ""
        return found, _counted(row, tape)
    except TapeDamaged as problem:
        return "", str(problem)


def verified_contributions(
    store: SqlStore, tape: TapeFolder, recordings: Iterable[RecordingRow]
) -> Iterator[str]:
    """Check the tape files that have the rows of one import alone; yield an error message for each damaged one.

    recordings: those whose files are verified already.
    """
    known = {row.path for row in recordings}
    for one in store.contribution_files():
        if one.file.path not in known:
            try:
                next(iter(tape.read(one.file, one.quality)), None)
            except TapeDamaged as problem:
                if store.tape_named([one.file.path]):  # a running service may have replaced the file
                    yield str(problem)


def add_digests(store: SqlStore, tape: TapeFolder) -> Iterator[str]:
    """Store the missing digests of tape files that match their rows in the database.

    Yield an error message for each file that does not match. Raises `StoreBusy`.
    """
    for row in store.without_digest():
        found, fault = verified(row, tape)
        if fault:
            yield fault
        else:
            store.add_digest(row, found)


def _counted(row: RecordingRow, tape: TapeFolder) -> str:
    rows = volume = 0
    times: list[int] = []
    for chunk in tape.read(row.file, row.quality):
        rows, volume = rows + len(chunk), volume + volume_of(chunk, row.quality)
        times += [int(chunk["ts_event"].min()), int(chunk["ts_event"].max())]
    found = (rows, volume, min(times, default=0), max(times, default=0))
    stored = (row.rows, row.volume, row.first_ns, row.last_ns)
    if found == stored:
        return ""
    return (
        f"tape file {row.path} is damaged: rows, lots, first and last time are {found}, but {stored} were stored. "
        "Import its recording again, or restore the file from a backup"
    )
