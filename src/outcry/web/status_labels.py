"""The live status of a symbol as a label, an icon and a reason.

The labels are live, delayed, stale, closed, connecting, error and none. Every status has a reason and a link to what
the user can do. An unknown code is the reason for which a feed refused a symbol, and gets the label error.
"""

from dataclasses import dataclass
from datetime import date
from typing import Literal

from outcry.answers.selection import utc_date
from outcry.base.http_dates import date_text
from outcry.web.language import Words
from outcry.web.number_format import age_text, instant_ns, opening_text

Kind = Literal["live", "delayed", "stale", "closed", "connecting", "error", "none"]
#: In counting and sorting order.
KINDS: tuple[Kind, ...] = ("live", "delayed", "stale", "closed", "connecting", "error", "none")

#: For each code: kind, label, reason and link.
_CODES: dict[str, tuple[Kind, str, str, str]] = {
    "live": ("live", "Live", "The session is open. The feed is connected and up to date.", "/broker-guide"),
    "no_connection": (
        "delayed", "Delayed", "You have no live feed for this symbol. Connect your broker.", "/account/brokers",
    ),
    "not_front": ("delayed", "Delayed", "Your feed delivers a different contract month.", "/broker-guide"),
    "no_prior": (
        "delayed", "Delayed", "No regular session of this contract has completed yet, so there are no prior levels.",
        "/broker-guide",
    ),
    "incomplete": (
        "delayed", "Incomplete",
        "The feed could not load the trades from the start of this session. Live data resumes with the next session.",
        "/broker-guide",
    ),
    "stale_link": ("stale", "Stale", "The feed has sent no data or heartbeat for 15 seconds.", "/broker-guide"),
    "stale_market": ("stale", "Stale", "The feed is connected, but sends no market data.", "/broker-guide"),
    "closed": ("closed", "Closed", "The market is closed.", "/broker-guide"),
    "ended": ("closed", "Ended", "The replay has finished.", "/broker-guide"),
    "connecting": ("connecting", "Connecting", "Connecting to the feed.", "/account/brokers"),
    "catching_up": (
        "connecting", "Catching up", "The feed is loading the earlier trades of this session.", "/broker-guide",
    ),
    "no_trades": ("connecting", "Waiting", "The session is open, but nothing has traded yet.", "/broker-guide"),
    "disconnected": ("error", "Disconnected", "The feed is disconnected. Reconnecting…", "/account/brokers"),
    "unsubscribed": ("error", "Not subscribed", "The feed does not deliver this contract.", "/broker-guide"),
    "degraded": (
        "error", "Degraded", "The feed's prices are inconsistent. Levels start over with the next session.",
        "/broker-guide",
    ),
    "log_stalled": (
        "stale", "Paused", "The service cannot write to its disk. Live data resumes as soon as it can.",
        "/broker-guide",
    ),
    "login_refused": (
        "error", "Refused", "The vendor rejected the credentials.", "/account/brokers",
    ),
    "login_expired": ("error", "Refused", "The vendor sign-in has expired.", "/account/brokers"),
    "not_entitled": (
        "error", "Refused", "The vendor account has no real-time data for this contract.", "/account/brokers",
    ),
    "unknown_contract": ("error", "Refused", "The vendor does not know this contract.", "/account/brokers"),
    "too_many_sessions": (
        "error", "Refused", "Too many programs are using the account at once.", "/account/brokers",
    ),
    "not_allowed": (
        "error", "Refused", "The vendor does not allow this connection for this account or location.",
        "/account/brokers",
    ),
    "wrong_entry": (
        "error", "Refused", "The vendor rejected one of the connection's settings.", "/account/brokers",
    ),
}  # fmt: skip
_REFUSED: tuple[Kind, str, str, str] = (
    "error",
    "Error",
    "The feed refused the connection.",
    "/account/brokers",
)
_NOTHING: tuple[Kind, str, str, str] = (
    "none", "No data", "No data: connect a feed or ask for access.", "/broker-guide",
)  # fmt: skip
#: Labels of the status counts and filters.
NAMES: dict[Kind, str] = {
    "live": "live", "delayed": "delayed", "stale": "stale", "closed": "closed", "connecting": "connecting",
    "error": "with errors", "none": "no data",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatusLabel:
    """The status of a symbol as a page shows it.

    `code`: the code in the API response. `since`: time of the newest event, shown as an age. `note`: shown instead of
    the age: the date of a completed session, or when a session opens. Both may be empty.
    """

    code: str
    kind: Kind
    word: str
    reason: str
    href: str
    since: str = ""
    age: str = ""
    note: str = ""


def status_label(
    words: Words, code: str, *, updated_at: str | None = None, as_of: str | None = None, now_ns: int | None = None,
    opens_ns: int | None = None, zone: str = "UTC", held: bool = True,
) -> StatusLabel:  # fmt: skip
    """Return the status label of a symbol.

    updated_at: time of its newest event. as_of: trade date of the session shown. opens_ns: when a closed market opens
    (ns UTC), shown in the time zone `zone`. held: whether there is any data to show.
    """
    kind, word, reason, href = _CODES.get(code, _REFUSED) if held else _NOTHING
    note = ""
    if kind == "closed" and opens_ns is not None:
        opens = opening_text(opens_ns, opens_ns if now_ns is None else now_ns, zone, words.language)
        note = words("opens %(time)s", time=opens)
    elif kind == "delayed" and as_of:
        year = None if now_ns is None else utc_date(now_ns).year
        note = date_text(date.fromisoformat(as_of), words.language, year=year)
    if kind == "connecting":  # the catch-up position is not the age of an answer
        updated_at = None
    age = age_text(now_ns - instant_ns(updated_at)) if updated_at and now_ns is not None else ""
    shown = words(reason) if code in _CODES or not held else f"{words(reason)} ({code})"
    return StatusLabel(code, kind, words(word), shown, href, updated_at or "", age, note)
