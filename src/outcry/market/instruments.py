"""Products, contracts and symbols of the scan universe.

A contract is identified by root, year and month, never by a one-digit year alone. Levels are computed for the full-size
product; a micro names its parent. Last trading days are computed from the exchange's rules and holidays
(`market.expiry`).

A product without delivery months (a share, a currency pair, a perpetual swap) has one undated contract. It never
expires and never rolls, its year and month are 0, and its key is the root.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from outcry.market.expiry import EXPIRY_RULES, NOTICE_RULES, BusinessDays
from outcry.market.symbols import LONGEST, MONTH_CODES, Named, close_names, read_symbol
from outcry.market.units import PRICE_SCALE

__all__ = ["MONTH_CODES", "Contract", "Product", "Resolution", "Universe", "UnknownName"]

#: The front contract must have rolled this many business days before the last trading day or first notice (rules §9).
ROLL_MARGIN = 2
#: A one-digit year is unique within a decade.
DECADE = 10
#: Maximum number of months between the end of trading and the delivery month. CL and NG need one; one more is a
#: reserve.
LAST_BEFORE_DELIVERY = 2


class UnknownName(LookupError):
    """A symbol names no known product or contract. suggestions: at most five similar names of known products."""

    def __init__(self, symbol: str, suggestions: tuple[str, ...] = ()) -> None:
        hint = f"; did you mean {', '.join(suggestions)}?" if suggestions else ""
        super().__init__(f"unknown symbol {symbol[:40]!r}{hint}")
        self.symbol = symbol
        self.suggestions = suggestions


@dataclass(frozen=True, slots=True, order=True)
class Contract:
    """One delivery month of a product, or the undated contract of a product that has none (year and month are 0).

    Ordered by root, year, month.
    """

    root: str
    year: int = 0
    month: int = 0

    @property
    def is_dated(self) -> bool:
        """Return whether the contract has a delivery month, and so expires."""
        return self.month != 0

    @property
    def key(self) -> str:
        """The unambiguous key, `ESZ2013`; of an undated contract the root, `SPY`."""
        return f"{self.root}{MONTH_CODES[self.month - 1]}{self.year}" if self.month else self.root

    @property
    def short_key(self) -> str:
        """Return the exchange's own key, with a one-digit year: `ESZ3`; of an undated contract the root."""
        return f"{self.root}{MONTH_CODES[self.month - 1]}{self.year % 10}" if self.month else self.root


