"""Print the rows of an answer: a table on a terminal, tab-separated lines in a pipe, JSON or CSV on request."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Self

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

Cell = str | int | float | None
_Form = Literal["table", "json", "csv"] | None
Output = Annotated[
    _Form,
    Parameter(
        name="--format",
        help="table, json (an array of objects) or csv (with column names). Default: a table on a terminal, "
        "tab-separated lines in a pipe.",
    ),
]
#: The same for commands whose `--format` is the format of the files that they read.
RowsOutput = Annotated[
    _Form,
    Parameter(
        name="--output",
        help="Format of the printed rows: table, json (an array of objects) or csv (with column names). Default: a "
        "table on a terminal, tab-separated lines with column names in a pipe.",
    ),
]
#: Width of a table that is not printed on a terminal: no line is folded.
_WIDE = 1000


def on_terminal() -> bool:
    """Return whether standard output is a terminal, which a person reads."""
    return sys.stdout.isatty()


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Cell]], output: Output = None) -> None:
    """Print rows on standard output. Lines in a pipe have no column names.

    columns: their names (`outcry.cli.columns`). A missing value is null in JSON and empty elsewhere.
    """
    with StreamedRows(columns, output, names=False) as printed:
        for row in rows:
            printed.add(*row)


def csv_line(row: Sequence[Cell]) -> str:
    """Return a row as a line of CSV, without the line break."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(row)
    return line.getvalue()


class StreamedRows:
    """Prints rows that arrive one by one: at once as lines or CSV, at the end as one table or one JSON array.

    names: whether lines in a pipe begin with the column names. If so, a table without rows is printed on request only.
    The end is the end of the `with` block, also after an error, because the rows are facts.
    """

    def __init__(self, columns: Sequence[str], output: Output = None, *, names: bool = True) -> None:
        self._columns = columns
        self._kept: list[Sequence[Cell]] = []
        self._shows_empty = bool(output) or not names
        self._form = output or ("table" if on_terminal() else "lines")
        if self._form == "csv":
            print(csv_line(columns), flush=True)
        elif self._form == "lines" and names:
            print("\t".join(columns), flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._form == "json":
            objects = [dict(zip(self._columns, row, strict=True)) for row in self._kept]
            print(msgspec.json.format(msgspec.json.encode(objects)).decode())
        elif self._form == "table" and (self._kept or self._shows_empty):
            _print_table(self._columns, self._kept)

    def add(self, *row: Cell) -> None:
        """Print a row, or keep it until the end."""
        if self._form == "csv":
            print(csv_line(row), flush=True)
        elif self._form == "lines":
            print("\t".join(map(_text, row)), flush=True)
        else:
            self._kept.append(row)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, name in enumerate(columns):
        numbers = any(isinstance(row[at], int | float) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    console = Console(width=None if on_terminal() else _WIDE, markup=False, highlight=False)
    console.print(table)


def _text(cell: Cell) -> str:
    return "" if cell is None else str(cell)
