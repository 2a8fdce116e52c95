"""Accounts, recordings and sessions in SQLite or PostgreSQL, through SQLAlchemy Core.

Each write is one transaction that also increments `revision`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, and_, exists, func, or_, select, tuple_, update

from outcry.access.account_store import SqlAccounts
from outcry.database import checksums, schema
from outcry.database.checksums import Damaged, with_checksum
from outcry.market.calendar import SessionKind
from outcry.sessions.store_model import (
    DamagedSession,
    DatasetRow,
    RecordingId,
    RecordingRow,
    SessionRow,
    Traded,
)
from outcry.trades.records import Quality

_AT_ONCE = 500  # values per statement: below the limit of every database
_PATIENCE_S = 30.0  # removing years of a source's alerts takes long


class SqlStore(SqlAccounts):
    """Storage of accounts, recordings and sessions. Every method may raise `StoreBusy`."""

    def import_known(self, owner: int, digest: str) -> bool:
        """Return whether a file with this digest was imported for this owner before."""
        table = schema.imports
        query = select(table.c.at_ns).where(table.c.owner == owner, table.c.digest == digest)
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None

    def imported(self, owner: int, digest: str) -> Sequence[RecordingId]:
        """Return the recordings that an import added rows to.

        Empty for imports before Outcry stored this.
        """
        table = schema.import_recordings
        query = select(table.c.contract, table.c.trade_date, table.c.source, table.c.quality)
        with self._database.reading() as connection:
            rows = connection.execute(query.where(table.c.owner == owner, table.c.digest == digest))
            return [(contract, str(day), source, quality) for contract, day, source, quality in rows]

    def recordings(self, owner: int, contract: str, first: date, last: date) -> Sequence[RecordingRow]:
        """Return the recordings of a contract between two trade dates, both included."""
        table = schema.recordings
        wanted = (
            table.c.owner == owner,
            table.c.contract == contract,
            table.c.trade_date.between(first, last),
        )
        return self._recordings(lambda query: query.where(*wanted).order_by(table.c.trade_date))[0]

    def all_recordings(self) -> Sequence[RecordingRow]:
        """Return all recordings except those with a damaged row."""
        return self._recordings(lambda query: query.order_by(schema.recordings.c.path))[0]

    def has_damaged_recordings(self) -> bool:
        """Return whether the row of any recording is damaged, so that `all_recordings` leaves it out."""
        return bool(self._recordings(_all)[1])

    def _recordings(
        self, narrowed: Callable[[Select[Any]], Select[Any]]
    ) -> tuple[list[RecordingRow], list[Damaged]]:
        with self._database.reading() as connection:
            found = checksums.read(connection, schema.recordings, narrowed)
        return checksums.built(found, schema.recordings.name, _recording)

    def _sessions(
        self, narrowed: Callable[[Select[Any]], Select[Any]]
    ) -> tuple[list[SessionRow], list[Damaged]]:
        with self._database.reading() as connection:
            found = checksums.read(connection, schema.sessions, narrowed)
        return checksums.built(found, schema.sessions.name, _session)

    def damaged(self) -> list[Damaged]:
        """Return the recordings and sessions whose rows do not match their checksums."""
        return [*self._recordings(_all)[1], *self._sessions(_all)[1]]

    def add_digest(self, recording: RecordingRow, digest: str) -> None:
        """Store the digest of a recording's file, unless another file has replaced it. Does not change the revision."""
        table = schema.recordings
        values = _plain_recording(replace(recording, digest=digest))
        with self._database.write(moves="nothing") as connection:
            connection.execute(
                update(table)
                .where(table.c.path == recording.path, table.c.digest == "")
                .values(digest=digest, checksum=values["checksum"])
            )

    def all_sessions(self) -> Sequence[SessionRow]:
        """Return all intact sessions of all owners."""
        return self._sessions(_all)[0]

    def add_checksums(self) -> int:
        """Add checksums to rows written by an earlier version; return how many."""
        with self._database.write(moves="nothing", patience_s=_PATIENCE_S) as connection:
            tables = (schema.recordings, schema.sessions, schema.alerts)
            return sum(checksums.add_missing(connection, table) for table in tables)

    def tape_paths(self) -> frozenset[str]:
        """Return all tape files that recordings name."""
        with self._database.reading() as connection:
            return frozenset(connection.execute(select(schema.recordings.c.path)).scalars())

    def tape_named(self, paths: Sequence[str]) -> frozenset[str]:
        """Return which of these tape files are named by a recording.

        Files left over from a crash are not among them.
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

    def commit_import(
        self, owner: int, digest: str, name: str, recordings: Sequence[RecordingRow],
        sessions: Sequence[SessionRow], now_ns: int, *, brought: Sequence[RecordingId] = (),
        fresh: Sequence[RecordingId] = (),
    ) -> None:  # fmt: skip
        """Store all recordings and sessions of one file in one transaction, replacing those of the same identity.

        digest: empty if the source is not a file, so that it need not be recognised later. brought: recordings with
        rows of the file. fresh: those with rows of no other file now; earlier imports into them must be repeated.
        """
        done = {"owner": owner, "digest": digest}
        with self._database.write() as connection:
            _replace(connection, schema.recordings, [_plain_recording(row) for row in recordings])
            _replace(connection, schema.sessions, [_plain(row) for row in sessions])
            _forget_imports(connection, owner, fresh)
            if digest:
                _replace(connection, schema.imports, [done | {"name": name, "at_ns": now_ns}])
                _replace(connection, schema.import_recordings, [done | _identity(one) for one in brought])

    def replace_sessions(self, owner: int, contract: str, sessions: Sequence[SessionRow]) -> None:
        """Replace all stored sessions of a contract in one transaction."""
        table = schema.sessions
        with self._database.write() as connection:
            connection.execute(table.delete().where(table.c.owner == owner, table.c.contract == contract))
            _replace(connection, table, [_plain(row) for row in sessions])

    def forget_source(self, source: str, also: Callable[[Connection, str], None]) -> list[str]:
        """Delete all recordings and sessions of a source, of all owners, in one transaction.

        also: deletes further rows of the source in the same transaction. Return the tape files that are no longer
        named, for the caller to remove. For feeds only: imported files stay recorded as imported.
        """
        with self._database.write(patience_s=_PATIENCE_S) as connection:
            named = schema.recordings.c.source == source
            paths = list(connection.execute(select(schema.recordings.c.path).where(named)).scalars())
            connection.execute(schema.recordings.delete().where(named))
            connection.execute(schema.sessions.delete().where(schema.sessions.c.source == source))
            also(connection, source)
            return paths

    def sessions(self, owners: Sequence[int], root: str) -> Sequence[SessionRow]:
        """Return the intact sessions of a product of these owners, oldest first."""
        return self.sessions_and_damaged(owners, root)[0]

    def sessions_and_damaged(
        self, owners: Sequence[int], root: str
    ) -> tuple[Sequence[SessionRow], Sequence[DamagedSession]]:
        """Return `sessions` and the damaged ones, from one read."""
        table = schema.sessions
        wanted = (table.c.owner.in_(owners), table.c.root == root)
        sound, damaged = self._sessions(lambda query: query.where(*wanted).order_by(table.c.open_ns))
        return sound, [_damaged_session(row) for row in damaged]

    def sessions_of(self, owner: int, contract: str, first: date, last: date) -> Sequence[SessionRow]:
        """Return the intact sessions of one contract between two trade dates, both included."""
        table = schema.sessions
        wanted = (
            table.c.owner == owner,
            table.c.contract == contract,
            table.c.trade_date.between(first, last),
        )
        return self._sessions(lambda query: query.where(*wanted))[0]

    def traded(self, owner: int, root: str, first: date, last: date) -> Sequence[Traded]:
        """Return volume and hourly activity of a product's complete sessions between two trade dates, both included."""
        table = schema.sessions
        wanted = (
            table.c.owner == owner,
            table.c.root == root,
            table.c.complete == 1,
            table.c.trade_date.between(first, last),
        )
        found = self._sessions(lambda query: query.where(*wanted))[0]
        return [Traded(row.contract, row.trade_date, row.kind, row.volume, row.activity) for row in found]

    def roots(self, owners: Sequence[int]) -> Sequence[str]:
        """Return the roots of products that these owners have sessions of."""
        table = schema.sessions
        query = select(table.c.root).where(table.c.owner.in_(owners)).distinct().order_by(table.c.root)
        with self._database.reading() as connection:
            return list(connection.execute(query).scalars())

    def datasets(self) -> Sequence[DatasetRow]:
        """Return counts of all sessions by owner, contract, source and kind, oldest contract first."""
        of = schema.sessions.c
        identity = (of.owner, of.root, of.contract, of.source, of.kind)
        query = select(
            *identity,
            func.count().label("sessions"),
            func.sum(of.complete).label("complete"),
            func.min(of.trade_date).label("first"),
            func.max(of.trade_date).label("last"),
        )
        with self._database.reading() as connection:
            order = (of.owner, of.root, func.min(of.trade_date), of.contract, of.source, of.kind)
            rows = connection.execute(query.group_by(*identity).order_by(*order)).mappings()
            return [_dataset(row) for row in rows]


