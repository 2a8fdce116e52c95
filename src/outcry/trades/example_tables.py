"""Adds shipped example instruments to the operator's own tables (`instruments/` of the data folder).

The tables are checked together before any of them is replaced. Existing rows are kept.
"""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from outcry.base import portable_files
from outcry.market.instruments import Product
from outcry.market.reference import parse_products
from outcry.trades.reference_tables import INSTRUMENTS_FOLDER, Reference, load_reference

_PRODUCTS, _SESSIONS, _HOLIDAYS = "products.csv", "sessions.csv", "holidays.csv"
_Row = dict[str, str]


class CannotAdd(ValueError):
    """An example is unknown, or the operator has a product of its root. The message names the remedy."""


def examples() -> Mapping[str, Product]:
    """Return the shipped example products by root."""
    return parse_products(_example_text(_PRODUCTS), _PRODUCTS)


def add_examples(
    folder: Path, roots: Sequence[str], *, variants: dict[str, str] | None = None
) -> tuple[Reference, tuple[Path, ...]]:
    """Append examples with their hours and holidays to the own tables of a data folder.

    Holidays of a group that the own table already lists are not added again. Returns the resulting reference data and
    the files written. Raises `CannotAdd`, or `BadReference` if the tables would not fit together; then nothing is
    written.
    """
    place = folder / INSTRUMENTS_FOLDER
    before = load_reference(folder, variants=variants).universe.products
    known = examples()
    for root in roots:
        if root not in known:
            raise CannotAdd(f"There is no example {root!r}. Use {', '.join(known)}.")
        if root in before and _PRODUCTS in before[root].own_tables:
            raise CannotAdd(
                f"{root} is already in {place / _PRODUCTS}. Edit its row there, or remove it first."
            )
    texts = {name: _own_text(place / name) for name in (_PRODUCTS, _SESSIONS, _HOLIDAYS)}
    added: dict[str, list[_Row]] = {
        _PRODUCTS: [row for row in _example_rows(_PRODUCTS) if row["root"] in roots],
        _SESSIONS: list(_naming(_example_rows(_SESSIONS), "roots", set(roots))),
        _HOLIDAYS: list(_naming(_example_rows(_HOLIDAYS), "applies_to", _new_groups(texts, known, roots))),
    }
    drafts = {name: _appended(texts[name], name, rows) for name, rows in added.items() if rows}
    reference = load_reference(folder, variants=variants, drafts=drafts)
    place.mkdir(parents=True, exist_ok=True)
    return reference, _write(place, drafts)


def _new_groups(texts: Mapping[str, str], known: Mapping[str, Product], roots: Iterable[str]) -> set[str]:
    """Return the roots and their groups of holidays that the own table of holidays does not name yet."""
    listed = {name for row in _rows(texts[_HOLIDAYS]) for name in row["applies_to"].split()}
    return {name for root in roots for name in (root, known[root].group)} - listed


def _naming(rows: Iterable[_Row], column: str, names: set[str]) -> Iterator[_Row]:
    """Yield the rows that name any of `names` in a column, without the other names."""
    for row in rows:
        if kept := [name for name in row[column].split() if name in names]:
            yield row | {column: " ".join(kept)}


def _appended(text: str, name: str, rows: Sequence[_Row]) -> str:
    """Return a table with rows added at its end.

    The table keeps its order of columns and its line breaks. If a row has a value in a column that the table lacks,
    the column is added at the right.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    whole = text or _example_text(name).splitlines()[0] + end
    header, *lines = csv.reader(whole.removeprefix("\ufeff").splitlines())
    columns = [column.strip() for column in header]
    missing = [column for column in rows[0] if column not in columns and any(row[column] for row in rows)]
    written = io.StringIO()
    table = csv.writer(written, lineterminator=end)
    if missing:
        blank = [""] * len(missing)
        table.writerows([[*columns, *missing], *([*cells, *blank] for cells in lines if cells)])
    else:
        written.write(whole if whole.endswith("\n") else whole + end)
    table.writerows([row[column] for column in (*columns, *missing)] for row in rows)
    return written.getvalue()


def _write(place: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Replace files of a folder, after the texts of all are on disk."""
    drafts = {place / name: place / f"{name}.new" for name in texts}
    try:
        for path, draft in drafts.items():
            with draft.open("w", encoding="utf-8", newline="") as file:
                file.write(texts[path.name])
                file.flush()
                os.fsync(file.fileno())
        for path, draft in drafts.items():
            portable_files.replace(draft, path)
    finally:
        for draft in drafts.values():
            portable_files.remove(draft)
    portable_files.sync_folder(place)
    return tuple(drafts)


def _rows(text: str) -> Iterator[_Row]:
    header, *lines = csv.reader(text.removeprefix("\ufeff").splitlines()) if text else [[]]
    columns = [column.strip() for column in header]
    return (dict(zip(columns, cells, strict=True)) for cells in lines if cells)


def _own_text(path: Path) -> str:
    """Return the text of a table with its line breaks; empty if the file is missing."""
    return path.read_bytes().decode("utf-8") if path.is_file() else ""


def _example_rows(name: str) -> Iterator[_Row]:
    return _rows(_example_text(name))


def _example_text(name: str) -> str:
    return (files("outcry.market") / "data" / "examples" / name).read_text(encoding="utf-8")
