"""Maps Interactive Brokers' message codes to the errors that feeds raise.

The error texts are ours and add only the vendor's code. So they contain no account number and no host.
"""

from enum import Enum, auto

from outcry.trades.feed import FeedLost, FeedRefused

#: TWS lost its connection to Interactive Brokers or to the futures data servers, and is reconnecting.
BROKEN = frozenset({1100, 2110})
#: TWS is connected again, with subscriptions lost or retained. In neither case does it send the trades made meanwhile.
RESTORED = frozenset({1101, 1102})
#: A market data server is unavailable, or available again. The text names it after a colon.
FARM_BROKEN, FARM_WELL = 2103, 2104
#: Prefixes of servers without futures.
_OTHER_FARMS = ("usopt", "cashfarm", "euro", "jfarm", "hfarm", "secdef")
#: Another program uses the client ID at the same TWS.
CLIENT_ID_TAKEN = 326
#: All tick-by-tick subscriptions of the account are in use.
NO_SUBSCRIPTION_FREE = frozenset({10190, 101})
#: The one code for every error of a history request.
HISTORY_FAULT = 162

_NOT_ENTITLED = frozenset({354, 10089, 10090, 10168, 10186, 10187, 10189})
_ELSEWHERE = frozenset({10197})
_UNKNOWN = frozenset({200})
_TOO_FAST = frozenset({100, 420})
_UNREADABLE = frozenset({320, 503, 505, 506, 507})
_DISCONNECTED = frozenset({502, 504, 509, 1300, 10182})
#: History is being loaded; delayed data is shown; the request to cancel no longer exists.
_NOTICES = frozenset({165, 10167, 300, 366})


class ReplyKind(Enum):
    """Meaning of a reply whose message code is not an error."""

    NOTICE = auto()
    NO_DATA = auto()


def is_notice(code: int) -> bool:
    """Return whether the code of a TWS message marks it as information, not as an error."""
    return 2100 <= code < 2200 or code in _NOTICES


def farm_of(text: str) -> str:
    """Return the name of the market data server (farm) in a message."""
    return text.rpartition(":")[2].strip()


def has_futures(farm: str) -> bool:
    """Return whether a market data server (farm) may serve futures."""
    return not farm.startswith(_OTHER_FARMS)


def read_error(code: int, text: str) -> FeedLost | ReplyKind:
    """Return the error for a reply to one of our requests; if the reply is no error, return the kind of reply."""
    if is_notice(code):
        return ReplyKind.NOTICE
    if code == HISTORY_FAULT:
        return _history_fault(text.lower())
    if code in _NOT_ENTITLED:
        return FeedRefused(
            "not_entitled", f"the account has no real-time data for this contract (message {code})"
        )
    if code in _ELSEWHERE:
        return _elsewhere(code)
    if code in _UNKNOWN:
        return FeedRefused(
            "unknown_contract", f"Interactive Brokers does not know this contract (message {code})"
        )
    return connection_error(code) or FeedLost("vendor_error", f"TWS reported error {code}")


def connection_error(code: int) -> FeedLost | None:
    """Return the error that a message about the whole connection reports; None for any other message."""
    if code in _TOO_FAST:
        return FeedLost("rate_limited", f"too many requests to TWS (message {code})")
    if code in _UNREADABLE:
        return FeedLost("protocol", f"TWS rejected a request (message {code})")
    if code in _DISCONNECTED:
        return FeedLost("disconnected", f"TWS is not connected to Interactive Brokers (message {code})")
    return None


def _history_fault(text: str) -> FeedLost | ReplyKind:
    if "no data" in text:
        return ReplyKind.NO_DATA
    if "pacing" in text:
        return FeedLost("rate_limited", "too many history requests to TWS (message 162)")
    if "different ip" in text:
        return _elsewhere(HISTORY_FAULT)
    if "permission" in text:
        return FeedRefused("not_entitled", "the account has no data for this contract (message 162)")
    return FeedLost("vendor_error", "TWS could not load history (message 162)")


def _elsewhere(code: int) -> FeedRefused:
    return FeedRefused(
        "too_many_sessions",
        f"the same user is signed in elsewhere and receives the data there (message {code})",
    )
