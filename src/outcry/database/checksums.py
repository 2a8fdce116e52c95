"""Checksums of rows. SQLite detects damaged pages, but not a flipped bit inside a number, text or BLOB.

Rows of recordings, sessions and alerts have a checksum over every value that an API answer depends on. A row that does
not match its checksum is skipped and reported. Rows of earlier versions have no checksum until `add_missing` adds it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from sqlalchemy import Connection, Select, Table, select, text, tuple_, type_coerce
from sqlalchemy.types import NullType

CHECKSUM = "checksum"
_BYTES = 16
#: Columns that answers do not depend on, or that the database assigns. SQLite's check compares `seq` with the indexes.
_CHOSEN = frozenset({"seq", "written_ns", "segments", CHECKSUM})
_AT_ONCE = 1000
#: Types of values as the drivers return them. Their subclasses, such as `bool` and `StrEnum`, are converted.
_PLAIN = frozenset({int, float, str, bytes, type(None)})

T = TypeVar("T")


class Damaged(NamedTuple):
    """A row that does not match its checksum, with its table and current values."""

    table: str
    values: Mapping[str, Any]

    def text(self) -> str:
        """Describe the row and the remedy in one line."""
        named = {
            "recordings": ("contract", "trade_date", "source", "quality"),
            "sessions": ("contract", "trade_date", "kind"),
            "alerts": ("seq", "key"),
        }[self.table]
        what = " ".join(str(self.values[name]) for name in named).encode("unicode_escape").decode()
        remedy = (
            "restore the database from a backup"
            if self.table == "alerts"
            else "import its recording again, or run outcry refold if the tape is in order"
        )
        return (
            f"database: the row {what} of {self.table} does not match its checksum and is not used: {remedy}"
        )


class Checked(NamedTuple):
    """Rows of a query, separated into those that match their checksum and those that do not."""

    sound: Sequence[Mapping[str, Any]]
    damaged: Sequence[Damaged]


def checksum(values: Mapping[str, Any]) -> bytes:
    """Return the checksum of a row, given its values by column. Raises `ValueError` for text that is not Unicode."""
    named = [(name, _plain(values[name])) for name in sorted(values) if name not in _CHOSEN]
    return blake2b(msgspec.msgpack.encode(named), digest_size=_BYTES).digest()


def with_checksum(values: dict[str, Any]) -> dict[str, Any]:
    """Return a row's values with their checksum added."""
    return values | {CHECKSUM: checksum(values)}


def replace(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Replace rows, with checksums if the table has them: delete those with the same primary keys, then insert.

    These statements are the same on SQLite and PostgreSQL.
    """
    identity = list(table.primary_key.columns)
    checked = CHECKSUM in table.c
    for start in range(0, len(rows), 100):  # SQLite 3.40 allows at most 32,766 bound values per statement
        part = [with_checksum(row) if checked else row for row in rows[start : start + 100]]
        wanted = [tuple(row[column.name] for column in identity) for row in part]
        connection.execute(table.delete().where(tuple_(*identity).in_(wanted)))
        connection.execute(table.insert(), part)


def read(connection: Connection, table: Table, narrowed: Callable[[Select[Any]], Select[Any]]) -> Checked:
    """Read whole rows and separate those that do not match their checksum.

    `narrowed`: adds conditions and an order to the query of all rows.
    """
    sound: list[Mapping[str, Any]] = []
    damaged: list[Damaged] = []
    for values in _rows(connection, table, narrowed):
        if is_sound(values):
            sound.append(values)
        else:
            damaged.append(Damaged(table.name, values))
    return Checked(sound, damaged)


def is_sound(values: Mapping[str, Any]) -> bool:
    """Return whether a row matches its checksum. A row without a checksum counts as sound."""
    stored = values[CHECKSUM]
    try:
        return stored is None or stored == checksum(values)
    except (ValueError, TypeError, OverflowError):
        return False


def built(
    found: Checked, table: str, build: Callable[[Mapping[str, Any]], T]
) -> tuple[list[T], list[Damaged]]:
    """Convert each row that matches its checksum to a record.

    A row that has no checksum and cannot be converted counts as damaged too.
    """
    records: list[T] = []
    damaged = list(found.damaged)
    for values in found.sound:
        try:
            records.append(build(values))
        except (ValueError, TypeError, LookupError):
            damaged.append(Damaged(table, values))
    return records, damaged


def add_missing(connection: Connection, table: Table) -> int:
    """Add a checksum of the current values to rows that have none; return how many rows."""
    identity = [str(column.name) for column in table.primary_key.columns]
    same = " AND ".join(f"{name} = :{name}" for name in identity)
    filled = text(f"UPDATE {table.name} SET {CHECKSUM} = :{CHECKSUM} WHERE {same}")  # noqa: S608 - names of ours
    added = 0
    while True:
        rows = list(
            _rows(connection, table, lambda query: query.where(table.c[CHECKSUM].is_(None)).limit(_AT_ONCE))
        )
        for values in rows:
            connection.execute(
                filled, {name: values[name] for name in identity} | {CHECKSUM: _or_never(values)}
            )
        added += len(rows)
        if len(rows) < _AT_ONCE:
            return added


def _or_never(values: Mapping[str, Any]) -> bytes:
    """Return the checksum of a row; if it cannot be computed, a value that no checksum equals."""
    try:
        return checksum(values)
    except (ValueError, TypeError, OverflowError):
        return b""


def _rows(
    connection: Connection, table: Table, narrowed: Callable[[Select[Any]], Select[Any]]
) -> Iterator[Mapping[str, Any]]:
    """Yield rows as the driver returns them, so that one damaged date or text does not stop reading the others."""
    columns: list[Any] = [type_coerce(column, NullType()).label(column.name) for column in table.columns]
    query = cast("Select[Any]", select(*columns))
    driver: Any = connection.connection.driver_connection
    lenient = connection.dialect.name == "sqlite"
    if lenient:
        driver.text_factory = _lenient
    try:
        names = [str(column.name) for column in table.columns]
        for row in connection.execute(narrowed(query)).all():
            yield dict(zip(names, row, strict=True))
    finally:
        if lenient:
            driver.text_factory = str


def _lenient(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if value is None or isinstance(value, int | float):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return str(value.value if isinstance(value, Enum) else value)
