"""When a digest's window ends, by its reader's clock on the wall.

Rules kept: a window always ends, whatever is done to the clock in it: an hour that does not exist ends it as the clock
jumps over that hour, one that comes twice ends it when it comes first.
"""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outcry.delivery.model import Window
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

_STEPS_NS = {"quarter": 15 * NANOS_PER_MINUTE, "hour": NANOS_PER_HOUR}
_MICROSECOND = timedelta(microseconds=1)


def window_end_ns(window: Window, since_ns: int, time_zone: str, digest_hour: int) -> int:
    """The end, after `since_ns`, of the window that it falls in: the next quarter of an hour or full hour that the
    reader's clock shows, or the next time it shows the digest hour."""
    zone = zone_of(time_zone)
    if window == "day":
        return _next_digest_ns(since_ns, zone, digest_hour)
    # The clock as it went at the time of the entry: zones set theirs at full hours of the old time, so that a window
    # that a change lies in ends with it.
    step_ns, ahead_ns = _STEPS_NS[window], _ahead_ns(since_ns, zone)
    return ((since_ns + ahead_ns) // step_ns + 1) * step_ns - ahead_ns


def zone_of(time_zone: str) -> ZoneInfo:
    """The zone of a name; UTC where this machine does not know the name any more, for mail has to go out."""
    try:
        return ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def _next_digest_ns(since_ns: int, zone: ZoneInfo, digest_hour: int) -> int:
    today = _instant(since_ns).astimezone(zone).date()
    # Where the clock is set back over midnight, tomorrow's hour may have been already.
    days = (today + timedelta(days=ahead) for ahead in range(3))
    return next(
        end_ns
        for day in days
        if (end_ns := _first_ns(datetime.combine(day, time(digest_hour), zone))) > since_ns
    )


def _first_ns(wall: datetime) -> int:
    """When a clock first shows a time, or, where it never does, when it jumps over it."""
    before, after = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    shown = wall.replace(tzinfo=UTC)
    if before >= after:  # it is shown once, or twice: then first by the time before the change
        return _ns(shown - before)
    # By PEP 495 a time that does not exist has both offsets, and the jump lies between the instants they give.
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
