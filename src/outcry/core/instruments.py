"""What is traded: products, contracts and the names people call them by. (Skeleton: the owner of this file fills it.)"""

from dataclasses import dataclass
from datetime import date

MONTH_CODES = "FGHJKMNQUVXZ"


@dataclass(frozen=True, slots=True, order=True)
class Contract:
    """One delivery month of a product. Ordered by root, year, month."""

    root: str
    year: int
    month: int

    @property
    def key(self) -> str:
        """The unambiguous key, `ESZ2013`."""
        return f"{self.root}{MONTH_CODES[self.month - 1]}{self.year}"

    @property
    def short_key(self) -> str:
        """The exchange's raw key with a one-digit year, `ESZ3`."""
        return f"{self.root}{MONTH_CODES[self.month - 1]}{self.year % 10}"


@dataclass(frozen=True, slots=True)
class Product:
    """A futures product. `tick_e9` in 10⁻⁹; `multiplier_e9` is dollars for one whole point, in 10⁻⁹."""

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


@dataclass(frozen=True, slots=True)
class Universe:
    """The scan universe by root."""

    products: dict[str, Product]

    def expiry(self, contract: Contract) -> date:
        """Last trading day."""
        raise NotImplementedError
