"""ProjectX's contract ids, such as `CON.F.US.EP.Z26`, with its own product codes (`EP` is ES, `ENQ` is NQ).

The vendor's list also has the exchange's symbol (`ESZ6`), so a changed product code does no harm. The id's two-digit
year distinguishes decades.
"""

import re
from collections.abc import Iterable

from outcry.feeds.number_parsing import parse_price_e9
from outcry.feeds.projectx.protocol import ListedContract
from outcry.market.instruments import MONTH_CODES, Contract, Universe
from outcry.trades.feed import FeedLost

_ID = re.compile(rf"CON\.F\.US\.([A-Z0-9]{{1,6}})\.([{MONTH_CODES}])([0-9]{{2}})")


def contract_id(universe: Universe, contract: Contract) -> str | None:
    """Return the vendor's id of a contract by our table; None for a product that the table does not list."""
    product = universe.products.get(contract.root)
    if product is None or not product.projectx or not contract.is_dated:
        return None
    return f"CON.F.US.{product.projectx}.{_ending(contract)}"


def find_listed(
    universe: Universe, contract: Contract, listed: Iterable[ListedContract]
) -> ListedContract | None:
    """Find a contract in the vendor's list: by our id for it, or else by the exchange's symbol and the month."""
    if not contract.is_dated:
        return None
    rows, ours, ending = list(listed), contract_id(universe, contract), f".{_ending(contract)}"
    named = [row for row in rows if row.name == contract.short_key and _ID.fullmatch(row.id)]
    found = [row for row in rows if row.id == ours] or [row for row in named if row.id.endswith(ending)]
    return found[0] if found else None


def same_quote_unit(universe: Universe, contract: Contract, listed: ListedContract) -> bool:
    """Return whether the vendor quotes a product in our price unit, derived from its tick size.

    Grains may be in cents or in dollars, a factor of a hundred apart. A smaller difference is only a changed tick size.
    Raises `FeedLost`.
    """
    try:
        tick_e9 = parse_price_e9(listed.tickSize)
    except ValueError:
        raise FeedLost("protocol", "ProjectX lists an invalid tick size") from None
    return not tick_e9 or 20 * tick_e9 > universe.products[contract.root].tick_e9 > tick_e9 // 20


def _ending(contract: Contract) -> str:
    return f"{MONTH_CODES[contract.month - 1]}{contract.year % 100:02}"
