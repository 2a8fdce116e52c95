"""Decides whether a session is complete: whether usual trading activity explains every gap without trades.

The same function judges recordings of all files and feeds, by the minutes in which the contract traded. A gap is a hole
if it is too long for how often the product usually trades at that hour of the week (decision 0035).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from math import log
from statistics import median
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from outcry.market.calendar import Session, SessionKind
from outcry.market.instruments import Product
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.sessions.store_model import Activity, Traded
from outcry.trades.coverage import Span

#: A gap up to this length is never a hole, as a session completes five minutes after its close.
SHORTEST_HOLE_MINUTES = 5
#: A gap is a hole if its probability is below e⁻¹⁵ (one in three million), with independent minutes.
_LIMIT = 15.0
#: Upper limit of the usual share of minutes with a trade; with it a hole begins after five minutes.
_BUSIEST = 0.95
#: The front contract trades in at least this part of its usual minutes, even on a quiet day.
_QUIETEST_FRONT = 0.15
#: Without recorded sessions of the same hours, a regular session shows by itself how often its product trades: in at
#: least this part of the share of minutes that it has in its median hour.
_OWN_SHARE = 0.5
#: Sessions of this many days count as recent; the default counts as one further hour.
RECENT = timedelta(days=56)
_DEFAULT_MINUTES = 60
_HOURS_PER_WEEK = 7 * 24
_DAY_HOURS = range(2, 17)  # in the product's time zone, outside regular hours; the rest is night

Minutes = NDArray[np.int64]


class Usual:
    """How often a product trades at each hour of the week, by its recent sessions and its default activity."""

    def __init__(self, product: Product, session: Session, recorded: Iterable[Traded]) -> None:
        self._product, self._kind = product, session.kind
        self._seen = recent_activity(recorded, session.kind, session.trade_date)

    def knows(self, activity: Activity) -> bool:
        """Return whether recent sessions have any of a session's hours of the week."""
        return any(hour in self._seen for hour, _, _ in activity)

    def share(self, hour: int) -> float:
        """Return the usual share of minutes with a trade at an hour of the week.

        If several contracts traded on a day, only the one that traded most counts.
        """
        regular, day, night = self._product.activity
        outside = day if hour % 24 in _DAY_HOURS else night
        default = (regular if self._kind is SessionKind.RTH else outside) / 100
        traded, opened = self._seen.get(hour, (0, 0))
        return (traded + default * _DEFAULT_MINUTES) / (opened + _DEFAULT_MINUTES)


def recent_activity(
    recorded: Iterable[Traded], kind: SessionKind, trade_date: date
) -> dict[int, tuple[int, int]]:
    """Return the minutes with a trade, and the open minutes, of recent sessions by hour of the week.

    Recent sessions are those of `kind` in the 56 days before `trade_date`. Of a day with several contracts, only the
    busiest counts.
    """
    busiest: dict[date, Traded] = {}
    for one in recorded:
        if one.kind is kind and trade_date - RECENT <= one.trade_date < trade_date:
            known = busiest.get(one.trade_date)
            if known is None or (one.volume, one.contract) > (known.volume, known.contract):
                busiest[one.trade_date] = one
    seen: dict[int, tuple[int, int]] = {}
    for one in busiest.values():
        for hour, traded, opened in one.activity:
            before = seen.get(hour, (0, 0))
            seen[hour] = before[0] + traded, before[1] + opened
    return seen


def has_no_gap(activity: Activity) -> bool:
    """Return whether no gap in a session can be long enough for a hole, whatever activity is usual.

    A gap that may be a hole has more than `SHORTEST_HOLE_MINUTES` minutes, all of them in one hour, in two consecutive
    hours, or around an hour without any trade.
    """
    idle = {hour: opened - traded for hour, traded, opened in activity}
    return all(
        minutes + idle.get((hour + 1) % _HOURS_PER_WEEK, 0) <= SHORTEST_HOLE_MINUTES
        for hour, minutes in idle.items()
    )


def activity_of(minutes: Minutes, session: Session, zone: str) -> Activity:
    """Return for each hour of a session how many of its minutes had a trade, and how many minutes it had.

    minutes: minutes since 1970 with a trade, ascending, unique. Hours are hours of the week.
    """
    found: dict[int, tuple[int, int]] = {}
    for opened, closed in _in_minutes(session):
        for hour, first, last in _hours(opened, closed, zone):
            traded = int(np.searchsorted(minutes, last) - np.searchsorted(minutes, first))
            before = found.get(hour, (0, 0))
            found[hour] = before[0] + traded, before[1] + last - first
    return tuple((hour, traded, opened) for hour, (traded, opened) in sorted(found.items()))


