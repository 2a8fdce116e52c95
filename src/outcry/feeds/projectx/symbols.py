"""How ProjectX names contracts: `CON.F.US.EP.Z26`, with codes of its own for products (`EP` is ES, `ENQ` is NQ).

Rule kept: the vendor is asked. Its list has the exchange's key as well (`ESZ6`), so a code that it has changed does no
harm; the two digits of the year tell decades apart.
"""

import re
from collections.abc import Iterable

from outcry.feeds.number_parsing import parse_price_e9
from outcry.feeds.projectx.protocol import Listed
from outcry.market.instruments import MONTH_CODES, Contract, Universe
from outcry.trades.feed import FeedLost

_ID = re.compile(rf"CON\.F\.US\.([A-Z0-9]{{1,6}})\.([{MONTH_CODES}])([0-9]{{2}})")


def id_of(universe: Universe, contract: Contract) -> str | None:
    """The vendor's name of a contract by our table; None for a product it has not."""
    product = universe.products.get(contract.root)
    if product is None or not product.projectx:
        return None
    return f"CON.F.US.{product.projectx}.{_ending(contract)}"


def chosen(universe: Universe, contract: Contract, listed: Iterable[Listed]) -> Listed | None:
    """Which of those the vendor lists it is: the one of our name for it, or of the exchange's key and that month."""
    rows, ours, ending = list(listed), id_of(universe, contract), f".{_ending(contract)}"
    named = [row for row in rows if row.name == contract.short_key and _ID.fullmatch(row.id)]
    found = [row for row in rows if row.id == ours] or [row for row in named if row.id.endswith(ending)]
    return found[0] if found else None


def quoted_alike(universe: Universe, contract: Contract, listed: Listed) -> bool:
    """Whether the vendor quotes the product in our unit, by its tick: grains may be in cents or in dollars, a hundred
    times apart. A tick that is changed now and then, by halves and fifths, is no other unit. Raises `FeedLost`."""
    try:
        tick_e9 = parse_price_e9(listed.tickSize)
    except ValueError:
        raise FeedLost("protocol", "ProjectX lists an invalid tick size") from None
    return not tick_e9 or 20 * tick_e9 > universe.products[contract.root].tick_e9 > tick_e9 // 20


def _ending(contract: Contract) -> str:
    return f"{MONTH_CODES[contract.month - 1]}{contract.year % 100:02}"