def _all(query: Select[Any]) -> Select[Any]:
    return query


def _recording(row: Mapping[str, Any]) -> RecordingRow:
    changed: dict[str, Any] = {
        "quality": Quality(row["quality"]), "spans": _tuples(row["spans"]), "from_feed": bool(row["from_feed"]),
        **_day(row),
    }  # fmt: skip
    return RecordingRow(**{name: value for name, value in {**row, **changed}.items() if name != "checksum"})


def _session(row: Mapping[str, Any]) -> SessionRow:
    changed: dict[str, Any] = {
        "kind": SessionKind(row["kind"]), "quality": Quality(row["quality"]),
        "complete": bool(row["complete"]), "short": bool(row["short"]), **_day(row),
        "holes": _tuples(row["holes"]), "activity": _tuples(row["activity"]),
    }  # fmt: skip
    return SessionRow(**{name: value for name, value in {**row, **changed}.items() if name != "checksum"})


def _day(row: Mapping[str, Any]) -> dict[str, date]:
    return {"trade_date": date.fromisoformat(str(row["trade_date"]))}


def _damaged_session(row: Damaged) -> DamagedSession:
    of = {name: str(row.values[name]) for name in ("root", "contract", "trade_date", "kind")}
    owner = row.values["owner"]
    return DamagedSession(owner=owner if isinstance(owner, int) else 0, **of)


