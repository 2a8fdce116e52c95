"""tastytrade's names of futures, and the symbols of its market data stream (streamer).

The vendor's response decides which symbol is streamed. The symbol is accepted only if it names the same year and month
as the contract, because the vendor's other symbols have only one digit of the year. If the response has no symbol, our
own table is used. Prices are converted to the product's unit.
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
    """A contract as the vendor streams it. Quoted prices are multiplied by `scale`, a power of ten."""

    symbol: str
    scale: Decimal = Decimal(1)


def rest_symbol(contract: Contract) -> str:
    """Return a contract's symbol for a REST path, such as `ESZ6`; the vendor itself writes `/ESZ6`."""
    return contract.short_key


def streamed_symbol(contract: Contract, exchange: str) -> str | None:
    """Return the streamer's symbol, `/ESZ26:XCME`; None for an exchange without a streamer code, or without a month."""
    code = EXCHANGES.get(exchange) if contract.is_dated else None
    month = MONTH_CODES[contract.month - 1]
    return f"/{contract.root}{month}{contract.year % 100:02}:{code}" if code else None


def streamed_contract(symbol: str, century: int = 2000) -> Contract | None:
    """Return the contract of a streamer's symbol; None for anything else."""
    found = _STREAMED.fullmatch(symbol)
    if found is None:
        return None
    root, month, year, _ = found.groups()
    return Contract(root, century + int(year), MONTH_CODES.index(month) + 1)


def read_future(answer: dict[str, Any], contract: Contract, product: Product) -> Future | None:
    """Parse the vendor's description of a future; None if it is another contract or not streamed."""
    symbol = answer.get("streamer-symbol") or streamed_symbol(contract, product.exchange)
    named = streamed_contract(symbol, contract.year // 100 * 100) if isinstance(symbol, str) else None
    if not isinstance(symbol, str) or named != contract:
        return None
    return Future(symbol, _scale(answer.get("tick-size"), product.tick_e9))


def _scale(tick: object, tick_e9: int) -> Decimal:
    """Return the factor from the vendor's price unit to ours, derived from the tick sizes of both.

    The factor is 1 unless the tick sizes differ by a power of ten (cents against dollars): a finer tick is not another
    unit.
    """
    try:
        ratio = (Decimal(tick_e9) / parse_price_e9(str(tick))).normalize()
        return ratio if ratio > 0 and ratio.as_tuple().digits == (1,) else Decimal(1)
    except (ArithmeticError, ValueError):
        return Decimal(1)
