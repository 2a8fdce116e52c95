"""Read the trades or bars of one contract from a recording file, with the readers of `outcry import`."""

import re
from collections.abc import Sequence
from datetime import tzinfo
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcry.base.extras import MissingExtra
from outcry.library.dataframes import Table
from outcry.library.errors import InvalidInput
from outcry.library.terms import Terms
from outcry.library.times import inside, span_text
from outcry.market.instruments import Contract, Universe
from outcry.recordings.file_model import FileRefused, Reading, ReadOptions, shown
from outcry.trades.records import Quality
from outcry.trades.reference_tables import Reference

if TYPE_CHECKING:
    from outcry.recordings.formats.file_library import FileLibrary

#: Contract of the rows of a table that names none; the user's arguments say what they are.
_UNNAMED = Contract("", 0, 1)
#: The readers name options of the command line; arguments of the library have the same names.
_VALUE = re.compile(
    r"--(tz) ([A-Z]\w*(?:/\w+)*)|--(contract) ([A-Z0-9]{3,})|--(stamp) (open|close)|--(volume) (each|total)"
    r"|--(decimal) (point|comma)|--(dates) (day-first|month-first)|--(bad-rows) (refuse|skip|keep)"
)
_OPTION = re.compile(r"--(tz|contract|stamp|format|volume|decimal|dates|bad-rows)\b")

Rows = NDArray[np.void]


class TableOptions(NamedTuple):
    """How to read a table in a file: the fields of `ReadOptions` with these names."""

    volume: str | None = None
    decimal: str | None = None
    dates: str | None = None
    bad_rows: str | None = None


#: The rows of a file inside the window, by contract and quality.
Found = dict[tuple[Contract, Quality], list[Rows]]


def read_file(
    path: str | PathLike[str],
    terms: Terms,
    *,
    contract: str | None,
    zone: str | tzinfo | None,
    stamp: str | None,
    table: TableOptions,
    size_step_e9: int,
    reference: Reference,
) -> tuple[Table, str | None]:
    """Return the rows of a file inside the window, and the key of their contract if the file names it.

    If the file has several contracts of the product, the one with the most volume in the window is used.

    size_step_e9: the smallest size (10⁻⁹) in a file that names no contract. reference: the known
    products and their calendar. Raises
    `InvalidInput`, and `MissingExtra` if a library that reads files is not installed.
    """
    file, library = Path(fspath(path)).expanduser(), _library(reference)
    named = contract or (terms.contract.key if terms.contract else None)
    options = ReadOptions(
        contract=named,
        tz=None if zone is None else str(zone),
        stamp=stamp,
        volume=table.volume,
        decimal=table.decimal,
        dates=table.dates,
        bad_rows=table.bad_rows,
        unnamed=_UNNAMED,
        unnamed_step_e9=size_step_e9,
    )
    try:
        reading = library.open(file, reference.universe, options)
        if reading is None:
            raise InvalidInput(
                f"{shown(file)} has no trades or bars", "Give a file of trades or 1-minute bars."
            )
        found = _inside(reading, terms.segments)
    except FileRefused as refused:
        raise _invalid(refused) from refused
    chosen, quality = _chosen(found, terms, file, reference.universe)
    rows = np.concatenate(found[chosen, quality])
    step_e9 = size_step_e9 if chosen == _UNNAMED else reference.universe.products[chosen.root].size_step_e9
    found_table = _table(rows, quality, file.name)._replace(size_step_e9=step_e9, in_steps=True)
    return found_table, None if chosen == _UNNAMED else chosen.key


def _library(reference: Reference) -> "FileLibrary":
    try:
        from outcry.recordings.formats.file_library import FileLibrary  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as problem:
        raise MissingExtra("Reading a file", "files") from problem
    return FileLibrary(reference.calendar)


