"""Checks and changes the operator's own tables of instruments, for the commands and the operator's pages.

The check compares the tables with the stored data too: a change can make stored sessions outdated, and must not give
stored prices or sizes another meaning.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outcry.database.database import Database
from outcry.sessions.product_units import ChangedUnit, UnitsChanged, changed_units
from outcry.sessions.store import SqlStore
from outcry.sessions.stored_hours import OutdatedSessions, outdated_sessions
from outcry.trades.example_tables import with_examples
from outcry.trades.own_tables import (
    INSTRUMENTS_FOLDER,
    OwnTables,
    TablesChanged,
    read_own_tables,
    replace_tables,
)
from outcry.trades.reference_tables import Reference, load_reference


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """What tables mean for stored data.

    outdated: products with sessions that were computed with other hours; `outcry refold` computes them again. changed:
    ticks and size steps that differ from those of stored data; the tables must not be used.
    """

    outdated: Sequence[OutdatedSessions] = ()
    changed: Sequence[ChangedUnit] = ()


def check_stored(
    reference: Reference, store: SqlStore, database: Database, streams: Collection[str]
) -> StoredCheck:
    """Compare tables with all stored data. streams: names of live streams in the log. Raises `StoreBusy`."""
    products = reference.universe.products
    return StoredCheck(
        outdated_sessions(store.stored_hours(), products.keys(), reference.calendar),
        changed_units(database, products, streams),
    )


class InstrumentTables:
    """The tables of one data folder and one database. Thread-safe.

    running: the reference data with which this process runs. streams: returns the names of the live streams in the log.
    """

    def __init__(
        self, folder: Path, variants: dict[str, str], store: SqlStore, database: Database, running: Reference,
        streams: Callable[[], Collection[str]],
    ) -> None:  # fmt: skip
        self.folder, self.running = folder, running
        self._variants, self._store, self._database, self._streams = variants, store, database, streams
        self._checked: tuple[tuple[str, int], StoredCheck] | None = None

    def read(self) -> OwnTables:
        """Return the operator's tables as they are now. Raises `BadReference`."""
        return read_own_tables(self.folder)

    def is_running(self, own: OwnTables) -> bool:
        """Return whether this process runs with these tables."""
        return own.version == self.running.own.version

    def check(self, drafts: Mapping[str, str] | None = None) -> tuple[Reference, StoredCheck]:
        """Check the tables, and compare them with stored data.

        drafts: texts by file name, in place of tables. Raises `BadReference` for an invalid row, and `StoreBusy`.
        """
        reference = load_reference(self.folder, variants=self._variants, drafts=drafts)
        state = reference.own.version, self._database.revision()
        if self._checked is None or self._checked[0] != state:
            found = check_stored(reference, self._store, self._database, self._streams())
            self._checked = state, found
        return reference, self._checked[1]

    def check_change(self, texts: Mapping[str, str], based_on: str) -> tuple[Reference, StoredCheck]:
        """Check whether tables could be replaced.

        texts: by file name. based_on: version of the tables that were changed. Returns the reference data with the new
        tables, and what they mean for stored data. Raises `BadReference`, `UnitsChanged`, `TablesChanged` and
        `StoreBusy`.
        """
        reference, found = self.check(texts)
        if found.changed:
            raise UnitsChanged(found.changed)
        if self.read().version != based_on:
            raise TablesChanged(self.folder / INSTRUMENTS_FOLDER)
        return reference, found

    def save(self, texts: Mapping[str, str], based_on: str) -> StoredCheck:
        """Check tables, then replace them, all or none; return what they mean for stored data.

        The arguments are those of `check_change`. Raises its errors, `TablesInUse` and `OSError`; then nothing is
        saved.
        """
        _, found = self.check_change(texts, based_on)
        replace_tables(self.folder, texts, based_on)
        return found

    def add_examples(self, roots: Sequence[str]) -> tuple[Reference, Sequence[str], StoredCheck]:
        """Add example products to the tables.

        Returns the reference data with them, the names of the files that changed, and what they mean for stored data.
        Raises `CannotAdd` and the errors of `save`; then nothing is saved.
        """
        reference, drafts, based_on = with_examples(self.folder, roots, variants=self._variants)
        return reference, tuple(drafts), self.save(drafts, based_on)
