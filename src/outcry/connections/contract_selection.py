"""Contracts a connection subscribes to: each product's front contract, and near a roll the next one too.

The product rolls to the next contract by volume, which is compared over several sessions. The connection therefore
needs trades of both contracts for some days before the roll.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from outcry.base.clock import Clock
from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_SECOND

#: Equity indices roll about eight days before the calendar's deadline; the rest leaves time to compare volumes.
ROLL_WINDOW = timedelta(days=14)


def contract_selector(
    universe: Universe, roots: Sequence[str], clock: Clock
) -> Callable[[], Sequence[Contract]]:
    """Return a function that determines, at each call, the contracts to subscribe to."""

    def wanted() -> Sequence[Contract]:
        today = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC).date()
        found: list[Contract] = []
        for root in roots:
            front = universe.front(root, today)
            found.append(front)
            if front.is_dated and universe.roll_deadline(front) - today <= ROLL_WINDOW:
                found.append(universe.next_contract(front))
        return found

    return wanted
