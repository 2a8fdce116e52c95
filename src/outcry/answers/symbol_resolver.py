"""What a symbol means, and which channel answers it live.

Rule kept: one's own feed goes before a shared one; without a contract named only the front one answers.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

from outcry.access.licences import Scope
from outcry.answers.alerts import symbol_matches
from outcry.base.errors import MissingSymbol, UnknownSymbol
from outcry.live.registry import Channel, Registry, VisibleChannel
from outcry.market.instruments import Contract, Product, Universe, UnknownName
from outcry.market.units import NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Named:
    """A symbol understood: what was written, the product, and the contract if one was named."""

    symbol: str
    product: Product
    contract: Contract | None


class SymbolResolver:
    """Understands symbols of a universe, and looks in the registry for who answers them."""

    def __init__(self, universe: Universe, registry: Registry) -> None:
        self._universe, self._registry = universe, registry

    def of(self, symbol: str | None, now_ns: int) -> Named:
        """What was written. Raises `MissingSymbol`, `UnknownSymbol`."""
        if not symbol or not symbol.strip():
            raise MissingSymbol("missing_symbol")
        try:
            meant = self._universe.resolve(symbol, utc_date(now_ns))
        except UnknownName as problem:
            raise UnknownSymbol(
                "unknown_symbol", symbol=symbol, suggestions=list(problem.suggestions)
            ) from problem
        return Named(symbol, meant.product, meant.contract)

    def live(self, scope: Scope, named: Named) -> tuple[VisibleChannel | None, str]:
        """The channel that answers live, and the state: `live`, or the code of why none does."""
        state = "no_connection"
        for seen in self._registry.channels(scope, named.product.root):
            availability, contract = seen.channel.availability, seen.channel.key.contract
            if not symbol_matches(
                self._universe, named.symbol, named.contract, contract, availability.trade_date
            ):
                continue
            why = _why_not(seen.channel, named.contract)
            if why is None:
                return seen, "live"
            if state in {"no_connection", "not_front"}:  # another contract's feed says least of why
                state = why
        return None, state


def _why_not(channel: Channel, named: Contract | None) -> str | None:
    """Why a channel does not answer live; None: it does."""
    availability = channel.availability
    if not (availability.live or (named is not None and availability.answers)):
        return availability.reason
    view = channel.view()
    if view is None:
        return "no_trades"
    if view.opening.prior is None:
        return "no_prior"
    return None if named is not None or view.opening.front else "not_front"


def utc_date(now_ns: int) -> date:
    """The date in UTC of an instant."""
    return datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
