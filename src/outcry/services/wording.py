"""Sentences for people about alerts and the state of feeds: plain facts, never advice.

Rule kept: wording is no contract; what a program needs stands beside it in fields of its own.
"""

from collections.abc import Callable

from outcry.core.structure.machine import AlertType
from outcry.core.units import price_text
from outcry.ports.live import AlertRow

#: Why an answer is live or not: the stable codes, and a sentence for each.
STATES: dict[str, str] = {
    "live": "The session is open and its feed is connected and up to date.",
    "no_connection": "No live feed of this product is connected for this key.",
    "connecting": "The feed is being connected.",
    "catching_up": "The feed is sending the session so far.",
    "stale_link": "The feed has sent nothing for too long.",
    "stale_market": "The feed is connected, but its market data has stopped.",
    "unsubscribed": "The feed does not send this contract.",
    "disconnected": "The connection to the feed is lost.",
    "closed": "The session is closed.",
    "no_trades": "Nothing has traded yet in the session now open.",
    "no_prior": "No regular session of this contract has completed yet, so there are no prior levels.",
    "incomplete": "The feed could not get the trades from the beginning of this session. "
    "Live answers resume with the next session.",
    "degraded": "What the feed sends cannot be one auction; levels begin anew with the next session.",
    "log_stalled": "The service cannot write to its disk at the moment; live answers resume by themselves.",
    "ended": "The feed has come to its end.",
    "not_front": "The feed brings this contract, which is not the front one.",
    "login_refused": "The vendor does not accept what was entered to sign in.",
    "login_expired": "The sign-in with the vendor has ended.",
    "not_entitled": "The account at the vendor has no real-time data of this contract.",
    "unknown_contract": "The vendor has no contract of this name.",
    "too_many_sessions": "The account is in use by too many programs at once.",
    "not_allowed": "The vendor forbids this connection to the account, or from this place.",
    "wrong_entry": "The vendor cannot use one of the entries of the connection.",
}


def state_text(code: str) -> str:
    """The sentence of a code; other codes are a feed's own, for why it will not have us."""
    return STATES.get(code) or f"The feed refuses to be read ({code})."


def message(row: AlertRow) -> str:
    """What happened, in one English sentence; of an invented market, with a word that says so."""
    return _MESSAGES[row.type](row) + (" (Invented data.)" if row.invented else "")


def _price(row: AlertRow) -> str:
    return price_text(row.price_e9)


def _traded(row: AlertRow) -> str:
    """Where price met the level: at a trade, or within a bar, whose close may be somewhere else."""
    if row.params.get("observed") == "bar":
        return f"{row.symbol} reached{_level(row, 'reached')} within a bar"
    return f"{row.symbol} traded at {_price(row)}"


def _made(row: AlertRow) -> str:
    """The day a level was made, and its price; alerts of older versions do not name that."""
    level = _level(row, "level")
    return f"{row.ref} ({level.strip()})" if level else row.ref


def _level(row: AlertRow, name: str) -> str:
    """A price among the parameters, with a blank before it; nothing where it is not there."""
    found = row.params.get(name)
    return f" {price_text(found)}" if isinstance(found, int) else ""


def _test(side: str, name: str) -> Callable[[AlertRow], str]:
    def said(row: AlertRow) -> str:
        edge = f"the {side} edge of prior value ({row.ref}{_level(row, name)})"
        return f"{_traded(row)}, at {edge}."

    return said


def _reject(side: str, name: str) -> Callable[[AlertRow], str]:
    def said(row: AlertRow) -> str:
        reached = _level(row, "probeExtreme")
        went = f" as far as{reached}" if reached else ""
        return (
            f"{row.symbol} traded {side} prior value ({row.ref}{_level(row, name)}){went} and a five-minute bar "
            f"closed back inside it, at {_price(row)}."
        )

    return said


def _accept(side: str, name: str) -> Callable[[AlertRow], str]:
    def said(row: AlertRow) -> str:
        return (
            f"{row.symbol} closed two half-hours in a row {side} prior value ({row.ref}{_level(row, name)}), "
            f"the second at {_price(row)}."
        )

    return said


def _break(side: str, name: str) -> Callable[[AlertRow], str]:
    def said(row: AlertRow) -> str:
        both = "; both sides have been broken" if row.params.get("otherSideBroken") is True else ""
        return f"{_traded(row)}, {side} the initial balance ({row.ref}{_level(row, name)}){both}."

    return said


def _naked(row: AlertRow) -> str:
    return f"{_traded(row)}, the point of control of {row.ref}, untouched since."


def _poor(side: str) -> Callable[[AlertRow], str]:
    def said(row: AlertRow) -> str:
        where = "beyond" if row.params.get("event") == "repaired" else "near"
        return f"{_traded(row)}, {where} the unfinished {side} of {_made(row)}."

    return said


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
