"""The tick and size step in which a database's prices and sizes count, and the refusal of tables with other ones.

Stored levels, sizes and live streams are whole numbers of ticks and size steps. With another tick or step, they would
mean other prices and sizes. So each start compares the tables with the values of the previous start. They may differ
only while nothing of the product is stored.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import select

from outcry.database import checksums, schema
from outcry.database.database import Database
from outcry.market.instruments import MONTH_CODES, Product
from outcry.market.units import price_text

#: The column of ticks. A changed tick can be mended, because the tape has prices; its sizes are in steps.
TICK = "tick"


@dataclass(frozen=True, slots=True)
class ChangedUnit:
    """A tick or size step that differs from that of the stored data. column: `tick` or `size_step` of `products.csv`.

    table: file of the product's row. stored, now: the values as text.
    """

    root: str
    column: str
    table: str
    stored: str
    now: str

    @property
    def text(self) -> str:
        """Name the difference and the remedy."""
        remedy = (
            "stop the service and run `outcry refold`, which also ends its live streams."
            if self.column == TICK
            else f"first remove all data of {self.root} with `outcry import --forget`, or use a new data folder."
        )
        return (
            f"{self.table}: {self.column} of {self.root} is {self.now}, but its stored data was recorded with "
            f"{self.stored}. Set it back to {self.stored}. To change it, {remedy}"
        )


class UnitsChanged(ValueError):
    """The tables have another tick or size step for a product than its stored data. The message names the remedy."""

    def __init__(self, changed: Iterable[ChangedUnit]) -> None:
        self.changed = tuple(changed)
        super().__init__(" ".join(one.text for one in self.changed))


def changed_units(
    database: Database, products: Mapping[str, Product], streams: Collection[str] = ()
) -> tuple[ChangedUnit, ...]:
    """Return the ticks and size steps that differ from those of stored data.

    streams: names of further live streams with data (`owner/feed/contract`), which are in no database. A database of an
    earlier version knows no values. Raises `StoreBusy`.
    """
    differing = [
        ChangedUnit(
            product.root, column, product.table or "products.csv", price_text(before), price_text(now)
        )
        for product, stored in _differing(database, products)
        for column, before, now in (
            (TICK, stored[0], product.tick_e9),
            ("size_step", stored[1], product.size_step_e9),
        )
        if before != now
    ]
    if not differing:
        return ()
    contracts = {*_contracts(database), *(name.rpartition("/")[2] for name in streams)}
    return tuple(one for one in differing if _has_any(one.root, contracts))


def check_units(
    database: Database,
    products: Mapping[str, Product],
    streams: Collection[str] = (),
    *,
    refolds: bool = False,
) -> None:
    """Compare the tables with the stored data, then store the current ticks and size steps for the next start.

    refolds: whether the caller mends changed ticks and then calls `store_units`. The other arguments are those of
    `changed_units`. Raises `UnitsChanged`, and `StoreBusy`.
    """
    changed = changed_units(database, products, streams)
    if not changed:
        store_units(database, products)
    elif not refolds or any(one.column != TICK for one in changed):
        raise UnitsChanged(changed)


def store_units(database: Database, products: Mapping[str, Product]) -> None:
    """Store the current ticks and size steps, to which the next start compares the tables. Raises `StoreBusy`."""
    known = _recorded(database)
    rows = [
        {"root": root, "tick_e9": each.tick_e9, "size_step_e9": each.size_step_e9}
        for root, each in products.items()
        if known.get(root) != (each.tick_e9, each.size_step_e9)
    ]
    if not rows:
        return
    with database.write(
        moves="people"
    ) as connection:  # locks out other processes that start at the same time
        checksums.replace(connection, schema.product_units, rows)


def _differing(
    database: Database, products: Mapping[str, Product]
) -> Iterable[tuple[Product, tuple[int, int]]]:
    known = _recorded(database)
    for root, product in products.items():
        if root in known and known[root] != (product.tick_e9, product.size_step_e9):
            yield product, known[root]


def _recorded(database: Database) -> dict[str, tuple[int, int]]:
    """Return the tick and size step of each product at the previous start."""
    table = schema.product_units
    with database.reading() as connection:
        return {
            root: (tick_e9, step_e9)
            for root, tick_e9, step_e9 in connection.execute(
                select(table.c.root, table.c.tick_e9, table.c.size_step_e9)
            )
        }


def _contracts(database: Database) -> Iterable[str]:
    """Return the keys of all contracts of which recordings, sessions or live streams are stored."""
    named = (schema.recordings.c.contract, schema.sessions.c.contract)
    streams = (schema.positions.c.stream, schema.snapshots.c.stream)
    with database.reading() as connection:
        found = [key for column in named for key in connection.execute(select(column).distinct()).scalars()]
        found += [
            name.rpartition("/")[2]
            for column in streams
            for name in connection.execute(select(column)).scalars()
        ]
    return found


def is_of(root: str, contract: str) -> bool:
    """Return whether a contract's key is one of a product, dated or not, whatever the tables say of it now."""
    return re.fullmatch(rf"{re.escape(root)}([{MONTH_CODES}][0-9]{{4}})?", contract) is not None


def _has_any(root: str, contracts: Iterable[str]) -> bool:
    return any(is_of(root, key) for key in contracts)
