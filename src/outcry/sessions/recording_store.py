"""The database tables of recordings and imports: which tape files exist, and which files were imported into them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, exists, or_, select, update

from outcry.database import checksums, schema
from outcry.database.checksums import Damaged, with_checksum
from outcry.database.database import Database
from outcry.sessions.store_model import RecordingId, RecordingRow, SessionRow
from outcry.trades.records import Quality

#: The longest overnight session, over several holidays.
LONGEST_SESSION = timedelta(days=10)
_AT_ONCE = 500  # values per statement: below the limit of every database


class SqlRecordings:
    """Reads and writes recordings and imports, in SQLite or PostgreSQL. Every method may raise `StoreBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def imports_named(self, owner: int, name: str) -> frozenset[str]:
        """Return the digests of the files of this name that were imported for an owner."""
        table = schema.imports
        query = select(table.c.digest).where(table.c.owner == owner, table.c.name == name)
        with self._database.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def imported(self, owner: int, digest: str) -> Sequence[RecordingId]:
        """Return the recordings that received rows from an import. digest: identifies the import.

        The result is empty if an earlier version, which did not store this, ran the import.
        """
        table = schema.import_recordings
        query = select(table.c.contract, table.c.trade_date, table.c.source, table.c.quality)
        with self._database.reading() as connection:
            rows = connection.execute(query.where(table.c.owner == owner, table.c.digest == digest))
            return [(contract, str(day), source, quality) for contract, day, source, quality in rows]

    def recordings(self, owner: int, contract: str, first: date, last: date) -> Sequence[RecordingRow]:
        """Return the recordings of a contract between two trade dates, both included."""
        table = schema.recordings
        wanted = of_contract(table, owner, contract, first, last)
        return self._recordings(lambda query: query.where(wanted).order_by(table.c.trade_date))[0]

    def recordings_of(self, session: SessionRow) -> Sequence[RecordingRow]:
        """Return the recordings from which a session was computed, in order of trade date.

        An overnight session has rows of several trade dates.
        """
        last = session.trade_date
        found = self.recordings(session.owner, session.contract, last - LONGEST_SESSION, last)
        return [
            row
            for row in found
            if (row.source, row.quality) == (session.source, session.quality)
            and row.first_ns < session.close_ns
            and row.last_ns >= session.open_ns
        ]

    def all_recordings(self) -> Sequence[RecordingRow]:
        """Return all recordings except those whose database row is damaged."""
        return self._recordings(lambda query: query.order_by(schema.recordings.c.path))[0]

    def without_digest(self) -> Sequence[RecordingRow]:
        """Return the recordings whose file has no stored digest, except those whose database row is damaged."""
        table = schema.recordings
        return self._recordings(lambda query: query.where(table.c.digest == "").order_by(table.c.path))[0]

    def has_damaged_recordings(self) -> bool:
        """Return whether the database row of any recording is damaged, so that `all_recordings` omits it."""
        return bool(self._recordings(every)[1])

    def add_digest(self, recording: RecordingRow, digest: str) -> None:
        """Store the digest of a recording's file, unless the recording has another file by now.

        The database's revision (counter of changes) stays the same, so cached sessions stay valid.
        """
        table = schema.recordings
        values = with_checksum(_plain(replace(recording, digest=digest)))
        with self._database.write(moves="nothing") as connection:
            connection.execute(
                update(table)
                .where(table.c.path == recording.path, table.c.digest == "")
                .values(digest=digest, checksum=values["checksum"])
            )

    def tape_paths(self) -> frozenset[str]:
        """Return the paths of all tape files that recordings name."""
        with self._database.reading() as connection:
            return frozenset(connection.execute(select(schema.recordings.c.path)).scalars())

    def tape_named(self, paths: Sequence[str]) -> frozenset[str]:
        """Return which of these tape files a recording names.

        The other files are left over from a crash or were replaced.
        """
        path = schema.recordings.c.path
        with self._database.reading() as connection:
            return frozenset(
                found
                for at in range(0, len(paths), _AT_ONCE)
                for found in connection.execute(
                    select(path).where(path.in_(paths[at : at + _AT_ONCE]))
                ).scalars()
            )

    def _recordings(
        self, narrowed: Callable[[Select[Any]], Select[Any]]
    ) -> tuple[list[RecordingRow], list[Damaged]]:
        with self._database.reading() as connection:
            found = checksums.read(connection, schema.recordings, narrowed)
        return checksums.built(found, schema.recordings.name, _recording)


def write_import(
    connection: Connection, owner: int, digest: str, name: str, recordings: Sequence[RecordingRow], now_ns: int,
    imported: Sequence[RecordingId], fresh: Sequence[RecordingId],
) -> None:  # fmt: skip
    """Write an import and its recordings. The arguments are those of `SqlStore.commit_import`."""
    _forget_imports(connection, owner, fresh)
    checksums.replace(connection, schema.recordings, [_plain(row) for row in recordings])
    if digest:
        done = {"owner": owner, "digest": digest}
        checksums.replace(connection, schema.imports, [done | {"name": name, "at_ns": now_ns}])
        checksums.replace(connection, schema.import_recordings, [done | _identity(one) for one in imported])


def every(query: Select[Any]) -> Select[Any]:
    """Return a query unchanged: the filter that selects every row."""
    return query


def of_contract(table: Table, owner: int, contract: str, first: date, last: date) -> ColumnElement[bool]:
    """Return the SQL condition for the rows of a contract between two trade dates, both included."""
    return and_(table.c.owner == owner, table.c.contract == contract, table.c.trade_date.between(first, last))


def day_of(row: Mapping[str, Any]) -> date:
    """Return the trade date of a database row."""
    return date.fromisoformat(str(row["trade_date"]))


def tuples(text: str) -> tuple[Any, ...]:
    """Parse a JSON list of lists as a tuple of tuples."""
    return tuple(tuple(row) for row in json.loads(text))


def _recording(row: Mapping[str, Any]) -> RecordingRow:
    changed: dict[str, Any] = {
        "quality": Quality(row["quality"]), "spans": tuples(row["spans"]), "from_feed": bool(row["from_feed"]),
        "trade_date": day_of(row),
    }  # fmt: skip
    return RecordingRow(**{name: value for name, value in {**row, **changed}.items() if name != "checksum"})


def _identity(recording: RecordingId) -> dict[str, Any]:
    contract, trade_date, source, quality = recording
    day = date.fromisoformat(trade_date)
    return {"contract": contract, "trade_date": day, "source": source, "quality": quality}


def _forget_imports(connection: Connection, owner: int, fresh: Sequence[RecordingId]) -> None:
    """Delete the record of earlier imports that added rows to a `fresh` recording, so that they can be repeated.

    fresh: recordings that now have rows of the new import only, so the rows of the earlier ones are gone.
    """
    imports, known = schema.imports, schema.import_recordings
    for start in range(0, len(fresh), 50):
        part = fresh[start : start + 50]
        of_them = or_(
            *(and_(*(known.c[name] == value for name, value in _identity(one).items())) for one in part)
        )
        again = exists().where(known.c.owner == imports.c.owner, known.c.digest == imports.c.digest, of_them)
        connection.execute(imports.delete().where(imports.c.owner == owner, again))


def _plain(row: RecordingRow) -> dict[str, Any]:
    return asdict(row) | {"spans": json.dumps(row.spans), "from_feed": int(row.from_feed)}