@dataclass(frozen=True, slots=True)
class Product:
    """A product, one row of `data/products.csv`.

    tick_e9: smallest price step in 10⁻⁹ of the quoted unit (cents for grains and livestock). multiplier_e9: dollars for
    one whole quoted unit, in 10⁻⁹. months: codes of the months in the trading cycle; empty if the product has no
    delivery months. serial: codes of further listed months. skipped: codes from `months` to which the front contract
    is never rolled (gold's V, rules §9). zone: IANA zone of its hours.

    group: its sector, whose holidays apply. roll_sessions: number of completed sessions in which the next contract must
    lead by volume before the roll. parent: for a micro, root of the full-size product. aliases: other tickers.
    projectx: the product's code in ProjectX symbols (`CON.F.US.…`). settle: settlement window in `zone`,
    `HH:MM:SS-HH:MM:SS`.

    activity: minimum percentages of minutes in which the front contract trades, used to find holes in recordings. There
    is one for regular hours, one for the other hours by day (2:00 to 17:00 in its zone), and one for the night.

    size_step_e9: smallest size in 10⁻⁹ of a contract, share or coin. Sizes inside (`size_lots`, `volume`) are whole
    numbers of such steps; for a future a step is one contract.

    table: file of the row. own_tables: names of the operator's own tables with rows for the product, such as
    `products.csv`; empty if all its data is packaged.
    """

    root: str
    name: str
    exchange: str
    sector: str
    tick_e9: int
    multiplier_e9: int
    months: str
    zone: str
    roll_sessions: int
    parent: str | None
    aliases: tuple[str, ...]
    serial: str = ""
    skipped: str = ""
    expiry_rule: str = "third_friday"
    notice_rule: str = "none"
    projectx: str = ""
    settle: str = ""
    unit: str = "points"
    source: str = ""
    checked_on: date | None = None
    note: str = ""
    activity: tuple[int, int, int] = (10, 5, 2)
    size_step_e9: int = PRICE_SCALE
    table: str = ""
    own_tables: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """Return the product's sector, as the group by which the holiday table lists it."""
        return self.sector

    @property
    def tick_value_e9(self) -> int:
        """Return the value of one tick in units of 10⁻⁹ dollars; exact for every product of the universe."""
        return self.tick_e9 * self.multiplier_e9 // 1_000_000_000

    @property
    def is_dated(self) -> bool:
        """Return whether the product has delivery months. If not, it has one undated contract."""
        return bool(self.months)

    def lists(self, month: int) -> bool:
        """Return whether the exchange lists contracts of the product for a month (1 to 12; 0: undated)."""
        return MONTH_CODES[month - 1] in self.months + self.serial if month else not self.is_dated


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a symbol means: a full-size product, and a contract of it if the symbol names one."""

    product: Product
    contract: Contract | None


def _weekday(_root: str, day: date) -> bool:
    return day.weekday() < 5


@dataclass(frozen=True, slots=True)
class Universe:
    """All products of the scan universe (the products that Outcry knows), by root.

    is_business_day(root, date): a function that the calendar supplies; by default every weekday is a business day.
    """

    products: Mapping[str, Product]
    is_business_day: Callable[[str, date], bool] = _weekday
    _names: dict[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    _ends: dict[Contract, date] = field(default_factory=dict[Contract, date], repr=False, compare=False)

    def __post_init__(self) -> None:
        for product in self.products.values():
            self._names.update((name.upper(), product.root) for name in (*product.aliases, product.root))

    def parent_of(self, root: str) -> Product:
        """Return the full-size product of a root: for a micro, its parent. Raises `KeyError` for an unknown root."""
        product = self.products[root]
        return self.products[product.parent] if product.parent else product

    def expiry(self, contract: Contract) -> date:
        """Return the last trading day by the product's rule (rules §9); `date.max` for an undated contract.

        Raises `KeyError` for an unknown root.
        """
        if not contract.is_dated:
            return date.max
        end = self._ends.get(contract)
        if end is None:
            rule = EXPIRY_RULES[self.products[contract.root].expiry_rule]
            end = rule(self._days(contract.root), contract.year, contract.month)
            self._ends[contract] = end
        return end

    def first_notice(self, contract: Contract) -> date | None:
        """Return the first notice day of a physically delivered contract.

        Returns None if the exchange gives notices only after the last trading day.
        """
        rule = NOTICE_RULES[self.products[contract.root].notice_rule]
        return rule(self._days(contract.root), contract.year, contract.month) if rule else None

    def roll_deadline(self, contract: Contract) -> date:
        """Return the day from which the contract is no longer the front contract.

        It is 2 business days before the earlier of first notice and last trading day (rules §9); `date.max` for an
        undated contract.
        """
        if not contract.is_dated:
            return date.max
        notice = self.first_notice(contract)
        end = self.expiry(contract)
        return self._days(contract.root).before(min(end, notice) if notice else end, ROLL_MARGIN)

    def next_contract(self, contract: Contract) -> Contract:
        """Return the contract to roll to: that of the product's next month in its cycle, skipped months left out.

        An undated contract is followed by itself.
        """
        if not contract.is_dated:
            return contract
        product = self.products[contract.root]
        year, month = contract.year, contract.month
        while True:
            year, month = (year + 1, 1) if month == 12 else (year, month + 1)
            code = MONTH_CODES[month - 1]
            if code in product.months and code not in product.skipped:
                return Contract(contract.root, year, month)

    def contracts(self, root: str, start: date, end: date) -> tuple[Contract, ...]:
        """Return the roll cycle's contracts whose last trading day is from `start` to `end` (included), in order.

        A product without delivery months has none.
        """
        if not self.products[root].is_dated:
            return ()
        found: list[Contract] = []
        contract = self.next_contract(Contract(root, *_month_before(*_month_before(start.year, start.month))))
        while (contract.year - end.year) * 12 + contract.month - end.month <= LAST_BEFORE_DELIVERY:
            if start <= self.expiry(contract) <= end:
                found.append(contract)
            contract = self.next_contract(contract)
        return tuple(found)

    def front(self, root: str, day: date) -> Contract:
        """Return the front contract of a day by the calendar alone, without volumes.

        It is the nearest contract of the cycle whose roll deadline is after the day, or the product's undated contract.
        """
        if not self.products[root].is_dated:
            return Contract(root)
        contract = Contract(root, *_month_before(day.year, day.month))
        while self.roll_deadline(contract := self.next_contract(contract)) <= day:
            pass
        return contract

    def contract(self, key: str) -> Contract:
        """Return the contract that a full key such as `ESZ2013` names, micros included.

        The key of an undated contract is its root. Raises `UnknownName` for anything else.
        """
        if key in self.products and not self.products[key].is_dated:
            return Contract(key)
        root, code, year = key[:-5], key[-5:-4], key[-4:]
        product = self.products.get(root)
        if (
            product is None
            or not product.is_dated
            or code not in MONTH_CODES
            or not code
            or not year.isdecimal()
        ):
            raise UnknownName(key)
        return Contract(root, int(year), MONTH_CODES.index(code) + 1)

    def read(self, symbol: str) -> Named | None:
        """Parse a symbol. A ticker or alias of a product is one whatever characters it has: `BTC-PERP`, `EUR/USD`.

        Other text must have a format of `market.symbols`; returns None for anything else.
        """
        text = symbol.strip().upper() if len(symbol) <= 4 * LONGEST else ""
        return Named(text) if text in self._names else read_symbol(symbol)

    def root_of(self, named: Named) -> str | None:
        """Return the root of the product that a parsed symbol means; None for an unknown one."""
        if named.vendor == "projectx":
            codes = (p.root for p in self.products.values() if named.name in (p.projectx, p.root))
            return next(codes, None)
        return self._names.get(named.name)

    def next_to_end(self, root: str, month: int, digit: int, on: date) -> Contract:
        """Return the contract that a one-digit year means: the first one that expires on day `on` or later.

        Raises `KeyError` for an unknown root.
        """
        first = Contract(root, on.year - 1 + (digit - on.year + 1) % DECADE, month)
        return first if self.expiry(first) >= on else Contract(root, first.year + DECADE, month)

    def resolve(self, symbol: str, near: date, *, history: bool = False) -> Resolution:
        """Return the product or contract that a symbol means. The symbol may have any format of `market.symbols`.

        A one-digit year means the nearest contract not yet expired on `near`. With `history`, it means the contract
        whose expiry is nearest to `near`, expired or not. A two-digit year belongs to the century nearest to `near`. A
        micro resolves to its full-size parent and the parent's contract of the same month. Raises `UnknownName` for
        anything else.
        """
        named = self.read(symbol)
        root = named and self.root_of(named)
        if named is None or root is None:
            raise UnknownName(symbol, close_names(symbol, self._vocabulary()))
        product = self.parent_of(root)
        if named.month is None:
            return Resolution(product, None)
        if not (self.products[root].lists(named.month) and product.lists(named.month)):
            raise UnknownName(symbol, self._listed_near(product, near))
        year = self._year(product.root, named, near, history=history)
        if year is None:
            raise UnknownName(symbol, self._listed_near(product, near))
        return Resolution(product, Contract(product.root, year, named.month))

    def _year(self, root: str, named: Named, near: date, *, history: bool) -> int | None:
        """Return the full year of a named contract; None if it is not a year that a date can have."""
        if named.month is None or not 1000 < near.year < 9000:
            return None
        if named.digits == 4:
            return named.year if 1970 <= named.year < 2200 else None
        if named.digits == 2:
            century = near.year // 100 * 100
            years = [century + named.year + shift for shift in (-100, 0, 100)]
            return min(years, key=lambda year: (abs(year - near.year), -year))
        if not history:
            return self.next_to_end(root, named.month, named.year, near).year
        years = [y for y in range(near.year - DECADE, near.year + DECADE + 2) if y % DECADE == named.year]
        ends = {y: self.expiry(Contract(root, y, named.month)) for y in years}
        return min(years, key=lambda y: (abs(ends[y] - near), -y))

    def _days(self, root: str) -> BusinessDays:
        return BusinessDays(lambda day: self.is_business_day(root, day))

    def _listed_near(self, product: Product, near: date) -> tuple[str, ...]:
        try:
            ahead = self.contracts(product.root, near, near + timedelta(days=400))
        except (OverflowError, ValueError):
            ahead = ()
        return (product.root, *(contract.short_key for contract in ahead[:3]))

    def _vocabulary(self) -> dict[str, str]:
        """Return the words to suggest for an unknown symbol, mapped to roots: tickers, aliases and words of names."""
        words = {
            word.upper(): product.root
            for product in self.products.values()
            if product.parent is None
            for word in product.name.split()
            if len(word) > 2
        }
        return self._names | {word: root for word, root in words.items() if word not in self._names}


def _month_before(year: int, month: int) -> tuple[int, int]:
    return (year - 1, 12) if month == 1 else (year, month - 1)
