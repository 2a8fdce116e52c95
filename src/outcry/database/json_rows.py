"""Rows as one parameter of a statement, so that one statement writes a batch.

`executemany` runs a statement for each row. A statement that reads its rows from a JSON parameter runs once, on SQLite
and on PostgreSQL.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Subquery, Text, bindparam, cast, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

#: Name of the parameter with the rows.
ROWS = "rows"


class _Elements(FunctionElement[Any]):
    """The elements of a JSON array, one per row."""

    inherit_cache = True


@compiles(_Elements)
def _sqlite(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Elements, "postgresql")
def _postgresql(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **options)} AS JSON))"


def json_rows(name: str, **columns: type[int] | type[str]) -> Subquery:
    """Return the rows of the parameter `ROWS` as a table with these columns, for `values_of` in the same order."""
    element = _Elements(bindparam(ROWS, type_=Text())).table_valued("value").c.value
    types: Mapping[type, TypeEngine[Any]] = {int: BigInteger(), str: Text()}
    fields = [
        cast(element.op("->>")(literal_column(str(place))), types[kind]).label(column)
        for place, (column, kind) in enumerate(columns.items())
    ]
    return select(*fields).subquery(name)


def values_of(rows: Sequence[Sequence[int | str | None]]) -> dict[str, str]:
    """Return the parameter of a statement with `json_rows`."""
    return {ROWS: msgspec.json.encode(rows).decode()}
