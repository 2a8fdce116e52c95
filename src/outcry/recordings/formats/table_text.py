"""Read delimited text in blocks of columns, and find the line number of an error.

Memory is limited to one block, regardless of the size of the file or its lines.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.archive import CountedFile
from outcry.recordings.formats.arrow import ArrowInvalid, RecordBatch, pa, pv
from outcry.recordings.formats.bad_rows import BadRows

BLOCK = 1 << 20
#: Lines with other columns that are left out of one table.
MOST_UNPARSED = 100_000


@dataclass(frozen=True, slots=True)
class TextTable:
    """A text table. It is a whole file, or the archive member named `inside`. `opener` opens it from the start.

    `bad`: leaves out lines that do not have the table's columns; without it, such a line refuses the file.
    """

    path: Path
    opener: Callable[[CountedFile], io.RawIOBase]
    delimiter: str
    width: int
    skip_lines: int
    inside: str = ""
    bad: BadRows | None = None

    def blocks(self, file: CountedFile, wanted: list[int]) -> Iterator[tuple[int, RecordBatch]]:
        """Yield blocks of the wanted columns as text, each with the number of rows in the blocks before it."""
        names = [str(index) for index in range(self.width)]
        stream = io.BufferedReader(self.opener(file), BLOCK)
        before = 0
        try:
            reader = pv.open_csv(
                stream,
                read_options=pv.ReadOptions(block_size=BLOCK, use_threads=False, column_names=names,
                                            skip_rows=self.skip_lines),
                parse_options=pv.ParseOptions(delimiter=self.delimiter, quote_char='"',
                                              invalid_row_handler=self._leave_out if self.bad else None),
                convert_options=pv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()),
                                                  include_columns=[str(index) for index in wanted],
                                                  strings_can_be_null=False),
            )  # fmt: skip
            for block in reader:
                if self.bad and len(self.bad.unparsed) > MOST_UNPARSED:
                    raise self.bad.too_many(
                        f"{len(self.bad.unparsed):,} lines do not have the columns of the table"
                    )
                if block.num_rows:
                    yield before, block
                    before += block.num_rows
        except ArrowInvalid as fault:
            self._explain(fault, before)

    def place(self, row: int) -> str:
        """Return the line number of a data row for error messages.

        Lines are counted from 1 at the start of the file.
        """
        for unparsed in self.bad.unparsed if self.bad else ():
            row += unparsed <= row
        return self._place(row)

    def _leave_out(self, found: Any) -> str:
        """Leave out a line with other columns than the table. Called by the parser, which counts lines with text."""
        assert self.bad is not None
        row = found.number - self.skip_lines - 1
        self.bad.unparsed.append(row)
        self.bad.leave_out(
            lambda: self._place(row),
            f"{found.expected_columns} columns are expected, but the line has {found.actual_columns}",
        )
        return "skip"

    def _place(self, row: int) -> str:
        for number, line in self._lines():
            if number > self.skip_lines and line.strip(b"\r\n"):
                if not row:
                    return self.at_line(number)
                row -= 1
        return self.at_line(0)

    def at_line(self, number: int) -> str:
        """Return how error messages name a line of the file."""
        where = f"line {number:,}" if number else "the end"
        return f"{self.inside}, {where}" if self.inside else where

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with CountedFile(self.path) as file, io.BufferedReader(self.opener(file), BLOCK) as text:
            number = 0
            while line := text.readline(BLOCK):
                number += 1
                yield number, line

    def _explain(self, fault: Exception, before: int) -> None:
        """Find the line that could not be parsed, and raise `FileRefused` with its line number.

        before: number of rows that were parsed before the error.
        """
        for number, line in self._lines():
            if number <= self.skip_lines or not line.strip(b"\r\n"):
                continue
            problem = self._problem(line)
            if problem:
                raise FileRefused(self.path, self.at_line(number), problem,
                                  "correct the line, or add --bad-rows skip to leave it out") from fault  # fmt: skip
        raise FileRefused(self.path, f"after row {before:,}", "cannot read the table",
                          "export the file again") from fault  # fmt: skip

    def _problem(self, line: bytes) -> str:
        if len(line) >= BLOCK:
            return "the line is longer than 1 MiB"
        try:
            fields = line.decode().count(self.delimiter) + 1
        except UnicodeDecodeError:
            return "the line is not UTF-8 text"
        return f"{self.width} columns are expected, but the line has {fields}" if fields != self.width else ""