def _inside(reading: Reading, segments: Sequence[tuple[int, int]]) -> Found:
    """Read the whole file, and return its rows inside the window. Raises `InvalidInput` if there are none."""
    found: Found = {}
    first_ns, last_ns = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for batch in reading.batches():
        times = batch.rows["ts_event"]
        first_ns, last_ns = min(first_ns, int(times.min())), max(last_ns, int(times.max()))
        chosen = inside(times, segments)
        if chosen.any():
            found.setdefault((batch.contract, batch.quality), []).append(batch.rows[chosen])
    if not found:
        covered = (
            f"the file covers {span_text(first_ns, last_ns)}" if first_ns <= last_ns else "the file has none"
        )
        skipped = "".join(f"; skipped: {rows:,} {reason}" for reason, rows in reading.counts.skipped.items())
        raise InvalidInput(
            f"No rows in the window {span_text(segments[0][0], segments[-1][1])}: {covered}{skipped}",
            "Read the file into a dataframe and pass the rows of one symbol." if skipped and first_ns > last_ns
            else "Check the dates, the symbol and the time zone.",
        )  # fmt: skip
    return found


def _chosen(found: Found, terms: Terms, file: Path, universe: Universe) -> tuple[Contract, Quality]:
    """Return the contract and quality to use. Raises `InvalidInput` if that is not certain."""
    product = terms.product
    if product is not None:
        fits = {c for c, _ in found if c == _UNNAMED or universe.parent_of(c.root) == product}
        fits = {
            c for c in fits if c.root in ("", product.root)
        } or fits  # a micro only if nothing else is there
        if not fits:
            keys = ", ".join(sorted({contract.key for contract, _ in found}))
            raise InvalidInput(f"{shown(file)} has {keys}, not {product.root}", "Correct the symbol.")
    else:
        fits = {contract for contract, _ in found}
        if len(fits) > 1:
            keys = sorted(contract.key for contract in fits)
            raise InvalidInput(
                f"{shown(file)} has several contracts in the window: {', '.join(keys)}",
                f'Add contract="{keys[0]}", for example.',
            )
    contract = max(sorted(fits), key=lambda one: max(_lots(found, key) for key in found if key[0] == one))
    return contract, min((quality for one, quality in found if one == contract), key=lambda each: each.rank)


def _lots(found: Found, key: tuple[Contract, Quality]) -> int:
    field = "size" if key[1] is Quality.TICKS else "volume"
    return sum(int(rows[field].sum(dtype=np.int64)) for rows in found[key])


def _table(rows: Rows, quality: Quality, origin: str) -> Table:
    names = ("price", "size") if quality is Quality.TICKS else ("open", "high", "low", "close", "volume")
    columns: dict[str, Any] = {name: np.ascontiguousarray(rows[name]) for name in names}
    if quality is Quality.TICKS:
        columns["side"] = rows["side"]
    at_ns = np.ascontiguousarray(rows["ts_event"])
    return Table(at_ns, columns, {name: name for name in names}, fixed=True, origin=shown(origin))


def _invalid(refused: FileRefused) -> InvalidInput:
    where = shown(refused.path) + (f", {refused.place}" if refused.place else "")
    remedy = refused.remedy or (
        "Give the path of an existing file" if refused.problem == "no such file" else ""
    )
    return InvalidInput(
        f"{as_arguments(where)}: {as_arguments(refused.problem)}", as_sentence(as_arguments(remedy))
    )


def as_arguments(text: str) -> str:
    """Replace options of the command line by arguments: `--tz UTC` by `tz="UTC"`, and `--tz` by `tz`."""
    text = _VALUE.sub(
        lambda m: next(
            f'{n.replace("-", "_")}="{v}"'
            for n, v in zip(m.groups()[::2], m.groups()[1::2], strict=True)
            if n
        ),
        text,
    )
    return _OPTION.sub(lambda m: m[1].replace("-", "_"), text)


def as_sentence(text: str) -> str:
    """Return a remedy as a sentence; empty text stays empty."""
    is_path = "/" in text.partition(" ")[0]
    return f"{text if is_path else text[:1].upper() + text[1:]}." if text else ""
