"""English sentences about alerts and stream states.

The wording may change in any version: programs should read the fields beside it. The texts give no advice.
"""

from collections.abc import Callable

from outcry.live.model import AlertRow
from outcry.market.alerts.machine import AlertType
from outcry.market.units import price_text

#: Sentence for each stable state code: why an answer is live or not.
STATES: dict[str, str] = {
    "live": "The session is open and its feed is connected and up to date.",
    "no_connection": "No live feed of this product is connected for this key.",
    "connecting": "The feed is being connected.",
    "catching_up": "The feed is sending the earlier trades of this session.",
    "stale_link": "The feed has stopped sending: no data and no heartbeats received.",
    "stale_market": "The feed is connected, but sends no market data.",
    "unsubscribed": "The feed does not send this contract.",
    "disconnected": "The connection to the feed is lost; reconnecting.",
    "closed": "The session is closed.",
    "no_trades": "The open session has no trades yet.",
    "no_prior": "No regular session of this contract has completed yet, so there are no prior levels.",
    "incomplete": "The feed could not load the trades from the start of this session. "
    "Live answers resume with the next session.",
    "degraded": "The feed sent prices or volumes that are not plausible for one session. "
    "Live answers resume with the next session.",
    "log_stalled": "The server cannot write to its disk. Live answers resume automatically when it can.",
    "ended": "The feed has ended.",
    "not_front": "This contract is not the front contract.",
    "login_refused": "The vendor rejected the credentials. Check them at /account/brokers.",
    "login_expired": "The login with the vendor has expired. Sign in again at /account/brokers.",
    "not_entitled": "The vendor account has no real-time data for this contract. Subscribe to it with the vendor.",
    "unknown_contract": "The vendor does not offer this contract.",
    "too_many_sessions": "The vendor account has too many open sessions. Close another program that uses it.",
    "not_allowed": "The vendor does not allow this account to connect from this server.",
    "wrong_entry": "The vendor rejected one of the connection settings. Check them at /account/brokers.",
}


def state_text(code: str) -> str:
    """Return the sentence for a state code; an unknown code is one with which a feed refused the connection."""
    return STATES.get(code) or f"The feed refused the connection ({code})."


def message(row: AlertRow) -> str:
    """Return an alert as one English sentence, marked if the market is simulated."""
    return _MESSAGES[row.type](row) + (" (Simulated data.)" if row.invented else "")


def _price(row: AlertRow) -> str:
    return price_text(row.price_e9)


def _traded(row: AlertRow) -> str:
    """Return where price met the level, in words: at a trade, or within a bar that may have closed elsewhere."""
    if row.params.get("observed") == "bar":
        return f"{row.symbol} reached{_level(row, 'reached')} within a bar"
    return f"{row.symbol} traded at {_price(row)}"


def _made(row: AlertRow) -> str:
    """Return the date of a level and, unless an older version recorded the alert, its price."""
    level = _level(row, "level")
    return f"{row.ref} ({level.strip()})" if level else row.ref


def _level(row: AlertRow, name: str) -> str:
    """Return a price parameter with a leading space, or an empty string if it is missing."""
    found = row.params.get(name)
    return f" {price_text(found)}" if isinstance(found, int) else ""


def _test(side: str, name: str) -> Callable[[AlertRow], str]:
    def sentence(row: AlertRow) -> str:
        edge = f"the {side} edge of the prior value area ({row.ref}{_level(row, name)})"
        return f"{_traded(row)}, at {edge}."

    return sentence


def _reject(side: str, name: str) -> Callable[[AlertRow], str]:
    def sentence(row: AlertRow) -> str:
        reached = _level(row, "probeExtreme")
        went = f"reached{reached}, {side}" if reached else f"traded {side}"
        return (
            f"{row.symbol} {went} the prior value area ({row.ref}{_level(row, name)}). "
            f"A 5-minute bar then closed back inside at {_price(row)}."
        )

    return sentence


def _accept(side: str, name: str) -> Callable[[AlertRow], str]:
    def sentence(row: AlertRow) -> str:
        return (
            f"{row.symbol} had two consecutive 30-minute closes {side} the prior value area "
            f"({row.ref}{_level(row, name)}), the second at {_price(row)}."
        )

    return sentence


def _break(side: str, name: str) -> Callable[[AlertRow], str]:
    def sentence(row: AlertRow) -> str:
        both = "; both sides are broken" if row.params.get("otherSideBroken") is True else ""
        return f"{_traded(row)}, {side} the initial balance ({row.ref}{_level(row, name)}){both}."

    return sentence


def _naked(row: AlertRow) -> str:
    return f"{_traded(row)}, the previously untouched POC of {row.ref}."


def _poor(side: str) -> Callable[[AlertRow], str]:
    def sentence(row: AlertRow) -> str:
        beyond = "above" if side == "high" else "below"
        where = beyond if row.params.get("event") == "repaired" else "near"
        return f"{_traded(row)}, {where} the poor {side} of {_made(row)}."

    return sentence


_MESSAGES: dict[AlertType, Callable[[AlertRow], str]] = {
    AlertType.IB_BREAK_UP: _break("above", "ibHigh"),
    AlertType.IB_BREAK_DOWN: _break("below", "ibLow"),
    AlertType.VA_REJECT_HIGH: _reject("above", "vah"),
    AlertType.VA_REJECT_LOW: _reject("below", "val"),
    AlertType.VA_ACCEPT_ABOVE: _accept("above", "vah"),
    AlertType.VA_ACCEPT_BELOW: _accept("below", "val"),
    AlertType.NAKED_POC: _naked,
    AlertType.VA_TEST_HIGH: _test("upper", "vah"),
    AlertType.VA_TEST_LOW: _test("lower", "val"),
    AlertType.POOR_HIGH: _poor("high"),
    AlertType.POOR_LOW: _poor("low"),
}
