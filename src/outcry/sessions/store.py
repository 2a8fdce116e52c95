"""The database tables of sessions, in SQLite or PostgreSQL, and the transaction that stores an import.

Each write is one transaction that also increments `revision`, by which readers notice that cached sessions are old.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, and_, func, select

from outcry.access.account_store import SqlAccounts
from outcry.database import checksums, schema
from outcry.database.checksums import Damaged
from outcry.market.calendar import SessionKind
from outcry.sessions.import_store import (
    allow_again,
    delete_base,
    delete_imports,
    of_contract,
    tuples,
    write_contributions,
    write_import_row,
)
from outcry.sessions.recording_store import (
    SqlRecordings,
    day_of,
    delete_recordings,
    every,
    write_recordings,
)
from outcry.sessions.store_model import (
    NO_DETAILS,
    Contribution,
    DamagedSession,
    DatasetRow,
    FileRead,
    ImportRow,
    RecordingId,
    RecordingRow,
    SessionRow,
    Traded,
)
from outcry.sessions.stored_hours import StoredHours
from outcry.trades.records import Quality

_PATIENCE_S = 30.0  # removing years of a source's alerts takes long


class SqlStore(SqlAccounts, SqlRecordings):
    """Storage of accounts, recordings and sessions in a database. Every method may raise `StoreBusy`."""

    def _sessions(
        self, narrowed: Callable[[Select[Any]], Select[Any]]
    ) -> tuple[list[SessionRow], list[Damaged]]:
        with self._database.reading() as connection:
            found = checksums.read(connection, schema.sessions, narrowed)
        return checksums.built(found, schema.sessions.name, _session)

    def damaged(self) -> list[Damaged]:
        """Return the recordings and sessions whose database rows do not match their checksums."""
        return [*self._recordings(every)[1], *self._sessions(every)[1]]

    def all_sessions(self) -> Sequence[SessionRow]:
        """Return all intact sessions of all owners."""
        return self._sessions(every)[0]

    def add_checksums(self) -> int:
        """Add checksums to rows written by an earlier version; return how many."""
        with self._database.write(moves="nothing", patience_s=_PATIENCE_S) as connection:
            tables = (schema.recordings, schema.sessions, schema.alerts)
            return sum(checksums.add_missing(connection, table) for table in tables)

    def commit_import(
        self, owner: int, digest: str, name: str, recordings: Sequence[RecordingRow],
        sessions: Sequence[SessionRow], now_ns: int, *, file: FileRead = NO_DETAILS,
        contributions: Sequence[Contribution] = (), fresh: Sequence[RecordingId] = (),
    ) -> None:  # fmt: skip
        """Store all recordings and sessions of one file in one transaction, replacing those of the same identity.

        digest: identifies the file, to recognise a repeated import; empty if the source is not a file. contributions:
        the rows that the file added to each recording. fresh: recordings that lost the rows of earlier imports, except
        of those with a tape file of their own, so that the others must be repeated to restore their rows.
        """
        with self._database.write() as connection:
            allow_again(connection, owner, fresh)
            write_recordings(connection, recordings)
            write_contributions(connection, contributions)
            if digest:
                write_import_row(connection, ImportRow(owner, digest, name, now_ns, file))
            checksums.replace(connection, schema.sessions, [_plain(row) for row in sessions])

    def forget_imports(
        self, owner: int, digests: Sequence[str], *, removed: Sequence[RecordingId],
        without_base: Sequence[RecordingId], recordings: Sequence[RecordingRow],
        sessions: Sequence[SessionRow], removed_sessions: Sequence[SessionRow],
    ) -> None:  # fmt: skip
        """Delete imports with their contributions, and replace what depends on them, in one transaction.

        removed: recordings that have no rows any more. without_base: recordings of which to delete the contribution
        without a digest. recordings: those that have other rows now. sessions: those that were computed again.
        removed_sessions: those that have no rows any more.
        """
        with self._database.write(patience_s=_PATIENCE_S) as connection:
            delete_imports(connection, owner, digests)
            delete_base(connection, owner, without_base)
            delete_recordings(connection, owner, removed)
            write_recordings(connection, recordings)
            for row in removed_sessions:
                which = of_contract(schema.sessions, owner, row.contract, row.trade_date, row.trade_date)
                connection.execute(
                    schema.sessions.delete().where(which, schema.sessions.c.kind == row.kind.value)
                )
            checksums.replace(connection, schema.sessions, [_plain(row) for row in sessions])

    def stored_hours(self) -> Sequence[StoredHours]:
        """Return the hours with which each session of all owners was computed."""
        of = schema.sessions.c
        query = select(of.root, of.trade_date, of.kind, of.open_ns, of.close_ns, of.segments)
        with self._database.reading() as connection:
            return [
                StoredHours(
                    row.root,
                    row.trade_date,
                    SessionKind(row.kind),
                    row.open_ns,
                    row.close_ns,
                    tuples(row.segments),
                )
                for row in connection.execute(query)
            ]

    def replace_sessions(self, owner: int, contract: str, sessions: Sequence[SessionRow]) -> None:
        """Replace all stored sessions of a contract in one transaction."""
        table = schema.sessions
        with self._database.write() as connection:
            connection.execute(table.delete().where(table.c.owner == owner, table.c.contract == contract))
            checksums.replace(connection, table, [_plain(row) for row in sessions])

    def forget_source(self, source: str, also: Callable[[Connection, str], None]) -> list[str]:
        """Delete all recordings and sessions of a source, of all owners, in one transaction.

        also: deletes further rows of the source in the same transaction. Return the tape files that are no longer
        named, which the caller must remove. Use it only for a source that is a feed: deleted rows of a file could not
        be imported again, because the file stays recorded as imported.
        """
        with self._database.write(patience_s=_PATIENCE_S) as connection:
            named = schema.recordings.c.source == source
            parts = schema.import_recordings
            contributed = and_(parts.c.source == source, parts.c.path > "")
            paths = {
                *connection.execute(select(schema.recordings.c.path).where(named)).scalars(),
                *connection.execute(select(parts.c.path).where(contributed)).scalars(),
            }
            connection.execute(schema.recordings.delete().where(named))
            connection.execute(parts.delete().where(parts.c.source == source))
            connection.execute(schema.sessions.delete().where(schema.sessions.c.source == source))
            also(connection, source)
            return sorted(paths)

    def sessions(self, owners: Sequence[int], root: str) -> Sequence[SessionRow]:
        """Return the intact sessions of a product that these owners have, oldest first."""
        return self.sessions_and_damaged(owners, root)[0]

    def sessions_and_damaged(
        self, owners: Sequence[int], root: str
    ) -> tuple[Sequence[SessionRow], Sequence[DamagedSession]]:
        """Return the result of `sessions`, and the damaged sessions, from one read."""
        table = schema.sessions
        wanted = (table.c.owner.in_(owners), table.c.root == root)
        sound, damaged = self._sessions(lambda query: query.where(*wanted).order_by(table.c.open_ns))
        return sound, [_damaged_session(row) for row in damaged]

    def sessions_of(self, owner: int, contract: str, first: date, last: date) -> Sequence[SessionRow]:
        """Return the intact sessions of one contract between two trade dates, both included."""
        wanted = of_contract(schema.sessions, owner, contract, first, last)
        return self._sessions(lambda query: query.where(wanted))[0]

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
        """Return the roots (such as ES) of the products of which these owners have sessions."""
        table = schema.sessions
        query = select(table.c.root).where(table.c.owner.in_(owners)).distinct().order_by(table.c.root)
        with self._database.reading() as connection:
            return list(connection.execute(query).scalars())

    def datasets(self) -> Sequence[DatasetRow]:
        """Return the number of sessions by owner, contract, source and kind, oldest contract first."""
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


def _session(row: Mapping[str, Any]) -> SessionRow:
    values: dict[str, Any] = {
        **row, "kind": SessionKind(row["kind"]), "quality": Quality(row["quality"]),
        "complete": bool(row["complete"]), "short": bool(row["short"]), "trade_date": day_of(row),
        "holes": tuples(row["holes"]), "activity": tuples(row["activity"]), "segments": tuples(row["segments"]),
    }  # fmt: skip
    del values["checksum"]
    return SessionRow(**values)


def _damaged_session(row: Damaged) -> DamagedSession:
    of = {name: str(row.values[name]) for name in ("root", "contract", "trade_date", "kind")}
    owner = row.values["owner"]
    return DamagedSession(owner=owner if isinstance(owner, int) else 0, **of)


def _dataset(row: RowMapping) -> DatasetRow:
    changed = {"kind": SessionKind(row["kind"]), "complete": int(row["complete"])}
    values: dict[str, Any] = {**row, **changed}
    return DatasetRow(**values)


def _plain(row: SessionRow) -> dict[str, Any]:
    return asdict(row) | {
        "complete": int(row.complete), "short": int(row.short),
        "holes": json.dumps(row.holes), "activity": json.dumps(row.activity), "segments": json.dumps(row.segments),
    }  # fmt: skip
