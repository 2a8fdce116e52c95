"""Storage of alerts, positions and snapshots of live streams in the database.

An alert with the same identity is recorded only once. The transaction that records it also stores the position that its
stream has reached; a position never decreases. Nothing here changes the database revision, because that would
invalidate every cached response every few seconds.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, func, select

from outcry.database import checksums, schema
from outcry.database.database import Database
from outcry.database.lock_order import lock_recording
from outcry.live.model import AlertEntries, AlertRow, FanOut, StreamKey
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind

#: One alert may have a hundred thousand receivers, and other writers wait meanwhile.
_PATIENCE_S = 30.0
_ALERT_FIELDS = tuple(field.name for field in fields(AlertRow))
ALERT_COLUMNS = tuple(schema.alerts.c[name] for name in _ALERT_FIELDS)


class LiveStore:
    """Storage of alerts, of the position up to which each stream's alerts are recorded, and of snapshots.

    Implements `Snapshots`. Every method may raise `StoreBusy`. entries: the outbox, whose entries change together with
    alerts.
    """

    def __init__(self, database: Database, entries: AlertEntries) -> None:
        self._database, self._entries = database, entries

    def save_snapshots(self, rows: Sequence[tuple[str, int, bytes]]) -> None:
        """Store snapshots `(stream, position, bytes)`, except where a snapshot of a later position is stored."""
        newest: dict[str, dict[str, Any]] = {}
        for stream, position, data in rows:
            if stream not in newest or newest[stream]["position"] <= position:
                newest[stream] = {"stream": stream, "position": position, "data": data}
        if newest:
            with self._database.write(moves="nothing") as connection:
                _advance(connection, schema.snapshots, [newest[stream] for stream in sorted(newest)])

    def snapshot(self, key: str) -> tuple[int, bytes] | None:
        """Return the position and bytes of a stream's newest snapshot."""
        table = schema.snapshots
        with self._database.reading() as connection:
            row = connection.execute(select(table).where(table.c.stream == key)).mappings().first()
        return None if row is None else (row["position"], row["data"])

    def all_snapshots(self) -> Sequence[tuple[str, int, bytes]]:
        """Return the snapshots of all streams, as stored."""
        table = schema.snapshots
        with self._database.reading() as connection:
            rows = connection.execute(select(table).order_by(table.c.stream)).mappings()
            return [(row["stream"], row["position"], row["data"]) for row in rows]

    def forget_snapshot(self, key: str) -> None:
        """Remove a stream's snapshot."""
        table = schema.snapshots
        with self._database.write(moves="nothing") as connection:
            connection.execute(table.delete().where(table.c.stream == key))

    def position(self, key: str) -> int:
        """Return the position up to which a stream's alerts are recorded; 0 for an unknown stream."""
        table = schema.positions
        with self._database.reading() as connection:
            found = connection.execute(select(table.c.position).where(table.c.stream == key)).scalar()
        return found or 0

    def streams(self) -> frozenset[str]:
        """Return the names of all streams with a position or a snapshot."""
        columns = schema.positions.c.stream, schema.snapshots.c.stream
        with self._database.reading() as connection:
            return frozenset(
                name for column in columns for name in connection.execute(select(column)).scalars()
            )

    def forget_stream(self, key: str) -> None:
        """Remove the stored position of a stream. Its alerts stay."""
        table = schema.positions
        with self._database.write(moves="nothing") as connection:
            connection.execute(table.delete().where(table.c.stream == key))

    def forget_alerts(self, key: StreamKey) -> None:
        """Remove the alerts of a stream that starts empty, because they will fire and be recorded again."""
        table = schema.alerts
        mine = (table.c.owner == key.owner, table.c.feed == key.feed, table.c.contract == key.contract.key)
        with self._database.write(moves="nothing", patience_s=_PATIENCE_S) as connection:
            self._entries.forget_alerts(connection, *mine)

    def forget_feed(self, connection: Connection, feed: str) -> None:
        """Remove the alerts, snapshots and positions of all feeds with this name, within a transaction."""
        self._entries.forget_alerts(connection, schema.alerts.c.feed == feed)
        for table in (schema.snapshots, schema.positions):
            streams = connection.execute(select(table.c.stream)).scalars()
            gone = [stream for stream in streams if stream.split("/")[1] == feed]
            connection.execute(table.delete().where(table.c.stream.in_(gone)))

    def damaged(self) -> list[checksums.Damaged]:
        """Return the alerts that do not match their checksums."""
        with self._database.reading() as connection:
            alerts = checksums.read(connection, schema.alerts, lambda query: query)
        return checksums.built(alerts, schema.alerts.name, read_alert)[1]

    def record_alerts(
        self, alerts: Sequence[AlertRow], positions: Mapping[str, int], fan_out: FanOut | None = None
    ) -> Sequence[AlertRow]:
        """Store new alerts, and the positions that their streams have reached, in one transaction.

        Return the new alerts with `seq`, in order. An alert with the same owner, feed and key as a stored one is not
        stored again, and a stored position that is later stays. fan_out: adds each new alert, in the same transaction,
        to the outbox of matching subscriptions. These are active or disabled, match the alert's symbol and severity,
        and belong to an enabled user who may see the alert.
        """
        if not alerts and not positions:
            return []
        reached = [{"stream": stream, "position": position} for stream, position in sorted(positions.items())]
        written = {"written_ns": fan_out.now_ns if fan_out else None}
        rows = [_plain(alert) | written for alert in alerts]
        recorded: list[AlertRow] = []
        with self._database.write(moves="nothing", patience_s=_PATIENCE_S) as connection:
            if rows:
                lock_recording(connection)
                inserted: Iterable[Any] = connection.execute(_unless_known(connection.dialect.name), rows)
                seqs = {(owner, feed, key): seq for seq, owner, feed, key in inserted}
                found = ((alert, seqs.pop((alert.owner, alert.feed, alert.key), None)) for alert in alerts)
                recorded = [replace(alert, seq=seq) for alert, seq in found if seq is not None]
            if fan_out is not None:
                self._entries.enter(connection, recorded, fan_out)
            _advance(connection, schema.positions, reached)
        return recorded

    def alerts(
        self, owners: Sequence[int] | None, *, after_seq: int = 0, symbol: str | None = None,
        first: date | None = None, last: date | None = None, before_seq: int | None = None, limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[AlertRow]:  # fmt: skip
        """Return alerts of these owners (None: of all owners), ordered by `seq`.

        after_seq, before_seq: limits, not included. first, last: trade dates, included.
        """
        column = schema.alerts.c
        wanted = [column.seq > after_seq]
        if owners is not None:
            wanted.append(column.owner.in_(owners))
        if symbol is not None:
            wanted.append(column.symbol == symbol)
        if first is not None:
            wanted.append(column.trade_date >= first)
        if last is not None:
            wanted.append(column.trade_date <= last)
        if before_seq is not None:
            wanted.append(column.seq < before_seq)
        order = column.seq.desc() if newest_first else column.seq
        found: list[AlertRow] = []
        with self._database.reading() as connection:
            while True:  # a page with damaged alerts must not look like the last one
                most = limit - len(found)
                read = checksums.read(
                    connection,
                    schema.alerts,
                    lambda query, most=most: query.where(*wanted).order_by(order).limit(most),
                )
                found += checksums.built(read, schema.alerts.name, read_alert)[0]
                seqs = [row["seq"] for row in (*read.sound, *(one.values for one in read.damaged))]
                if len(seqs) < most or len(found) == limit:
                    return found
                wanted.append(column.seq < min(seqs) if newest_first else column.seq > max(seqs))

    def last_seq(self) -> int:
        """Return the `seq` of the newest alert; 0 if there is none."""
        with self._database.reading() as connection:
            return connection.execute(select(func.max(schema.alerts.c.seq))).scalar() or 0


def _advance(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert or update one row for each stream in a table, unless the stored row has a later position."""
    if rows:
        connection.execute(_unless_later(connection.dialect.name, table), rows)


@cache
def _unless_known(dialect: str) -> Any:
    """Build the statement that inserts those alerts that are new, and returns their number and identity.

    SQLAlchemy has a different construct for each database. The statement is cached because building it takes longer
    than running it.
    """
    identity = [schema.alerts.c.owner, schema.alerts.c.feed, schema.alerts.c.key]
    statement = _insert(dialect)(schema.alerts).on_conflict_do_nothing(index_elements=identity)
    return statement.returning(schema.alerts.c.seq, *identity)


@cache
def _unless_later(dialect: str, table: Table) -> Any:
    statement = _insert(dialect)(table)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[table.c.stream],
        set_={column.name: new[column.name] for column in table.columns if column.name != "stream"},
        where=table.c.position <= new.position,
    )


def _insert(dialect: str) -> Any:
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - loaded by its own engine only
    else:
        from sqlalchemy.dialects.sqlite import insert  # noqa: PLC0415
    return insert


def _plain(alert: AlertRow) -> dict[str, Any]:
    row = {field.name: getattr(alert, field.name) for field in fields(AlertRow) if field.name != "seq"}
    params = json.dumps(dict(alert.params), separators=(",", ":"))
    return checksums.with_checksum(row | {"params": params, "invented": int(alert.invented)})


def read_alert(row: Mapping[Any, Any]) -> AlertRow:
    """Build an alert from a row of its table, column by column."""
    changed: dict[str, Any] = {
        "type": AlertType(row["type"]), "session": SessionKind(row["session"]),
        "params": json.loads(row["params"]), "invented": bool(row["invented"]),
        "trade_date": date.fromisoformat(str(row["trade_date"])),
    }  # fmt: skip
    return AlertRow(**{name: row[name] for name in _ALERT_FIELDS} | changed)
