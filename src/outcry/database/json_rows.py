"""Pass rows or values to SQL as one JSON parameter, so that one statement reads or writes a whole batch.

`executemany` would run a statement for each row. One parameter for each value would need another statement for each
number of values. A statement that reads a JSON parameter runs once and is prepared once, on SQLite and on PostgreSQL.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    Subquery,
    Table,
    Text,
    bindparam,
    cast,
    literal_column,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

#: Names of the parameters with the rows, and with the values.
ROWS, VALUES = "rows", "listed"
_TYPES: Mapping[type, TypeEngine[Any]] = {int: BigInteger(), str: Text()}


class _Elements(FunctionElement[Any]):
    """The elements of a JSON array, one per row."""

    inherit_cache = True


@compiles(_Elements)
def _sqlite(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Elements, "postgresql")
def _postgresql(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"jsonb_array_elements(CAST({compiler.process(element.clauses, **options)} AS JSONB))"


class _Texts(_Elements):
    """The elements of a JSON array of numbers or texts as SQL values, one per row."""

    inherit_cache = True


@compiles(_Texts, "postgresql")
def _postgresql_texts(element: _Texts, compiler: SQLCompiler, **options: Any) -> str:
    return f"jsonb_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSONB))"


def json_values(kind: type[int] | type[str]) -> Select[Any]:
    """Return a query of the values in the parameter `VALUES`, for use in `column.in_`. `list_of` encodes the values."""
    element = _Texts(bindparam(VALUES, type_=Text())).table_valued("value").c.value
    return select(cast(element, _TYPES[kind]))


def list_of(values: Sequence[int | str]) -> dict[str, str]:
    """Encode values as the parameter of a statement that uses `json_values`."""
    return {VALUES: msgspec.json.encode(values).decode()}


def json_rows(name: str, **columns: type[int] | type[str]) -> Subquery:
    """Return the rows in the parameter `ROWS` as a table with these columns. `values_of` encodes the rows."""
    element = _Elements(bindparam(ROWS, type_=Text())).table_valued("value").c.value
    fields = [
        cast(element.op("->>")(literal_column(str(place))), _TYPES[kind]).label(column)
        for place, (column, kind) in enumerate(columns.items())
    ]
    return select(*fields).subquery(name)


def values_of(rows: Sequence[Sequence[int | str | None]]) -> dict[str, str]:
    """Encode rows as the parameter of a statement that uses `json_rows`; each row's values are in its column order."""
    return {ROWS: msgspec.json.encode(rows).decode()}


def insert_rows(
    connection: Connection, table: Table, columns: Mapping[str, type[int] | type[str]],
    rows: Sequence[Sequence[int | str | None]],
) -> None:  # fmt: skip
    """Insert rows, given as values in the order of `columns`.

    PostgreSQL gets all rows as JSON. SQLite gets them one by one, because it reads wide rows from JSON only half as
    fast.
    """
    if connection.dialect.name == "sqlite":
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        insert = f"INSERT INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608 - names of our schema
        connection.exec_driver_sql(insert, [*map(tuple, rows)])
    else:
        connection.execute(_insert_from_json(table, tuple(columns.items())), values_of(rows))


@cache
def _insert_from_json(table: Table, columns: Sequence[tuple[str, type[int] | type[str]]]) -> Any:
    rows = select(json_rows("new", **dict(columns)))
    return table.insert().from_select([name for name, _ in columns], rows)
