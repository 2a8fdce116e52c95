"""Converts an alert of a live session to the row in which the alert is stored and sent."""

from outcry.live.model import PRICE_PARAMS, AlertRow, StreamKey
from outcry.market.alerts.machine import Fired
from outcry.market.ladder import letter
from outcry.market.opening import Opening

#: Edition of the rules in `docs/reference/alerts.md`.
RULE = "v2"


def alert_row(key: StreamKey, tick_e9: int, opening: Opening, fired: Fired, *, simulated: bool) -> AlertRow:
    """Return the row of an alert, with its key, and with prices in units of 10⁻⁹."""
    measured = {
        name: value * tick_e9 if name in PRICE_PARAMS and isinstance(value, int) else value
        for name, value in fired.params.items()
    }
    common = {
        "tick": tick_e9, "rowTicks": 1, "vaSource": "prior", "sessionDate": str(opening.trade_date),
        "contract": opening.contract, "bracket": letter(fired.bracket), "rule": RULE,
    }  # fmt: skip
    return AlertRow(
        owner=key.owner, feed=key.feed, contract=opening.contract, symbol=opening.root, type=fired.type,
        severity=fired.type.severity, session=opening.kind, trade_date=opening.trade_date,
        key=f"{opening.root}:{fired.type}:{fired.key_ms}", at_ns=fired.at_ns,
        price_e9=fired.price_ticks * tick_e9, ref=fired.ref, params=common | measured, invented=simulated,
    )  # fmt: skip
