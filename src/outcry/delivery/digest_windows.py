"""Ends of digest windows (the intervals for which alerts are collected into one email), in the reader's local time.

Every window has an end, also on a day with a time change. If the change skips the hour at which the window would end,
it ends at the change. If that hour occurs twice, the window ends at the first.
"""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outcry.delivery.model import Window
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

_STEPS_NS = {"quarter": 15 * NANOS_PER_MINUTE, "hour": NANOS_PER_HOUR}
_MICROSECOND = timedelta(microseconds=1)


def window_end_ns(window: Window, since_ns: int, time_zone: str, digest_hour: int) -> int:
    """Return the end of the window that contains `since_ns`, in ns UTC.

    Depending on `window`, it is the next quarter of an hour, the next full hour or the next digest hour (the hour of
    the day that the reader chose), all by the reader's clock.
    """
    zone = zone_of(time_zone)
    if window == "day":
        return _next_digest_ns(since_ns, zone, digest_hour)
    # Use the offset at the time of the entry. Zones change at full hours of the old offset, so a window that contains
    # a change ends with it.
    step_ns, ahead_ns = _STEPS_NS[window], _ahead_ns(since_ns, zone)
    return ((since_ns + ahead_ns) // step_ns + 1) * step_ns - ahead_ns


def zone_of(time_zone: str) -> ZoneInfo:
    """Return a time zone by name; UTC if this machine does not know the name, so that the email is sent anyway."""
    try:
        return ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def _next_digest_ns(since_ns: int, zone: ZoneInfo, digest_hour: int) -> int:
    today = _instant(since_ns).astimezone(zone).date()
    # If the clock is set back over midnight, tomorrow's hour may be in the past.
    days = (today + timedelta(days=ahead) for ahead in range(3))
    return next(
        end_ns
        for day in days
        if (end_ns := _first_ns(datetime.combine(day, time(digest_hour), zone))) > since_ns
    )


def _first_ns(wall: datetime) -> int:
    """Return when a local time first occurs, or when a time change skips it (ns UTC)."""
    before, after = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    shown = wall.replace(tzinfo=UTC)
    if before >= after:  # shown once or twice: the first is by the offset before the change
        return _ns(shown - before)
    # By PEP 495 a skipped time has both offsets, and the change lies between the two results.
    earlier, later = shown - after, shown - before
    while later - earlier > _MICROSECOND:
        middle = earlier + (later - earlier) // 2
        if middle.astimezone(wall.tzinfo).utcoffset() == before:
            earlier = middle
        else:
            later = middle
    return _ns(later)


def _ahead_ns(at_ns: int, zone: ZoneInfo) -> int:
    ahead = _instant(at_ns).astimezone(zone).utcoffset()
    assert ahead is not None
    return round(ahead.total_seconds()) * NANOS_PER_SECOND


def _instant(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC)


def _ns(at: datetime) -> int:
    return round(at.timestamp()) * NANOS_PER_SECOND
