"""Adds shipped example instruments to the operator's own tables (`instruments/` of the data folder).

Existing rows are kept.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from outcry.market.instruments import Product
from outcry.market.reference import ACTIVITY_COLUMNS, parse_products
from outcry.trades.own_tables import ACTIVITY, HOLIDAYS, INSTRUMENTS_FOLDER, PRODUCTS, SESSIONS
from outcry.trades.reference_tables import Reference, load_reference

_Row = dict[str, str]


class CannotAdd(ValueError):
    """An example is unknown, or the operator has a product of its root. The message names the remedy."""


def examples() -> Mapping[str, Product]:
    """Return the shipped example products by root."""
    return parse_products(_example_text(PRODUCTS), PRODUCTS)


def header_of(table: str) -> str:
    """Return the first row, with all columns, for a new table such as `products.csv`."""
    return ACTIVITY_COLUMNS if table == ACTIVITY else _example_text(table).splitlines()[0]


def with_examples(
    folder: Path, roots: Sequence[str], *, variants: dict[str, str] | None = None
) -> tuple[Reference, Mapping[str, str], str]:
    """Return the own tables of a data folder with examples added, without writing them.

    Holidays of a group that the own table already lists are not added again. Returns the resulting reference data, the
    new texts by file name, and the version of the tables that they are based on. Raises `CannotAdd`, or `BadReference`
    if the tables would not fit together.
    """
    place = folder / INSTRUMENTS_FOLDER
    now = load_reference(folder, variants=variants)
    before, known = now.universe.products, examples()
    for root in roots:
        if root not in known:
            raise CannotAdd(f"There is no example {root!r}. Use {', '.join(known)}.")
        if root in before and PRODUCTS in before[root].own_tables:
            raise CannotAdd(
                f"{root} is already in {place / PRODUCTS}. Edit its row there, or remove it first."
            )
    texts = {name: now.own.texts.get(name, "") for name in (PRODUCTS, SESSIONS, HOLIDAYS)}
    added: dict[str, list[_Row]] = {
        PRODUCTS: [row for row in _example_rows(PRODUCTS) if row["root"] in roots],
        SESSIONS: list(_naming(_example_rows(SESSIONS), "roots", set(roots))),
        HOLIDAYS: list(_naming(_example_rows(HOLIDAYS), "applies_to", _new_groups(texts, known, roots))),
    }
    drafts = {name: _appended(texts[name], name, rows) for name, rows in added.items() if rows}
    reference = load_reference(folder, variants=variants, drafts=drafts)
    return reference, drafts, now.own.version


def _new_groups(texts: Mapping[str, str], known: Mapping[str, Product], roots: Iterable[str]) -> set[str]:
    """Return the roots and their groups of holidays that the own table of holidays does not name yet."""
    listed = {name for row in _rows(texts[HOLIDAYS]) for name in row["applies_to"].split()}
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
    whole = text or header_of(name) + end
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


def _rows(text: str) -> Iterator[_Row]:
    header, *lines = csv.reader(text.removeprefix("\ufeff").splitlines()) if text else [[]]
    columns = [column.strip() for column in header]
    return (dict(zip(columns, cells, strict=True)) for cells in lines if cells)


def _example_rows(name: str) -> Iterator[_Row]:
    return _rows(_example_text(name))


def _example_text(name: str) -> str:
    return (files("outcry.market") / "data" / "examples" / name).read_text(encoding="utf-8")
