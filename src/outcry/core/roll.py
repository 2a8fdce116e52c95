"""Which delivery month is the front: by volume, between sessions only, never backwards (rules §9).

The next contract takes over on the trade date after its RTH volume has exceeded the front's in as many completed
sessions running as the product asks (1; 2 for metals and energy), and at the latest on its deadline, two business days
before last trading day or first notice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from outcry.core.instruments import Contract

#: Trade dates running without the front, after which what trades instead may lead: a file or two may be missing.
GONE_AFTER_SESSIONS = 3


@dataclass(frozen=True, slots=True)
class Front:
    """The front contract of one trade date, and the one it was rolled from, if it ever was."""

    trade_date: date
    contract: Contract
    rolled_from: Contract | None


def fronts(
    volumes: Mapping[date, Mapping[Contract, int]], roll_sessions: int, deadline: Callable[[Contract], date]
) -> Sequence[Front]:
    """Return the front of every trade date in `volumes` (RTH lots of each contract), ascending.

    The first date's front is the one with most volume then, the nearest of equals.
    """
    found: list[Front] = []
    front: Contract | None = None
    rolled_from: Contract | None = None
    leads: dict[Contract, int] = {}
    silent = 0
    for trade_date in sorted(volumes):
        traded = volumes[trade_date]
        if front is None:
            front = max(sorted(traded), key=lambda contract: traded[contract])
        challenger = _challenger(front, leads, roll_sessions)
        if challenger is None and trade_date >= deadline(front):
            later = sorted(contract for contract in traded if _order(contract) > _order(front))
            challenger = max(later, key=lambda contract: traded[contract]) if later else None
        if challenger:
            front, rolled_from, leads = challenger, front, {}
        found.append(Front(trade_date, front, rolled_from))
        silent = 0 if front in traded else silent + 1
        if 0 < silent < GONE_AFTER_SESSIONS:
            continue  # a day of which the front is missing says nothing of its volume
        mine = traded.get(front, 0)
        leads = {
            contract: leads.get(contract, 0) + 1
            for contract, volume in traded.items()
            if _order(contract) > _order(front) and volume > mine
        }
    return found


def _challenger(front: Contract, leads: Mapping[Contract, int], roll_sessions: int) -> Contract | None:
    ready = sorted((c for c, sessions in leads.items() if sessions >= roll_sessions), key=_order)
    return ready[0] if ready and _order(ready[0]) > _order(front) else None


def _order(contract: Contract) -> tuple[int, int]:
    return contract.year, contract.month
