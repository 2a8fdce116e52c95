"""Select the session that answers a query about a symbol: a live one, else the newest completed one.

A channel is the live stream of one contract. A user's own feed has precedence over the operator's. If a symbol names
only the product (ES, not ESZ6), only the front contract can answer live.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

from outcry.access.licences import Scope
from outcry.answers.session_view import CompletedSelection
from outcry.base.errors import NoLicensedSource, UnknownSymbol
from outcry.base.timestamps import iso_timestamp
from outcry.live.registry import Channel, Registry, VisibleChannel
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Product, Universe, UnknownName
from outcry.market.units import NANOS_PER_SECOND
from outcry.sessions.completed_sessions import CompletedSessions


@dataclass(frozen=True, slots=True)
class ResolvedSymbol:
    """A resolved symbol: its text, the product, and the contract if the symbol names one."""

    symbol: str
    product: Product
    contract: Contract | None


class Selector:
    """Selects live streams and completed sessions for queries. Calls may block on the database."""

    def __init__(
        self, universe: Universe, calendar: Calendar, registry: Registry, completed: CompletedSessions
    ) -> None:
        self._universe, self._calendar, self._registry = universe, calendar, registry
        self._completed = completed

    def live_channel(self, scope: Scope, named: ResolvedSymbol) -> tuple[VisibleChannel | None, str]:
        """Return the live stream of a symbol and `live`; or None and the code of the reason why none is live."""
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

    def completed(self, scope: Scope, named: ResolvedSymbol, now_ns: int) -> CompletedSelection:
        """Return the visible completed sessions. Raises `UnknownSymbol`, `NoLicensedSource`."""
        visible, fresh_until_ns = self._completed.visible(scope, named.product, now_ns)
        root, contract, today = named.product.root, named.contract, utc_date(now_ns)
        if contract is not None:
            stored = visible.contract_named(named.symbol)
            if stored is None and self._universe.expiry(contract) < today:
                near = [root, self._universe.front(root, today).short_key]
                raise UnknownSymbol("unknown_symbol", symbol=named.symbol, suggestions=near)
            contract = stored or contract
        sessions = visible.in_context(contract)
        _, state = self.live_channel(scope, named)
        if not sessions:
            reasons, until_ns = self._completed.unavailable_reasons(scope, named.product, contract, now_ns)
            details = {} if until_ns is None else {"embargo_until": iso_timestamp(until_ns)}
            raise NoLicensedSource("no_licensed_source", symbol=root, reasons=[state, *reasons], **details)
        return CompletedSelection(named.product, state, visible, sessions, fresh_until_ns, self._calendar)


def _why_not(channel: Channel, named: Contract | None) -> str | None:
    """Return the code of the reason why a live stream cannot answer for a symbol; None if it can."""
    availability = channel.availability
    if not (availability.live or (named is not None and availability.answers)):
        return availability.reason
    view = channel.view()
    if view is None:
        return "no_trades"
    if view.opening.prior is None:
        return "no_prior"
    return None if named is not None or view.opening.front else "not_front"


def symbol_matches(
    universe: Universe, symbol: str, meant: Contract | None, actual: Contract, on: date | None
) -> bool:
    """Return whether a requested symbol names the contract `actual`, or no contract in particular.

    `meant` is the contract that the symbol means today. `on` is the stream's trade date. In a replayed recording that
    is in the past, so a one-digit year (ESZ6) may mean another contract.
    """
    if meant is None or meant == actual:
        return True
    try:
        return on is not None and universe.resolve(symbol, on, history=True).contract == actual
    except UnknownName:
        return False


def utc_date(now_ns: int) -> date:
    """Return the UTC date of a timestamp."""
    return datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
