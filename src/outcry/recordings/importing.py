"""Import files of market data into the tape (stored trades and bars) and the session store.

An import stores everything or nothing: a refused file leaves the store unchanged. Importing a file twice changes
nothing. New tape files are on disk before the one transaction that records their names, so an import that was reported
as done survives a crash.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outcry.market.calendar import Calendar
from outcry.market.instruments import Universe
from outcry.recordings.contributions import is_intact
from outcry.recordings.file_import import import_file
from outcry.recordings.file_model import Reading, ReadOptions
from outcry.recordings.forgetting import Forgetting, ForgottenRows
from outcry.recordings.import_choice import chosen_import
from outcry.recordings.import_report import FileReport, Progress, RefoldedContract
from outcry.recordings.refolding import refold
from outcry.recordings.session_splitting import ImportContext
from outcry.recordings.source_file import SourceFile
from outcry.recordings.tape import TapeFolder
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import Contribution, ImportRow

if TYPE_CHECKING:  # it imports the readers of all formats, which take long to load
    from outcry.recordings.formats.file_library import FileLibrary


class Importer:
    """Imports market data files into a tape (stored trades and bars) and the database.

    The parameter `now_ns` (ns UTC) of its methods is the time of the import. It decides which sessions may count as
    completed.
    """

    def __init__(
        self,
        library: "FileLibrary",
        store: SqlStore,
        tape: TapeFolder,
        universe: Universe,
        calendar: Calendar,
    ) -> None:
        self.library = library
        self._context = ImportContext(store, tape, universe, calendar)

    def run(
        self, path: Path, owner: int, options: ReadOptions, now_ns: int, progress: Progress = lambda _done, _of: None
    ) -> FileReport:  # fmt: skip
        """Import one file.

        Raises `FileRefused`, `StoreBusy`, `TapeInUse` or `OSError`; then nothing is stored.
        """
        tape, store = self._context.tape, self._context.store
        with tape.changes.exclusively(store.tape_named), SourceFile(path, options) as file:
            reading = self.library.open(path, self._context.universe, options)
            if reading is None:
                return FileReport(path, "no trades")
            known = store.imports_named(owner, file.name)
            # only then the digest is needed before the file is read
            if (
                known
                and file.digest() in known
                and self._is_intact(owner, store.contributions_of(owner, file.digest()))
            ):
                return FileReport(path, "unchanged", reading.format, reading.source)
            return import_file(self._context, owner, reading, now_ns, file, progress)

    def store(self, reading: Reading, owner: int, options: ReadOptions, now_ns: int) -> FileReport:
        """Import the file `reading.path` with a reader of the caller's, for example a download in a vendor's form.

        Raises the same errors as `run`; then nothing is stored.
        """
        tape, store = self._context.tape, self._context.store
        with tape.changes.exclusively(store.tape_named), SourceFile(reading.path, options) as file:
            return import_file(self._context, owner, reading, now_ns, file)

    def _is_intact(self, owner: int, imported: Sequence[Contribution]) -> bool:
        """Return whether all recordings and contributions that an earlier import of a file stored are undamaged.

        Otherwise the caller imports the file again. Also return False if they are unknown, or if the database lacks the
        digest (hash) of one of them.
        """
        store, tape = self._context.store, self._context.tape
        for one in imported:
            day = one.trade_date
            rows = store.recordings(owner, one.contract, day, day)
            stored = next((row for row in rows if row.id == one.recording), None)
            if stored is None or not stored.digest or not is_intact(tape, stored.file):
                return False
            if one.path and one.path != stored.path and not is_intact(tape, one.file):
                return False
        roots = {self._context.universe.contract(one.contract).root for one in imported}
        return bool(imported) and not any(store.sessions_and_damaged([owner], root)[1] for root in roots)

    def forget(
        self, named: Sequence[str], owner: int, now_ns: int, *, dry_run: bool = False
    ) -> tuple[Sequence[ImportRow], Sequence[ForgottenRows]]:
        """Undo imports; return them, and the rows that they lose in each recording.

        `named`: paths, file names or beginnings of ids or digests. `dry_run`: change nothing. Raises `UnknownImport`,
        `CannotForget`, `StoreBusy`, `TapeInUse`, `TapeDamaged` or `OSError`; then nothing is changed.
        """
        store, tape = self._context.store, self._context.tape
        with tape.changes.exclusively(store.tape_named):
            known = store.imports(owner)
            chosen = list({row.digest: row for row in (chosen_import(one, known) for one in named)}.values())
            forgetting = Forgetting(self._context, owner, chosen)
            lost = forgetting.plan()
            if not dry_run:
                forgetting.run(now_ns)
        return chosen, lost

    def record(self, reading: Reading, owner: int, settled_ns: int) -> FileReport:
        """Store the data that a live stream has received up to `settled_ns` (ns UTC, event time).

        `reading`: reads the stream's log. A session that has ended by then is complete if the log covers it without a
        gap. Raises the same errors as `run`.
        """
        with self._context.tape.changes.exclusively(self._context.store.tape_named):
            return import_file(self._context, owner, reading, settled_ns)

    def refold(self, now_ns: int) -> Iterator[RefoldedContract]:
        """Compute every session again from the tape, after the session tables or the rules have changed.

        Yields a report on each contract when it is done. Sessions that depend on a damaged file stay as they are
        stored. Raises `StoreBusy` and `TapeInUse`.
        """
        with self._context.tape.changes.exclusively(self._context.store.tape_named):
            yield from refold(self._context, now_ns)
