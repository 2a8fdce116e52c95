"""The rows of the Levels page: each product with its status, its price, and the distance of every level.

A distance is the level minus the last price. Without a last price it is the level minus the close of the last completed
session, and the row shows the date of that session. A row whose data may be out of date is never marked as near a
level.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from msgspec import structs

from outcry.answers.scanning import ScanRow
from outcry.base.http_dates import date_text
from outcry.web import number_format
from outcry.web.formatter import month_text
from outcry.web.status_labels import KINDS, StatusLabel
from outcry.wire.answers import LevelsAnswer, SymbolState
from outcry.wire.chart import Notation

Unit = Literal["ticks", "points", "adr"]
#: A level is near within the first fraction of the average daily range, and far beyond the second.
NEAR, FAR = 0.05, 0.5
#: Marks are sent up to this distance in average daily ranges; the map shows one range.
REACH = 2.0
#: Columns by group.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "developing": ("vah", "poc", "val"),
    "ib": ("ib_high", "ib_low"),
    "overnight": ("on_high", "on_low"),
    "prior": ("prior_vah", "prior_poc", "prior_val"),
    "naked": ("naked_above", "naked_below"),
}
COLUMNS = tuple(column for columns in GROUPS.values() for column in columns)
_DEAD = {"stale", "error", "none"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One level in a product's row.

    `price`: price of the level, None if there is none. `share`: distance of the level as a multiple of the average
    daily range, None if that range is unknown. `date`: for a naked POC, the trade date of its session.
    """

    price: float | None
    text: str
    share: float | None
    near: bool = False
    date: str = ""

    @property
    def far(self) -> bool:
        """Whether the level is too far away to be reached on a usual day."""
        return self.share is not None and abs(self.share) > FAR


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark on a row's map of levels, the small chart of all levels by distance.

    `at`: its position, measured from the row's reference price in average daily ranges. `width`: set for a band.
    """

    kind: str
    at: float
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One product on the Levels page.

    `last`: the last price. `reference`: the price from which distances are measured; None without one. `naked`: price
    and date of all naked POCs, from which the script picks the nearest above and below. `touched`: the dates of the
    naked POCs at which the open session has traded. `day`: the completed session shown if the row is not live. `month`:
    the delivery month.
    """

    symbol: SymbolState
    state: StatusLabel
    notation: Notation
    last: float | None
    reference: float | None
    average_range: float | None
    cells: Mapping[str, Cell]
    marks: Sequence[Mark]
    naked: Sequence[tuple[float, str]]
    touched: Sequence[str]
    bias: str | None
    day: str
    month: str

    @property
    def beyond(self) -> Mapping[str, str]:
        """Prices of the levels that are too far away for the map, below and above."""
        shares = [
            (cell.share, self.text(cell.price)) for cell in self.cells.values() if cell.share is not None
        ]
        return {
            "below": ", ".join(price for share, price in shares if share < -1),
            "above": ", ".join(price for share, price in shares if share > 1),
        }

    @property
    def paused(self) -> bool:
        """Whether the row's data may be out of date."""
        return self.state.kind in {"stale", "error"}

    @property
    def nearest(self) -> float:
        """Distance to the nearest level as a multiple of the average daily range.

        Infinite for a row that cannot be near a level.
        """
        if self.state.kind in _DEAD:
            return float("inf")
        shares = [abs(cell.share) for cell in self.cells.values() if cell.share is not None]
        return min(shares, default=float("inf"))

    def text(self, price: float | None) -> str:
        """Format a price as the product's exchange does."""
        return number_format.price_text(price, self.notation)


