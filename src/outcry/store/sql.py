"""Accounts, recordings and sessions in SQLite or PostgreSQL, through SQLAlchemy Core.

Rules kept: one write at a time from this process, each one transaction that also moves `revision` on; driver errors
leave as `StoreBusy`, never as themselves.
"""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import date
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    RowMapping,
    Table,
    create_engine,
    event,
    func,
    make_url,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from outcry.core.calendar import SessionKind
from outcry.ports.records import Quality
from outcry.ports.store import GrantRow, KeyRow, RecordingRow, SessionRow, StoreBusy, Tier
from outcry.store import schema

BUSY_SECONDS = 5.0


def sqlite_url(folder: Path) -> URL:
    """The address of the database of a data folder."""
    return URL.create("sqlite", database=str(folder / "outcry.sqlite3"))


def open_engine(url: URL | str) -> Engine:
    """Connect lazily. SQLite runs in write-ahead mode: readers and the one writer do not wait for each other, and a
    commit is on disk before it is reported."""
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})

    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # SQLAlchemy's own BEGIN, below, decides when a transaction starts
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    def on_begin(connection: Connection) -> None:
        mode = connection.get_execution_options().get("sqlite_begin", "BEGIN")
        connection.exec_driver_sql(mode)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)
    return engine


class SqlStore:
    """Implements `ports.store.AccountStore` and `ports.store.SessionStore`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = threading.Lock()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Generator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as problem:
            raise _busy(problem) from problem

    @contextmanager
    def _write(self) -> Generator[Connection]:
        try:
            with self._writing, self._engine.connect() as raw:
                connection = raw.execution_options(sqlite_begin="BEGIN IMMEDIATE")
                with connection.begin():
                    yield connection
                    connection.execute(update(schema.revision).values(n=schema.revision.c.n + 1))
        except SQLAlchemyError as problem:
            raise _busy(problem) from problem

    def revision(self) -> int:
        """See `AccountStore`."""
        with self._reading() as connection:
            return connection.execute(select(schema.revision.c.n)).scalar_one()

    # -- accounts

    def ensure_user(self, email: str, now_ns: int) -> int:
        """See `AccountStore`."""
        known = self.find_user(email)
        if known is not None:
            return known
        with self._write() as connection:
            found = connection.execute(_user(email)).scalar()
            if found is not None:
                return found
            done = connection.execute(
                schema.users.insert().values(email=email.strip().lower(), created_ns=now_ns)
            )
            return _new_id(done)

    def find_user(self, email: str) -> int | None:
        """See `AccountStore`."""
        with self._reading() as connection:
            return connection.execute(_user(email)).scalar()

    def add_key(self, user_id: int, tier: Tier, prefix: str, digest: bytes, now_ns: int) -> int:
        """See `AccountStore`."""
        with self._write() as connection:
            row = {"user_id": user_id, "tier": tier, "prefix": prefix, "digest": digest, "created_ns": now_ns}
            return _new_id(connection.execute(schema.keys.insert().values(row)))

    def revoke_key(self, prefix: str, now_ns: int) -> KeyRow | None:
        """See `AccountStore`."""
        live = schema.keys.c.revoked_ns.is_(None)
        named = func.substr(schema.keys.c.prefix, 1, len(prefix)) == prefix
        with self._write() as connection:
            found = connection.execute(_keys().where(live, named)).mappings().all()
            if len(found) != 1 or not prefix:
                return None
            key = found[0]["id"]
            connection.execute(
                update(schema.keys).where(schema.keys.c.id == key, live).values(revoked_ns=now_ns)
            )
            values: dict[str, Any] = {**found[0], "revoked_ns": now_ns}
            return KeyRow(**values)

    def keys(self) -> Sequence[KeyRow]:
        """See `AccountStore`."""
        with self._reading() as connection:
            return [
                KeyRow(**row) for row in connection.execute(_keys().order_by(schema.keys.c.id)).mappings()
            ]

    def grants(self) -> Sequence[GrantRow]:
        """See `AccountStore`."""
        query = select(schema.grants).where(schema.grants.c.revoked_ns.is_(None)).order_by(schema.grants.c.id)
        with self._reading() as connection:
            return [_grant(row) for row in connection.execute(query).mappings()]

    def add_grant(self, grant: GrantRow, now_ns: int) -> int:
        """See `AccountStore`."""
        row = asdict(grant) | {"roots": " ".join(grant.roots), "created_ns": now_ns}
        del row["id"]
        with self._write() as connection:
            return _new_id(connection.execute(schema.grants.insert().values(row)))

    def revoke_grant(self, grant_id: int, now_ns: int) -> bool:
        """See `AccountStore`."""
        query = update(schema.grants).where(
            schema.grants.c.id == grant_id, schema.grants.c.revoked_ns.is_(None)
        )
        with self._write() as connection:
            return connection.execute(query.values(revoked_ns=now_ns)).rowcount == 1

    # -- recordings and sessions

    def import_known(self, owner: int, digest: str) -> bool:
        """See `SessionStore`."""
        table = schema.imports
        query = select(table.c.at_ns).where(table.c.owner == owner, table.c.digest == digest)
        with self._reading() as connection:
            return connection.execute(query).first() is not None

    def recordings(self, owner: int, contract: str, first: date, last: date) -> Sequence[RecordingRow]:
        """See `SessionStore`."""
        table = schema.recordings
        query = select(table).where(
            table.c.owner == owner, table.c.contract == contract, table.c.trade_date.between(first, last)
        )
        with self._reading() as connection:
            rows = connection.execute(query.order_by(table.c.trade_date)).mappings()
            return [_recording(row) for row in rows]

    def all_recordings(self) -> Sequence[RecordingRow]:
        """See `SessionStore`."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.recordings).order_by(schema.recordings.c.path)).mappings()
            return [_recording(row) for row in rows]

    def tape_paths(self) -> frozenset[str]:
        """See `SessionStore`."""
        with self._reading() as connection:
            return frozenset(connection.execute(select(schema.recordings.c.path)).scalars())

    def commit_import(
        self, owner: int, digest: str, name: str, recordings: Sequence[RecordingRow],
        sessions: Sequence[SessionRow], now_ns: int,
    ) -> None:  # fmt: skip
        """See `SessionStore`."""
        done = {"owner": owner, "digest": digest}
        with self._write() as connection:
            _replace(connection, schema.recordings, [_plain_recording(row) for row in recordings])
            _replace(connection, schema.sessions, [_plain(row) for row in sessions])
            _replace(connection, schema.imports, [done | {"name": name, "at_ns": now_ns}])

    def replace_sessions(self, owner: int, contract: str, sessions: Sequence[SessionRow]) -> None:
        """See `SessionStore`."""
        table = schema.sessions
        with self._write() as connection:
            connection.execute(table.delete().where(table.c.owner == owner, table.c.contract == contract))
            _replace(connection, table, [_plain(row) for row in sessions])

    def sessions(self, owners: Sequence[int], root: str) -> Sequence[SessionRow]:
        """See `SessionStore`."""
        table = schema.sessions
        query = select(table).where(table.c.owner.in_(owners), table.c.root == root).order_by(table.c.open_ns)
        with self._reading() as connection:
            return [_session(row) for row in connection.execute(query).mappings()]

    def sessions_of(self, owner: int, contract: str, first: date, last: date) -> Sequence[SessionRow]:
        """See `SessionStore`."""
        table = schema.sessions
        query = select(table).where(
            table.c.owner == owner, table.c.contract == contract, table.c.trade_date.between(first, last)
        )
        with self._reading() as connection:
            return [_session(row) for row in connection.execute(query).mappings()]

    def roots(self, owners: Sequence[int]) -> Sequence[str]:
        """See `SessionStore`."""
        table = schema.sessions
        query = select(table.c.root).where(table.c.owner.in_(owners)).distinct().order_by(table.c.root)
        with self._reading() as connection:
            return list(connection.execute(query).scalars())