def _identity(recording: RecordingId) -> dict[str, Any]:
    contract, trade_date, source, quality = recording
    day = date.fromisoformat(trade_date)
    return {"contract": contract, "trade_date": day, "source": source, "quality": quality}


def _forget_imports(connection: Connection, owner: int, fresh: Sequence[RecordingId]) -> None:
    """Delete the record of imports whose rows are no longer in the recordings they went to."""
    imports, known = schema.imports, schema.import_recordings
    for start in range(0, len(fresh), 50):
        part = fresh[start : start + 50]
        of_them = or_(
            *(and_(*(known.c[name] == value for name, value in _identity(one).items())) for one in part)
        )
        again = exists().where(known.c.owner == imports.c.owner, known.c.digest == imports.c.digest, of_them)
        connection.execute(imports.delete().where(imports.c.owner == owner, again))


def _dataset(row: RowMapping) -> DatasetRow:
    changed = {"kind": SessionKind(row["kind"]), "complete": int(row["complete"])}
    values: dict[str, Any] = {**row, **changed}
    return DatasetRow(**values)


def _plain_recording(row: RecordingRow) -> dict[str, Any]:
    return with_checksum(asdict(row) | {"spans": json.dumps(row.spans), "from_feed": int(row.from_feed)})


def _plain(row: SessionRow) -> dict[str, Any]:
    return with_checksum(
        asdict(row)
        | {
            "complete": int(row.complete), "short": int(row.short),
            "holes": json.dumps(row.holes), "activity": json.dumps(row.activity),
        }
    )  # fmt: skip


def _tuples(text: str) -> tuple[Any, ...]:
    return tuple(tuple(row) for row in json.loads(text))


def _replace(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Delete rows with the same primary key, then insert. This works in both databases."""
    if not rows:
        return
    identity = list(table.primary_key.columns)
    for start in range(0, len(rows), 100):  # SQLite 3.40 allows at most 32,766 bound values per statement
        part = rows[start : start + 100]
        wanted = [tuple(row[column.name] for column in identity) for row in part]
        connection.execute(table.delete().where(tuple_(*identity).in_(wanted)))
        connection.execute(table.insert(), part)
