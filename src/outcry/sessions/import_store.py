"""The database tables of imports: which files were imported, how they were read, and which rows each contributed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, and_, exists, or_, select

from outcry.database import checksums, schema
from outcry.database.database import Database
from outcry.sessions.store_model import Contribution, FileRead, ImportRow, ReadAs, RecordingId
from outcry.trades.records import Quality

_AT_ONCE = 500  # values per statement: below the limit of every database


class SqlImports:
    """Reads imports and their contributions, in SQLite or PostgreSQL. Every method may raise `StoreBusy`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def imports(self, owner: int) -> Sequence[ImportRow]:
        """Return the imports of an owner, oldest first."""
        table = schema.imports
        query = (
            select(table).where(table.c.owner == owner).order_by(table.c.at_ns, table.c.name, table.c.digest)
        )
        with self._database.reading() as connection:
            return [_import(row) for row in connection.execute(query).mappings()]

    def imports_named(self, owner: int, name: str) -> frozenset[str]:
        """Return the digests of the files of this name that were imported for an owner."""
        table = schema.imports
        query = select(table.c.digest).where(table.c.owner == owner, table.c.name == name)
        with self._database.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def contributions(self, owner: int, contract: str, first: date, last: date) -> Sequence[Contribution]:
        """Return the contributions to a contract's recordings between two trade dates, both included.

        They are in the order in which they were merged.
        """
        return self._contributions(of_contract(schema.import_recordings, owner, contract, first, last))

    def contributions_of(self, owner: int, digest: str) -> Sequence[Contribution]:
        """Return the contributions of one import. digest: identifies the import.

        The result is empty if an early version, which did not store this, ran the import.
        """
        table = schema.import_recordings
        return self._contributions(and_(table.c.owner == owner, table.c.digest == digest))

    def all_contributions(self, owner: int) -> Sequence[Contribution]:
        """Return all contributions of an owner, in the order in which they were merged."""
        return self._contributions(schema.import_recordings.c.owner == owner)

    def contribution_files(self) -> Sequence[Contribution]:
        """Return all contributions of all owners that have a tape file, once for each file."""
        found = self._contributions(schema.import_recordings.c.path > "")
        return list({one.path: one for one in found}.values())

    def _contributions(self, wanted: ColumnElement[bool]) -> Sequence[Contribution]:
        table = schema.import_recordings
        query = select(table).where(wanted).order_by(table.c.position, table.c.contract, table.c.trade_date)
        with self._database.reading() as connection:
            return [_contribution(row) for row in connection.execute(query).mappings()]


def write_contributions(connection: Connection, rows: Sequence[Contribution]) -> None:
    """Write contributions, replacing those of the same import and recording."""
    checksums.replace(connection, schema.import_recordings, [_plain(row) for row in rows])


def write_import_row(connection: Connection, row: ImportRow) -> None:
    """Write the row of an import, replacing one of the same digest."""
    file, read_as = row.file, None
    if file.read_as:
        read_as = msgspec.json.encode(file.read_as).decode()
    values = {"owner": row.owner, "digest": row.digest, "name": row.name, "at_ns": row.at_ns}
    checksums.replace(connection, schema.imports, [values | asdict(file) | {"read_as": read_as}])


def delete_imports(connection: Connection, owner: int, digests: Sequence[str]) -> None:
    """Delete imports and their contributions."""
    for table in (schema.imports, schema.import_recordings):
        for at in range(0, len(digests), _AT_ONCE):
            part = table.c.digest.in_(digests[at : at + _AT_ONCE])
            connection.execute(table.delete().where(table.c.owner == owner, part))


def delete_base(connection: Connection, owner: int, recordings: Sequence[RecordingId]) -> None:
    """Delete the contributions without a digest from recordings."""
    for condition in _same(schema.import_recordings, recordings):
        table = schema.import_recordings
        connection.execute(table.delete().where(table.c.owner == owner, table.c.digest == "", condition))


def allow_again(connection: Connection, owner: int, recordings: Sequence[RecordingId]) -> None:
    """Delete the record of imports that have no tape file of their own in a recording, so that they can be repeated.

    recordings: new ones, so that the rows of those imports are gone.
    """
    imports, known = schema.imports, schema.import_recordings
    for of_them in _same(known, recordings):
        again = exists().where(
            known.c.owner == imports.c.owner,
            known.c.digest == imports.c.digest,
            known.c.path.is_(None),
            of_them,
        )
        connection.execute(imports.delete().where(imports.c.owner == owner, again))


def of_contract(table: Table, owner: int, contract: str, first: date, last: date) -> ColumnElement[bool]:
    """Return the SQL condition for the rows of a contract between two trade dates, both included."""
    return and_(table.c.owner == owner, table.c.contract == contract, table.c.trade_date.between(first, last))


def tuples(text: str) -> tuple[Any, ...]:
    """Parse a JSON list of lists as a tuple of tuples."""
    return tuple(tuple(row) for row in json.loads(text))


def identity(recording: RecordingId) -> dict[str, Any]:
    """Return the values of the columns that identify a recording among those of its owner."""
    contract, trade_date, source, quality = recording
    day = date.fromisoformat(trade_date)
    return {"contract": contract, "trade_date": day, "source": source, "quality": quality}


def _same(table: Table, recordings: Sequence[RecordingId]) -> Sequence[ColumnElement[bool]]:
    """Return conditions for the rows of recordings, each for few enough to fit in a statement."""
    ones = [and_(*(table.c[name] == value for name, value in identity(one).items())) for one in recordings]
    return [or_(*ones[at : at + 50]) for at in range(0, len(ones), 50)]


def _import(row: Mapping[Any, Any]) -> ImportRow:
    read_as = msgspec.json.decode(row["read_as"], type=ReadAs) if row["read_as"] else None
    file = FileRead(row["sha256"], row["bytes"], row["rows"], read_as)
    return ImportRow(row["owner"], row["digest"], row["name"], row["at_ns"], file)


def _contribution(row: Mapping[Any, Any]) -> Contribution:
    changed: dict[str, Any] = {
        "quality": Quality(row["quality"]), "spans": tuples(row["spans"]), "set_aside": tuples(row["set_aside"]),
        "from_feed": bool(row["from_feed"]), "trade_date": date.fromisoformat(str(row["trade_date"])),
    }  # fmt: skip
    return Contribution(**{**row, **changed})


def _plain(row: Contribution) -> dict[str, Any]:
    return asdict(row) | {
        "spans": json.dumps(row.spans), "set_aside": json.dumps(row.set_aside), "from_feed": int(row.from_feed),
    }  # fmt: skip
