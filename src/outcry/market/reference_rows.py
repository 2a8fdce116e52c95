"""Reads the rows of a reference table (CSV), and refuses a faulty one with its file, row and column."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

T = TypeVar("T")

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")


class BadReference(ValueError):
    """A reference table is invalid. The message names the file, the row (1 is the header) and the column."""

    def __init__(self, file: str, row: int, problem: str, column: str = "") -> None:
        place = f"row {row}, column {column}" if column else f"row {row}"
        super().__init__(f"{file}, {place}: {problem}")
        self.file, self.row, self.column, self.problem = file, row, column, problem


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, with its file and line for error messages."""

    file: str
    number: int
    cells: Mapping[str, str]

    def refuse(self, problem: str, column: str = "") -> BadReference:
        """Return the error for this row, to be raised."""
        return BadReference(self.file, self.number, problem, column)

    def read(self, column: str, reader: Callable[[str], T]) -> T:
        """Parse a cell with `reader`; an empty cell is an error."""
        text = self.cells[column]
        if not text:
            raise self.refuse("is empty", column)
        try:
            return reader(text)
        except ValueError as problem:
            raise self.refuse(str(problem), column) from problem

    def maybe(self, column: str, reader: Callable[[str], T]) -> T | None:
        """Parse a cell with `reader`; return None if the cell is empty."""
        return self.read(column, reader) if self.cells[column] else None

    def words(self, column: str) -> tuple[str, ...]:
        """Return the words of a cell, which spaces separate."""
        return tuple(self.cells[column].split())


def rows(text: str, file: str, header_text: str, optional: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield the rows of a table.

    The table must have the columns that `header_text` names and may have the `optional` ones, in any order. The cells
    of a missing optional column are empty.
    """
    columns = header_text.split(",")
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(), strict=True)
    try:
        header = tuple(cell.strip() for cell in next(reader, ()))
        for missing in (column for column in columns if column not in header):
            raise BadReference(file, 1, "the column is missing", missing)
        for strange in (column for column in header if column not in {*columns, *optional}):
            raise BadReference(file, 1, "the column is not known", strange)
        if len(set(header)) < len(header):
            raise BadReference(file, 1, "a column is given twice")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise BadReference(
                    file, reader.line_num, f"has {len(cells)} cells where the header has {len(header)}"
                )
            given = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            yield Row(file, reader.line_num, dict.fromkeys(optional, "") | given)
    except csv.Error as problem:
        raise BadReference(file, reader.line_num, str(problem)) from problem


def read_date(text: str) -> date:
    """Parse `YYYY-MM-DD`. Raises `ValueError` for anything else."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date YYYY-MM-DD") from None
    if day.isoformat() != text:
        raise ValueError(f"{text!r} is not a date YYYY-MM-DD")
    return day


def read_word(text: str) -> str:
    """Parse the name of an exchange or group. Raises `ValueError` for anything else."""
    if not _WORD.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a word of at most 32 letters, digits, dots, hyphens and underscores"
        )
    return text


def one_of(known: Mapping[str, object]) -> Callable[[str], str]:
    """Return a reader that accepts the keys of `known` only."""

    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"{text!r} is none of {', '.join(known)}")
        return text

    return read
