"""Determines from when on a new stream needs history.

History covers the current or next session, and the whole overnight session before it, across maintenance breaks and
weekends. It also covers the newest regular sessions that the store lacks, with their overnight sessions. API responses
then refer to the same sessions as if the feed had always run.
"""

from collections.abc import Awaitable, Callable
from datetime import date, timedelta

from outcry.live.model import StreamKey
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.opening import Opening
from outcry.market.windows import LONGEST_CLOSURE_DAYS

#: Creates the opening of a session; the last argument is the overnight range (high, low) of the stream's own trades.
Openings = Callable[[StreamKey, Session, tuple[int, int] | None], Awaitable[Opening]]

#: Most regular sessions requested from a feed, one week. `outcry import` and `outcry fetch` load more.
MOST_SESSIONS = 5
#: Calendar days that contain that many regular sessions, even around the longest closure.
_LOOK_BACK = timedelta(days=2 * MOST_SESSIONS + LONGEST_CLOSURE_DAYS)


def session_begin_ns(calendar: Calendar, session: Session) -> int:
    """Return when a session opens (ns UTC). For a regular session it is when the overnight session before it opens."""
    night = calendar.session(session.root, session.trade_date, SessionKind.ETH)
    return min(session.open_ns, night.open_ns) if night else session.open_ns


def answered_begin_ns(calendar: Calendar, root: str, now_ns: int) -> int:
    """Return when the current or next session, with its overnight session, starts (ns UTC); 0 if there is none."""
    session = calendar.session_or_next(root, now_ns)
    return session_begin_ns(calendar, session) if session else 0


def history_begin_ns(calendar: Calendar, root: str, now_ns: int, newest: date | None) -> int:
    """Return from when on (ns UTC, not after `now_ns`) to request history of a feed.

    newest: trade date of the newest complete regular session in the store. None: no session is stored; history then
    starts with the last regular session that is over.
    """
    session = calendar.session_or_next(root, now_ns)
    if session is None:
        return now_ns
    around = calendar.sessions(root, session.trade_date - _LOOK_BACK, session.trade_date)
    over = [one for one in around if one.kind is SessionKind.RTH and one.close_ns <= now_ns]
    missing = [one for one in over[-MOST_SESSIONS:] if newest is None or one.trade_date > newest]
    if newest is None:
        missing = missing[-1:]
    return min([now_ns, *(session_begin_ns(calendar, one) for one in (*missing, session))])


async def begin_ns(calendar: Calendar, openings: Openings, key: StreamKey, now_ns: int) -> int:
    """Return from when on (ns UTC) a new stream needs history, given the sessions stored for its owner."""
    root = key.contract.root
    session = calendar.session_or_next(root, now_ns)
    prior = (await openings(key, session, None)).prior if session else None
    return history_begin_ns(calendar, root, now_ns, prior.trade_date if prior else None)
