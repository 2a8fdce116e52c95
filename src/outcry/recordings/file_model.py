"""Interface between the importer and the readers of file formats.

A reader reports every error in a file as a `FileRefused`, which names the file, the place in it, the problem and a
remedy.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Protocol

from outcry.market.instruments import Contract
from outcry.market.units import PRICE_SCALE
from outcry.trades.records import Batch

#: The reason of rows that are skipped because they are invalid.
INVALID = "invalid rows"


def shown(path: Path | str) -> str:
    """Return a path as printable text, so that control characters in a file name do not reach a terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in str(path))


class FileRefused(Exception):
    """The file cannot be imported; the message names the file, the place, the problem and a remedy."""

    def __init__(self, path: Path | str, place: str, problem: str, remedy: str = "") -> None:
        where = f"{shown(path)}, {place}" if place else shown(path)
        super().__init__(f"{where}: {problem}" + (f" — {remedy}" if remedy else ""))
        self.path, self.place, self.problem, self.remedy = str(path), place, problem, remedy


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user states about the files to import, where their content is ambiguous.

    `contract` is a key such as `ESZ3`. `format` is a name of `file_library.FORMATS`. `tz` is the IANA zone of
    timestamps without a zone. `stamp` states whether the timestamp of a bar is its `open` or its `close`. `volume`
    states whether a table has the volume of `each` row or a running `total` of the trading day. `decimal` is the sign
    before decimals, `point` or `comma`. `dates` is the order of dates such as 02/01/2024, `day-first` or `month-first`.
    `bad_rows` states what happens to invalid rows of a table: `refuse`, `skip` or `keep`. `today` decides the decade of
    one-digit years. `unnamed` is the contract of a table that names none; without it such a table is refused.
    `unnamed_step_e9` is the smallest size (10⁻⁹) in such a table.
    """

    contract: str | None = None
    format: str | None = None
    tz: str | None = None
    stamp: str | None = None
    volume: str | None = None
    decimal: str | None = None
    dates: str | None = None
    bad_rows: str | None = None
    today: date = date(2000, 1, 1)
    unnamed: Contract | None = None
    unnamed_step_e9: int = PRICE_SCALE


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a reader takes from options or from the rules of a format, because the file does not state it.

    `tz` is the IANA zone of timestamps without a zone. `stamp` states whether the timestamp of a bar is its `open` or
    its `close`. `scale` is the factor that turns stored numbers into prices. The other fields are those of
    `ReadOptions`. None: the file states it, or it does not apply.
    """

    tz: str | None = None
    stamp: str | None = None
    scale: str | None = None
    volume: str | None = None
    decimal: str | None = None
    dates: str | None = None
    bad_rows: str | None = None


NOTHING_ASSUMED = Assumptions()


@dataclass(slots=True)
class ReadCounts:
    """Counts of rows read, and of rows skipped by reason (a short noun phrase).

    `invalid` has the places and problems of the first invalid rows that were skipped.
    """

    rows: int = 0
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    invalid: list[str] = field(default_factory=list[str])

    def skip(self, reason: str, rows: int) -> None:
        """Count rows that are skipped for a reason."""
        if rows:
            self.skipped[reason] = self.skipped.get(reason, 0) + rows


class Reading(Protocol):
    """A file that is being read for import.

    `source` names the origin of its data (`databento`, `lean`, `sierra` …). A stored session has data of one source
    only.
    """

    path: Path
    format: str
    source: str
    counts: ReadCounts
    bytes_total: int

    @property
    def assumed(self) -> Assumptions:
        """Return what the reader takes from options or from the rules of the format."""
        ...

    @property
    def covered(self) -> tuple[tuple[int, int], ...]:
        """Return the time spans (ns UTC) for which the file has all trades.

        An empty result means the time from its first to its last row.
        """
        ...

    @property
    def replaces(self) -> bool:
        """Return whether the file's rows replace rows on the tape (stored trades and bars).

        They do if the file already leaves out busted trades. Otherwise they are merged with the stored rows.
        """
        ...

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the file read so far, at most `bytes_total`."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Yield the file's rows in order, at most a few 100,000 per batch. Raises `FileRefused`."""
        ...