def row_of(scanned: ScanRow, state: StatusLabel, unit: Unit, language: str, year: int) -> Row:
    """Build the row of a product on the Levels page."""
    levels, touched = scanned.levels, {level.date for level in scanned.touched}
    if levels and touched:
        naked = [level for level in levels.naked_pocs if level.date not in touched]
        levels = structs.replace(levels, naked_pocs=naked)
    last = levels.last_price if levels else None
    reference = last if last is not None else scanned.close
    average = scanned.average_range or None
    found = _levels(levels, reference) if levels and reference is not None else {}
    cells: dict[str, Cell] = {}
    for column in COLUMNS:
        price, day = found.get(column, (None, ""))
        if price is None or reference is None:
            cells[column] = Cell(None, "–", None)
            continue
        share = (price - reference) / average if average else None
        near = share is not None and abs(share) <= NEAR and state.kind not in _DEAD
        text = distance_text(price, reference, unit, scanned)
        cells[column] = Cell(price, text, share, near, day)
    return Row(
        scanned.state, state, scanned.notation, last, reference, average, cells,
        _marks(levels, found, reference, average) if levels and reference is not None and average else (),
        [(level.price, level.date) for level in levels.naked_pocs] if levels else [],
        sorted(touched), levels.bias if levels else None,
        date_text(date.fromisoformat(levels.as_of), language, year=year, weekday=False)
        if levels and levels.as_of
        else "",
        month_text(scanned.state.contract, language) if scanned.state.contract else "",
    )  # fmt: skip


def distance_text(price: float, reference: float, unit: Unit, scanned: ScanRow) -> str:
    """Return the distance of a level from the price, as text in the chosen unit.

    On the page, `static/js/levels.js` keeps it current.
    """
    if unit == "points":
        return number_format.points_text(price, reference, scanned.notation)
    if unit == "adr":
        return (
            number_format.share_text(price, reference, scanned.average_range)
            if scanned.average_range
            else "–"
        )
    return number_format.ticks_text(number_format.ticks_between(price, reference, scanned.state.tick_size))


def _levels(levels: LevelsAnswer, reference: float) -> dict[str, tuple[float, str]]:
    """Return price and date of each level of a product, by column. Only naked POCs have a date."""
    found: dict[str, tuple[float, str]] = {}
    if levels.developing:
        now = levels.developing
        found |= {
            "vah": (now.vah, ""), "poc": (now.poc, ""), "val": (now.val, ""),
            "ib_high": (now.ib_high, ""), "ib_low": (now.ib_low, ""),
        }  # fmt: skip
    if levels.overnight:
        found |= {"on_high": (levels.overnight.high, ""), "on_low": (levels.overnight.low, "")}
    prior = levels.prior
    found |= {"prior_vah": (prior.vah, ""), "prior_poc": (prior.poc, ""), "prior_val": (prior.val, "")}
    above = min((n for n in levels.naked_pocs if n.price >= reference), key=lambda n: n.price, default=None)
    below = max((n for n in levels.naked_pocs if n.price < reference), key=lambda n: n.price, default=None)
    for column, level in (("naked_above", above), ("naked_below", below)):
        if level:
            found[column] = (level.price, level.date)
    return found


def _marks(
    levels: LevelsAnswer, found: Mapping[str, tuple[float, str]], reference: float, average: float
) -> list[Mark]:
    """Return the marks of a row's map. Bands are first and the most important levels last, so that these are on top."""

    def at(price: float) -> float:
        return round((price - reference) / average, 4)

    low, high = ("val", "vah") if levels.developing else ("prior_val", "prior_vah")
    marks = [
        Mark(
            "va" if levels.developing else "prior_va",
            at(found[low][0]),
            at(found[high][0]) - at(found[low][0]),
        )
    ]
    marks += [Mark("naked", at(level.price)) for level in levels.naked_pocs]
    lines = ("prior_vah", "prior_poc", "prior_val", "on_high", "on_low", "ib_high", "ib_low", "poc")
    marks += [Mark(column, at(found[column][0])) for column in lines if column in found]
    return [mark for mark in marks if mark.at < REACH and mark.at + mark.width > -REACH]


def sorted_rows(rows: Iterable[Row], order: str) -> list[Row]:
    """Sort rows by the nearest level, by symbol or by status. Equal rows keep the order of the products."""
    if order == "symbol":
        return sorted(rows, key=lambda row: row.symbol.symbol)
    if order == "state":
        return sorted(rows, key=lambda row: KINDS.index(row.state.kind))
    # rows with a last price before rows with a close; rows that cannot be near come last
    return sorted(rows, key=lambda row: (row.nearest == float("inf"), row.last is None, row.nearest))
