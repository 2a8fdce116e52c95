"""`outcry import --list` and `--forget`: the imported files and how they were read, and undoing an import."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from outcry.app.installation import Installation
from outcry.base.timestamps import iso_timestamp
from outcry.cli.columns import FORGOTTEN, IMPORTS
from outcry.cli.tables import Cell, RowsOutput, StreamedRows, on_terminal
from outcry.database.errors import StoreBusy
from outcry.recordings.file_model import shown
from outcry.recordings.forgetting import CannotForget
from outcry.recordings.import_choice import ID_LENGTH, UnknownImport, import_id, read_with
from outcry.recordings.tape_errors import TapeDamaged, TapeInUse
from outcry.sessions.store_model import Contribution, ImportRow


def list_imports(installation: Installation, owner: int, output: RowsOutput) -> int:
    """Print the imports of an owner, oldest first: name, digest, size, how it was read, and what it has rows of."""
    contributions: dict[str, list[Contribution]] = {}
    for one in installation.store.all_contributions(owner):
        if one.path != "":  # otherwise a live recording replaced the rows
            contributions.setdefault(one.digest, []).append(one)
    short = output == "table" or (output is None and on_terminal())
    with StreamedRows(IMPORTS, output) as rows:
        for row in installation.store.imports(owner):
            rows.add(*_cells(row, contributions.get(row.digest, []), short=short))
    return 0


def _cells(row: ImportRow, contributions: Iterable[Contribution], *, short: bool) -> Iterator[Cell]:
    file, days = row.file, list(contributions)
    yield from (
        import_id(row),
        iso_timestamp(row.at_ns),
        shown(row.name),
        file.sha256[:ID_LENGTH] if short else file.sha256,
    )
    yield from (file.bytes, file.rows)
    read = file.read_as
    yield from (
        (read.format, read.source, read.contract, read.tz, read.stamp, read.scale) if read else (None,) * 6
    )
    yield " ".join(sorted({one.contract for one in days}))
    yield " ".join(sorted({one.quality.value for one in days}))
    dates = sorted({str(one.trade_date) for one in days})
    yield from (len(dates), dates[0] if dates else None, dates[-1] if dates else None)
    yield from (read.volume, read.decimal, read.dates, read.bad_rows) if read else (None,) * 4


def forget_imports(
    installation: Installation, named: Sequence[str], owner: int, output: RowsOutput, *, dry_run: bool
) -> int:
    """Undo imports, and print the rows that each recording loses. dry_run: only print them."""
    try:
        imports, lost = installation.importer.forget(
            named, owner, installation.clock.now_ns(), dry_run=dry_run
        )
    except (UnknownImport, CannotForget, StoreBusy, TapeDamaged, TapeInUse, OSError) as problem:
        print(f"outcry import: Nothing was forgotten. {problem}", file=sys.stderr)
        return 1
    with StreamedRows(FORGOTTEN, output) as rows:
        for one in lost:
            rows.add(one.contract, one.trade_date, one.source, one.quality, one.removed, one.left)
    for row in imports:
        print(
            f"{shown(row.name)}{read_with(row)}: {'would be forgotten' if dry_run else 'forgotten'}",
            file=sys.stderr,
        )
    return 0