def unexplained(
    minutes: Minutes, session: Session, product: Product, usual: Usual, *, front: bool, uncovered: Sequence[Span] = (),
) -> list[Span]:  # fmt: skip
    """Return the gaps (half-open, ns UTC, in order) that usual activity does not explain.

    minutes: as in `activity_of`. front: whether the session is of the front contract. For another contract, the
    activity of its own session also counts as usual. uncovered: times that no file or feed covers. There only the front
    contract's usual activity counts, even if the session was quiet.
    """
    level = _level(activity_of(minutes, session, product.zone), usual, session.kind, front=front)
    holes: list[Span] = []
    for first, last in _gaps(minutes, session):
        span = first * NANOS_PER_MINUTE, last * NANOS_PER_MINUTE
        outside = front and any(start < span[1] and span[0] < end for start, end in uncovered)
        if _surprise(first, last, product.zone, usual, max(1.0, level) if outside else level) > _LIMIT:
            holes.append(span)
    return holes


def _gaps(minutes: Minutes, session: Session) -> Iterator[tuple[int, int]]:
    """Yield the stretches of minutes without trades that are long enough to count as a hole."""
    for opened, closed in _in_minutes(session):
        inside = minutes[np.searchsorted(minutes, opened) : np.searchsorted(minutes, closed)]
        edges = np.concatenate([[opened - 1], inside, [closed]])
        for at in np.flatnonzero(np.diff(edges) > SHORTEST_HOLE_MINUTES + 1):
            yield int(edges[at]) + 1, int(edges[at + 1])


def _level(activity: Activity, usual: Usual, kind: SessionKind, *, front: bool) -> float:
    """Return the session's activity as a share of the usual activity, at most 1.

    It is the median over the hours with trades. Hours without trades do not count, because they may be a hole. If no
    recent session has these hours, the usual activity is a low default. Then a regular session that trades far more
    often has a level above 1.
    """
    shares = [traded / (opened * usual.share(hour)) for hour, traded, opened in activity if traded]
    level = min(1.0, median(shares)) if shares else 1.0
    if shares and kind is SessionKind.RTH and not usual.knows(activity):
        level = max(level, _OWN_SHARE * median(shares))
    return max(level, _QUIETEST_FRONT) if front else level


def _surprise(first: int, last: int, zone: str, usual: Usual, level: float) -> float:
    """Return −ln of the probability that nothing trades from minute `first` to `last` (excluded)."""
    return sum(
        -log(1 - min(_BUSIEST, level * usual.share(hour))) * (end - start)
        for hour, start, end in _hours(first, last, zone)
    )


def _in_minutes(session: Session) -> list[tuple[int, int]]:
    return [
        (opened // NANOS_PER_MINUTE, -(-closed // NANOS_PER_MINUTE)) for opened, closed in session.segments
    ]


def _hours(first: int, last: int, zone: str) -> list[tuple[int, int, int]]:
    """Split the minutes from `first` to `last` (excluded) by hour: `(hour of the week, first, last)`."""
    found: list[tuple[int, int, int]] = []
    for hour in range(first // 60, -(-last // 60)):
        local = datetime.fromtimestamp(hour * 3600, UTC).astimezone(ZoneInfo(zone))
        found.append((local.weekday() * 24 + local.hour, max(first, hour * 60), min(last, hour * 60 + 60)))
    return found


def hole_text(hole: Span, zone: str) -> str:
    """Format a hole (a gap without trades) in the product's time zone: `2013-10-10 11:00 to 16:15 America/New_York`."""
    first, last = (datetime.fromtimestamp(at // NANOS_PER_SECOND, ZoneInfo(zone)) for at in hole)
    end = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{first:%Y-%m-%d %H:%M} to {end} {zone}"


def by_minute(rows_ns: Sequence[NDArray[np.int64]]) -> Minutes:
    """Return the minutes (since 1970) that contain rows, ascending and unique."""
    if not rows_ns:
        return np.zeros(0, np.int64)
    return np.unique(np.concatenate(rows_ns))


def traded_minutes(at_ns: NDArray[np.int64]) -> Minutes:
    """Return the minutes (since 1970) in which ascending times (ns UTC) lie, ascending and unique.

    It looks up each minute of a session, because that costs far less than sorting all rows.
    """
    if not len(at_ns):
        return np.zeros(0, np.int64)
    minutes = np.arange(at_ns[0] // NANOS_PER_MINUTE, at_ns[-1] // NANOS_PER_MINUTE + 1)
    begins = np.searchsorted(at_ns, minutes * NANOS_PER_MINUTE)
    return minutes[np.diff(begins, append=len(at_ns)) > 0]
