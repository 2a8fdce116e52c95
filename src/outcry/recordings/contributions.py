"""Contributions: the rows that each import added to a recording, from which the recording can be built again.

A recording of one import is the contribution itself, so it takes no further space. If several imports have rows of a
day, each contribution has a tape file of its own beside the merged one, unless its rows are equal to another's.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from outcry.recordings.tape import TapeFolder
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import Contribution, RecordingId, RecordingRow, SetAside, TapeFile
from outcry.trades.dedupe import join
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import volume_of


def contributions_to(
    known: Iterable[Contribution], stored: RecordingRow | None, store: SqlStore
) -> list[Contribution]:
    """Return the contributions of a recording that have a tape file, in the order in which they were merged.

    known: those in the database. stored: the recording. If an earlier version wrote it, so that none has a tape file,
    the recording itself is the contribution without a digest, which then has the rows of all its imports.
    """
    found = [one for one in known if one.path]
    if found or stored is None:
        return found
    sessions = store.sessions_of(stored.owner, stored.contract, stored.trade_date, stored.trade_date)
    set_aside = tuple(
        (row.open_ns, row.off_tick, row.out_of_order)
        for row in sessions
        if (row.source, row.quality) == (stored.source, stored.quality)
    )
    return [Contribution(
        stored.owner, "", stored.contract, stored.trade_date, stored.source, stored.quality, 0, stored.path,
        stored.digest, stored.rows, stored.volume, stored.first_ns, stored.last_ns, stored.spans, stored.from_feed,
        set_aside,
    )]  # fmt: skip


def known_contributions(store: SqlStore, row: RecordingRow | Contribution) -> list[Contribution]:
    """Return the contributions in the database to the recording that `row` describes or belongs to."""
    day = row.trade_date
    found = store.contributions(row.owner, row.contract, day, day)
    return [one for one in found if (one.source, one.quality) == (row.source, row.quality)]


def merged_rows(tape: TapeFolder, contributions: Iterable[Contribution], quality: Quality) -> Rows:
    """Return the rows of a recording, merged from its contributions in their order. Raises `TapeDamaged`."""
    rows = np.zeros(0, quality.dtype)
    for one in contributions:
        rows, _ = join(rows, tape.read_all([one.file], quality), quality)
    return rows


def readable(tape: TapeFolder, contributions: Iterable[Contribution]) -> list[Contribution]:
    """Return the contributions whose tape files are undamaged."""
    return [one for one in contributions if is_intact(tape, one.file)]


def is_intact(tape: TapeFolder, file: TapeFile) -> bool:
    """Return whether a tape file exists and has its stored digest, if one is stored."""
    try:
        return tape.digest(file.path) == (file.digest or tape.digest(file.path))
    except TapeDamaged:
        return False


def with_equal_rows(tape: TapeFolder, rows: Rows, among: Iterable[Contribution]) -> TapeFile | None:
    """Return the tape file of a contribution that has exactly these rows; None if there is none."""
    if not len(rows):
        return None
    for one in among:
        counts = (one.rows, one.volume, one.first_ns, one.last_ns)
        times = int(rows["ts_event"][0]), int(rows["ts_event"][-1])
        if counts != (len(rows), volume_of(rows, one.quality), *times) or not one.file_digest:
            continue
        if is_intact(tape, one.file) and np.array_equal(tape.read_all([one.file], one.quality), rows):
            return one.file
    return None


def joined_set_aside(parts: Iterable[SetAside]) -> SetAside:
    """Return the rows set aside in each session by several imports: in each, the counts of the import with most.

    Files of one session usually overlap, such as a file that grows, so a sum would count the same rows again.
    """
    most: dict[int, tuple[int, int]] = {}
    for open_ns, off_tick, late in (one for part in parts for one in part):
        before = most.get(open_ns, (0, 0))
        most[open_ns] = max(before[0], off_tick), max(before[1], late)
    return tuple((open_ns, *counts) for open_ns, counts in sorted(most.items()))


def set_aside_in(open_ns: int, days: Iterable[SetAside]) -> tuple[int, int]:
    """Return the off-tick and late rows of the session that opens at `open_ns`, from those of its recordings."""
    counts = [(off_tick, late) for day in days for opened, off_tick, late in day if opened == open_ns]
    return sum(off_tick for off_tick, _ in counts), sum(late for _, late in counts)


def set_aside_by_recording(
    store: SqlStore, rows: Sequence[RecordingRow], forgotten: frozenset[str] = frozenset()
) -> Mapping[RecordingId, SetAside | None]:
    """Return the rows set aside in each session by the imports of each recording of one contract.

    forgotten: digests of imports that do not count. The value is None for a recording of an earlier version, which
    stored them with the session only.
    """
    if not rows:
        return {}
    first, last = min(row.trade_date for row in rows), max(row.trade_date for row in rows)
    parts: dict[RecordingId, list[SetAside]] = {}
    for one in store.contributions(rows[0].owner, rows[0].contract, first, last):
        if one.path and one.digest not in forgotten:
            parts.setdefault(one.recording, []).append(one.set_aside)
    return {row.id: joined_set_aside(parts[row.id]) if row.id in parts else None for row in rows}
