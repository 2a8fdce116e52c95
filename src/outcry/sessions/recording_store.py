"""The database table of recordings: which tape files exist, and what is in them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date, timedelta
from typing import Any

from sqlalchemy import Connection, Select, select, update

from outcry.database import checksums, schema
from outcry.database.checksums import Damaged, with_checksum
from outcry.sessions.import_store import SqlImports, identity, of_contract, tuples
from outcry.sessions.store_model import RecordingId, RecordingRow, SessionRow
from outcry.trades.records import Quality

#: The longest overnight session, over several holidays.
LONGEST_SESSION = timedelta(days=10)
_AT_ONCE = 500  # values per statement: below the limit of every database
#: The columns that name tape files.
_PATHS = (schema.recordings.c.path, schema.import_recordings.c.path)


class SqlRecordings(SqlImports):
    """Reads and writes recordings and imports, in SQLite or PostgreSQL. Every method may raise `StoreBusy`."""

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
        """Return the paths of all tape files that recordings and contributions name."""
        with self._database.reading() as connection:
            return frozenset(
                found
                for path in _PATHS
                for found in connection.execute(select(path).where(path > "")).scalars()
            )

    def tape_named(self, paths: Sequence[str]) -> frozenset[str]:
        """Return which of these tape files a recording or a contribution names.

        The other files are left over from a crash or were replaced.
        """
        with self._database.reading() as connection:
            return frozenset(
                found
                for path in _PATHS
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


def write_recordings(connection: Connection, recordings: Sequence[RecordingRow]) -> None:
    """Write recordings, replacing those of the same identity."""
    checksums.replace(connection, schema.recordings, [_plain(row) for row in recordings])


def delete_recordings(connection: Connection, owner: int, recordings: Sequence[RecordingId]) -> None:
    """Delete recordings of an owner."""
    table = schema.recordings
    for one in recordings:
        same = (table.c[name] == value for name, value in identity(one).items())
        connection.execute(table.delete().where(table.c.owner == owner, *same))


def every(query: Select[Any]) -> Select[Any]:
    """Return a query unchanged: the filter that selects every row."""
    return query


def day_of(row: Mapping[str, Any]) -> date:
    """Return the trade date of a database row."""
    return date.fromisoformat(str(row["trade_date"]))


def _recording(row: Mapping[str, Any]) -> RecordingRow:
    changed: dict[str, Any] = {
        "quality": Quality(row["quality"]), "spans": tuples(row["spans"]), "from_feed": bool(row["from_feed"]),
        "trade_date": day_of(row),
    }  # fmt: skip
    return RecordingRow(**{name: value for name, value in {**row, **changed}.items() if name != "checksum"})


def _plain(row: RecordingRow) -> dict[str, Any]:
    return asdict(row) | {"spans": json.dumps(row.spans), "from_feed": int(row.from_feed)}
