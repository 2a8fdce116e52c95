"""Resolve symbols, and find the channel that answers a symbol live.

A user's own feed has precedence over a shared one. Without a contract in the symbol, only the front contract answers.
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
class ResolvedSymbol:
    """A resolved symbol: its text, the product, and the contract if it names one."""

    symbol: str
    product: Product
    contract: Contract | None


class SymbolResolver:
    """Resolves symbols of a universe, and finds their live channels in the registry."""

    def __init__(self, universe: Universe, registry: Registry) -> None:
        self._universe, self._registry = universe, registry

    def resolve(self, symbol: str | None, now_ns: int) -> ResolvedSymbol:
        """Resolve a symbol. Raises `MissingSymbol`, `UnknownSymbol`."""
        if not symbol or not symbol.strip():
            raise MissingSymbol("missing_symbol")
        try:
            meant = self._universe.resolve(symbol, utc_date(now_ns))
        except UnknownName as problem:
            raise UnknownSymbol(
                "unknown_symbol", symbol=symbol, suggestions=list(problem.suggestions)
            ) from problem
        return ResolvedSymbol(symbol, meant.product, meant.contract)

    def live_channel(self, scope: Scope, named: ResolvedSymbol) -> tuple[VisibleChannel | None, str]:
        """Return the live channel and the state: `live`, or the code of the reason why there is none."""
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
            if state in {"no_connection", "not_front"}:  # the least specific reasons
                state = why
        return None, state


def _why_not(channel: Channel, named: Contract | None) -> str | None:
    """Return the code of the reason why a channel is not live; None if it is."""
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
    """Return the UTC date of a timestamp."""
    return datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
