"""tastytrade's names of futures, and those of the streamer beneath it.

Rules kept: the vendor's own answer decides what a contract is called on the stream, and only one that names the same
year and month is believed, for its own symbols end in one digit of the year; the table serves where the vendor leaves
the name out. Prices are told in the product's unit, whatever the vendor quotes in.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from outcry.feeds.number_parsing import parse_price_e9
from outcry.market.instruments import MONTH_CODES, Contract, Product

#: The streamer's code of an exchange.
EXCHANGES = {"CME": "XCME", "CBOT": "XCBT", "NYMEX": "XNYM", "COMEX": "XCEC"}

_STREAMED = re.compile(r"/([A-Z0-9]{1,4})([FGHJKMNQUVXZ])(\d{2}):([A-Z]{4})")


@dataclass(frozen=True, slots=True)
class Future:
    """A contract as the vendor streams it: `symbol`, and what a quoted price is multiplied by (a power of ten)."""

    symbol: str
    scale: Decimal = Decimal(1)


def rest_symbol(contract: Contract) -> str:
    """`ESZ6`: the name in the path of the REST interface, where the vendor itself writes `/ESZ6`."""
    return contract.short_key


def streamed_symbol(contract: Contract, exchange: str) -> str | None:
    """`/ESZ26:XCME`; None for an exchange the streamer has no code of."""
    code = EXCHANGES.get(exchange)
    month = MONTH_CODES[contract.month - 1]
    return f"/{contract.root}{month}{contract.year % 100:02}:{code}" if code else None


def streamed_contract(symbol: str, century: int = 2000) -> Contract | None:
    """The contract of a streamer's symbol; None for anything else."""
    found = _STREAMED.fullmatch(symbol)
    if found is None:
        return None
    root, month, year, _ = found.groups()
    return Contract(root, century + int(year), MONTH_CODES.index(month) + 1)


def read_future(told: dict[str, Any], contract: Contract, product: Product) -> Future | None:
    """What the vendor's answer about a future says; None where it is about another contract, or one it does not
    stream."""
    symbol = told.get("streamer-symbol") or streamed_symbol(contract, product.exchange)
    named = streamed_contract(symbol, contract.year // 100 * 100) if isinstance(symbol, str) else None
    if not isinstance(symbol, str) or named != contract:
        return None
    return Future(symbol, _scale(told.get("tick-size"), product.tick_e9))


def _scale(tick: object, tick_e9: int) -> Decimal:
    """How many times larger our unit's numbers are than the vendor's: cents where it quotes dollars, by the ticks of
    the two. 1 where these differ by no power of ten: a finer tick is no other unit."""
    try:
        ratio = (Decimal(tick_e9) / parse_price_e9(str(tick))).normalize()
        return ratio if ratio > 0 and ratio.as_tuple().digits == (1,) else Decimal(1)
    except (ArithmeticError, ValueError):
        return Decimal(1)
