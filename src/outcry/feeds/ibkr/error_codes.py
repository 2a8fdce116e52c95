"""What Interactive Brokers says by its numbered messages, as errors of the feed port.

Rule kept: an account number or a host is in no error: texts are ours, with the vendor's number.
"""

from enum import Enum, auto

from outcry.trades.feed import FeedLost, FeedRefused

#: The link between TWS and Interactive Brokers, or to the servers of futures data, is broken; it is made again.
BROKEN = frozenset({1100, 2110})
#: It stands again: with what was asked for lost, or kept. What was traded meanwhile is not sent either way.
RESTORED = frozenset({1101, 1102})
#: A server of market data is out of reach, and is reached (again); which one is said after a colon.
FARM_BROKEN, FARM_WELL = 2103, 2104
#: Servers that have nothing of futures.
_OTHER_FARMS = ("usopt", "cashfarm", "euro", "jfarm", "hfarm", "secdef")
#: The number of this program is another's at the same TWS.
CLIENT_ID_TAKEN = 326
#: All tick-by-tick subscriptions the account has are in use.
NO_SUBSCRIPTION_FREE = frozenset({10190, 101})
#: The one number for everything that may be wrong with a request for history.
HISTORY_FAULT = 162

_NOT_ENTITLED = frozenset({354, 10089, 10090, 10168, 10186, 10187, 10189})
_ELSEWHERE = frozenset({10197})
_UNKNOWN = frozenset({200})
_TOO_FAST = frozenset({100, 420})
_UNREADABLE = frozenset({320, 503, 505, 506, 507})
_DISCONNECTED = frozenset({502, 504, 509, 1300, 10182})
#: History is being looked for; delayed data is shown; what was to be ended is not there any more.
_NOTICES = frozenset({165, 10167, 300, 366})


class ReplyKind(Enum):
    """What a message to a request is, where it is no error."""

    NOTICE = auto()
    NOTHING_THERE = auto()


def is_notice(code: int) -> bool:
    """Whether a message only tells something."""
    return 2100 <= code < 2200 or code in _NOTICES


def farm_of(text: str) -> str:
    """The server that a message about one names."""
    return text.rpartition(":")[2].strip()


def has_futures(farm: str) -> bool:
    """Whether a server of market data may have futures."""
    return not farm.startswith(_OTHER_FARMS)


def read_error(code: int, text: str) -> FeedLost | ReplyKind:
    """What a message to one of our requests says."""
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
    """What a message to no request in particular says of the whole connection; None if it says nothing of it."""
    if code in _TOO_FAST:
        return FeedLost("rate_limited", f"too many requests to TWS (message {code})")
    if code in _UNREADABLE:
        return FeedLost("protocol", f"TWS rejected a request (message {code})")
    if code in _DISCONNECTED:
        return FeedLost("disconnected", f"TWS is not connected to Interactive Brokers (message {code})")
    return None


def _history_fault(text: str) -> FeedLost | ReplyKind:
    if "no data" in text:
        return ReplyKind.NOTHING_THERE
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
