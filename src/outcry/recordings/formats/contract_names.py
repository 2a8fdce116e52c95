"""Find the contract that a symbol in a file means.

Trades belong to the contract in which they were made, so a micro contract is not replaced by the full-size one. A
one-digit year means the nearest contract that had not expired when the trades were made.
"""

import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from outcry.market.instruments import MONTH_CODES, Contract, Universe
from outcry.market.symbols import LONGEST_ROOT, Named
from outcry.market.units import PRICE_SCALE, price_text
from outcry.recordings.file_model import FileRefused

#: A computed expiry may be off by a holiday, so trades a few days after it still belong to the contract.
EXPIRY_SLACK = timedelta(days=5)

SPREAD = "trades of spreads and combinations"
OPTION = "trades of options"
UNKNOWN_PRODUCT = "trades of products not in the universe"
CONTINUOUS = "trades of continuous symbols"

_OPTION = re.compile(r"\S+\s+[CP]-?\d")
_ROOT_FIRST = re.compile(
    rf"(?P<root>[A-Z0-9]{{1,{LONGEST_ROOT}}})[_-](?P<code>[{MONTH_CODES}])(?P<year>\d{{2}}|\d{{4}})"
)


@dataclass(slots=True)
class ContractNames:
    """Finds the contracts of symbols among one universe of products, with a cache.

    `unnamed_step_e9`: the smallest size (10⁻⁹) of rows whose contract no product has.
    """

    universe: Universe
    unnamed_step_e9: int = PRICE_SCALE
    _known: dict[tuple[str, date], Contract | str] = field(
        default_factory=dict[tuple[str, date], Contract | str]
    )

    def contract(self, name: str, near: date) -> Contract | str:
        """Return the contract that a symbol meant on a date on which it traded, or the reason to skip its rows."""
        key = (name, near)
        if key not in self._known:
            self._known[key] = self._contract(name, near)
        return self._known[key]

    def _contract(self, name: str, near: date) -> Contract | str:
        text = name.strip()
        named = self.universe.read(text)
        if named is None:
            return _why_not(text)
        root = self.universe.root_of(named)
        if root is None:
            return UNKNOWN_PRODUCT
        product = self.universe.products[root]
        if named.month is None:
            return CONTINUOUS if product.is_dated else Contract(root)
        if not product.lists(named.month):
            return UNKNOWN_PRODUCT
        return Contract(root, self._year(root, named, named.month, near), named.month)

    def _year(self, root: str, named: Named, month: int, near: date) -> int:
        if named.digits == 4:
            return named.year
        if named.digits == 2:
            centuries = range(near.year // 100 * 100 - 100, near.year + 200, 100)
            return min((c + named.year for c in centuries), key=lambda year: abs(year - near.year))
        return self.universe.next_to_end(root, month, named.year, near - EXPIRY_SLACK).year

    def step_of(self, contract: Contract | str) -> int:
        """Return the smallest size of a contract's product in 10⁻⁹; one lot for rows to skip."""
        if not isinstance(contract, Contract):
            return PRICE_SCALE
        product = self.universe.products.get(contract.root)
        return product.size_step_e9 if product else self.unnamed_step_e9

    def tick_of(self, contract: Contract) -> int:
        """Return the tick of a contract's product in 10⁻⁹; 1 if no product has it."""
        product = self.universe.products.get(contract.root)
        return product.tick_e9 if product else 1

    def refuse_fractions(self, contract: Contract, path: Path) -> None:
        """Refuse a file in a format with whole sizes, if the product's sizes may be fractions. Raises `FileRefused`."""
        step_e9 = self.step_of(contract)
        if step_e9 != PRICE_SCALE:
            raise FileRefused(path, "", f"sizes of {contract.key} are multiples of {price_text(step_e9)}, "
                              "but this format has whole numbers only",
                              "export it as CSV or Parquet")  # fmt: skip

    def in_file_name(self, path: Path, near: date) -> Contract | None:
        """Return the contract that a file's name contains; None if it contains none.

        Examples: `ESZ26_FUT_CME.scid`, `6EH4_1min_….csv.gz`, `ES_H24_1min.txt`, `ES 12-26.Last.txt`; for a product
        without delivery months `BTC-PERP.csv`, `SPY_2026-11.csv.gz`.
        """
        name = path.name.upper()
        candidates = [name.split(".")[0], re.split(r"[._]", name)[0], *re.split(r"[^A-Z0-9]+", name)[:3]]
        if found := _ROOT_FIRST.match(name):
            candidates.append("".join(found.groups()))
        for text in candidates:
            contract = self.contract(text, near)
            if isinstance(contract, Contract):
                return contract
        return None


def _why_not(text: str) -> str:
    if _OPTION.match(text):
        return OPTION
    if "-" in text or ":" in text:
        return SPREAD
    return UNKNOWN_PRODUCT
