"""Which contracts a connection brings: of each product the front one, and the next while a roll is near.

Rule kept: the roll by volume is decided where both contracts are seen; so the next one is brought early enough for its
volume to be compared over the sessions a product asks for.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from outcry.base.clock import Clock
from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_SECOND

#: Equity indices roll about eight days before the deadline of the calendar; what comes with it is left time to compare.
ROLL_WINDOW = timedelta(days=14)


def contract_selector(
    universe: Universe, roots: Sequence[str], clock: Clock
) -> Callable[[], Sequence[Contract]]:
    """The contracts wanted whenever asked."""

    def wanted() -> Sequence[Contract]:
        today = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC).date()
        found: list[Contract] = []
        for root in roots:
            front = universe.front(root, today)
            found.append(front)
            if universe.roll_deadline(front) - today <= ROLL_WINDOW:
                found.append(universe.next_contract(front))
        return found

    return wanted