def _busy(problem: SQLAlchemyError) -> StoreBusy:
    said = problem.orig if isinstance(problem, DBAPIError) and problem.orig else problem
    return StoreBusy(f"the database did not do as asked: {said}")


def _user(email: str) -> Any:
    return select(schema.users.c.id).where(schema.users.c.email == email.strip().lower())


def _keys() -> Any:
    names = [field.name for field in fields(KeyRow) if field.name != "email"]
    columns = [schema.keys.c[name] for name in names]
    return select(*columns, schema.users.c.email).join_from(schema.keys, schema.users)


def _grant(row: RowMapping) -> GrantRow:
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(GrantRow)}
    values["roots"] = tuple(row["roots"].split())
    return GrantRow(**values)


def _recording(row: RowMapping) -> RecordingRow:
    spans = tuple((first, last) for first, last in json.loads(row["spans"]))
    values: dict[str, Any] = {**row, "quality": Quality(row["quality"]), "spans": spans}
    return RecordingRow(**values)


def _session(row: RowMapping) -> SessionRow:
    changed: dict[str, Any] = {
        "kind": SessionKind(row["kind"]), "quality": Quality(row["quality"]),
        "complete": bool(row["complete"]), "short": bool(row["short"]),
    }  # fmt: skip
    return SessionRow(**{**row, **changed})


def _plain_recording(row: RecordingRow) -> dict[str, Any]:
    return asdict(row) | {"spans": json.dumps(row.spans)}


def _plain(row: SessionRow) -> dict[str, Any]:
    return asdict(row) | {"complete": int(row.complete), "short": int(row.short)}


def _new_id(done: Any) -> int:
    return int(done.inserted_primary_key[0])


def _replace(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Delete the rows of the same identity, then insert: one form for both databases."""
    if not rows:
        return
    identity = list(table.primary_key.columns)
    for start in range(0, len(rows), 100):  # SQLite 3.40 takes at most 32,766 bound values in a statement
        part = rows[start : start + 100]
        wanted = [tuple(row[column.name] for column in identity) for row in part]
        connection.execute(table.delete().where(tuple_(*identity).in_(wanted)))
        connection.execute(table.insert(), part)
