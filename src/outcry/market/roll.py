"""Chooses the front contract: by volume, only between sessions, never backwards (rules §9).

The next contract becomes front after its RTH volume exceeded the front's in enough consecutive completed sessions: 1,
or 2 for metals and energy. The change takes effect on the following trade date. The front changes at the latest on the
deadline, two business days before last trading day or first notice.

A date's front depends only on the volumes of earlier dates. So the front of a session about to open equals the front of
the same date in history.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from outcry.market.instruments import Contract, Universe

#: Consecutive trade dates without data of the front after which another contract may lead; some files may be missing.
EXPIRES_AFTER_SESSIONS = 3

#: RTH lots of each contract, by trade date.
Volumes = Mapping[date, Mapping[Contract, int]]


@dataclass(frozen=True, slots=True)
class Front:
    """The front contract of one trade date, and the contract from which it was rolled, if any."""

    trade_date: date
    contract: Contract
    rolled_from: Contract | None


@dataclass(frozen=True, slots=True)
class RollRule:
    """When the front contract of one product rolls to the next.

    sessions: number of consecutive sessions in which the next contract must have more volume. deadline: returns the
    trade date from which a contract is no longer front. following: returns the next contract of the cycle.
    """

    sessions: int
    deadline: Callable[[Contract], date]
    following: Callable[[Contract], Contract]

    @staticmethod
    def of(universe: Universe, root: str) -> "RollRule":
        """Return the rule of a product. Raises `KeyError` for an unknown root."""
        return RollRule(universe.products[root].roll_sessions, universe.roll_deadline, universe.next_contract)


def fronts(volumes: Volumes, rule: RollRule) -> Sequence[Front]:
    """Return the front contract of every trade date in `volumes`, ascending.

    On the first date the front is the contract with the most volume; of several, the one that expires first.
    """
    return _followed(volumes, rule)[0]


def front_on(
    volumes: Volumes, trade_date: date, available: Collection[Contract], rule: RollRule
) -> Front | None:
    """Return the front contract of a trade date later than all in `volumes`; None if `volumes` is empty.

    available: contracts that may become front on the deadline. In history these are the contracts that traded on the
    date.
    """
    roll = _followed(volumes, rule)[1]
    return roll.on(trade_date, available) if roll else None


def _followed(volumes: Volumes, rule: RollRule) -> tuple[list[Front], "_Roll | None"]:
    found: list[Front] = []
    roll: _Roll | None = None
    for trade_date in sorted(volumes):
        traded = volumes[trade_date]
        roll = roll or _Roll(rule, max(sorted(traded), key=lambda contract: traded[contract]))
        found.append(roll.add(trade_date, traded))
    return found, roll


class _Roll:
    """Determines the front contract of successive trade dates."""

    def __init__(self, rule: RollRule, front: Contract) -> None:
        self._rule, self._front = rule, front
        self._rolled_from: Contract | None = None
        self._leads: dict[Contract, int] = {}
        self._newest: Mapping[Contract, int] = {}
        self._silent = 0

    def on(self, trade_date: date, available: Collection[Contract]) -> Front:
        """Return the front contract of the next trade date, by the volumes added so far."""
        challenger = self._challenger()
        if challenger is None and trade_date >= self._rule.deadline(self._front):
            challenger = self._most_traded(trade_date, available)
        if challenger is not None:
            near = _order(challenger) <= _order(self._rule.following(self._front))
            self._rolled_from = self._front if near else None
            self._front, self._leads = challenger, {}
        return Front(trade_date, self._front, self._rolled_from)

    def add(self, trade_date: date, traded: Mapping[Contract, int]) -> Front:
        """Add the RTH volume of a completed trade date, and return its front contract."""
        front = self.on(trade_date, traded)
        self._newest = traded
        self._silent = 0 if self._front in traded else self._silent + 1
        if 0 < self._silent < EXPIRES_AFTER_SESSIONS:
            return front  # without data of the front, its volume is unknown
        mine = traded.get(self._front, 0)
        self._leads = {
            contract: self._leads.get(contract, 0) + 1
            for contract, volume in traded.items()
            if _order(contract) > _order(self._front) and volume > mine
        }
        return front

    def _challenger(self) -> Contract | None:
        """Return the contract to roll to: the nearest one that had more volume than the front for enough sessions."""
        ready = [contract for contract, led in self._leads.items() if led >= self._rule.sessions]
        return min(ready, key=_order, default=None)

    def _most_traded(self, trade_date: date, available: Collection[Contract]) -> Contract | None:
        """Return the later contract with the most lots in the newest session; of several, the nearest.

        Later means that it expires after the front. A contract past its own deadline is chosen only if there is no
        other.
        """
        later = sorted((c for c in available if _order(c) > _order(self._front)), key=_order)
        lasting = [contract for contract in later if trade_date < self._rule.deadline(contract)]
        return max(lasting or later, key=lambda contract: self._newest.get(contract, 0), default=None)


def _order(contract: Contract) -> tuple[int, int]:
    return contract.year, contract.month
