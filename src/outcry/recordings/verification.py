"""Whether a tape file still holds what was stored, as far as that can be known.

A file with a stored digest is compared with it. A file of an earlier Outcry has none: it can only be read to its end
and counted against the row beside its name (rows, lots, first and last time). Prices cannot be verified then; the
digest such a file gets from now on vouches for what it holds today.
"""

from collections.abc import Iterator

from outcry.sessions.store_model import RecordingRow, SessionStore
from outcry.sessions.tape_model import Tape, TapeDamaged
from outcry.trades.rows import volume_of


def verified(row: RecordingRow, tape: Tape) -> tuple[str, str]:
    """Return the SHA-256 of a recording's file, and one line that names what is wrong, empty if nothing is."""
    try:
        found = tape.digest(row.path)
        if row.digest:
            if row.digest != found:
                next(iter(tape.read(row.file, row.quality)), None)  # raises, and says what differs
            return found, ""
        return found, _counted(row, tape)
    except TapeDamaged as problem:
        return "", str(problem)


def add_digests(store: SessionStore, tape: Tape) -> Iterator[str]:
    """Store a digest for each file that has none and is what its row says; yield a line for each that is not.

    Raises `StoreBusy`."""
    for row in store.all_recordings():
        if not row.digest:
            found, fault = verified(row, tape)
            if fault:
                yield fault
            else:
                store.add_digest(row, found)


def _counted(row: RecordingRow, tape: Tape) -> str:
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
