"""The hours that platforms count, as windows of one trade date."""

from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.matching.setting import DAY, VARIANT, ZONE, hours_cost
from outcry.market.units import NANOS_PER_SECOND
from outcry.market.windows import EPOCH, Segment

#: Time zones in which charts and sessions are often set: of exchanges, their users, and files without a zone.
ZONES = ("UTC", "America/New_York", "America/Chicago", "Europe/London", "Europe/Berlin")


def choices(calendar: Calendar, root: str, day: date) -> dict[str, tuple[Segment, ...]]:
    """Return the hours of a trade date by name, most usual first, as half-open windows (ns UTC), ascending.

    Empty if the date has no regular session. Names: `rth` (regular hours), `rth:NAME` (another set of them), `full`
    (overnight and regular session, divided at the regular open), `trade_date` (all trading of the exchange's trade
    date), `overnight`, `day@ZONE` (the calendar day in a zone), `rth@ZONE` (the clock times of the regular hours, read
    in another zone). Raises `KeyError` for an unknown root.
    """
    regular = calendar.session(root, day, SessionKind.RTH)
    if regular is None:
        return {}
    found = {"rth": regular.segments}
    for variant in calendar.variants(root):
        if other := calendar.session(root, day, SessionKind.RTH, variant=variant):
            found[f"{VARIANT}{variant or 'default'}"] = other.segments
    overnight = calendar.session(root, day, SessionKind.ETH)
    if overnight is not None:
        found["full"] = (*overnight.segments, *regular.segments)
        found["overnight"] = overnight.segments
    for trading in calendar.trading_days(root, day, day):
        found["trade_date"] = trading.segments
    own = calendar.hours.zone(root)
    for zone in ZONES:
        found[f"{DAY}{zone}"] = (_calendar_day(day, ZoneInfo(zone)),)
        found[f"{ZONE}{zone}"] = tuple(_moved(segment, own, ZoneInfo(zone)) for segment in regular.segments)
    ordered = sorted(found.items(), key=lambda item: hours_cost(item[0]))
    unique = {segments: name for name, segments in reversed(ordered)}
    return {name: segments for name, segments in ordered if unique[segments] == name}


def _calendar_day(day: date, zone: ZoneInfo) -> Segment:
    return _at(datetime.combine(day, time(), zone)), _at(
        datetime.combine(day + timedelta(days=1), time(), zone)
    )


def _moved(segment: Segment, own: ZoneInfo, other: ZoneInfo) -> Segment:
    """Return the window with the same clock times in another zone."""
    start, end = (
        (EPOCH + timedelta(seconds=at_ns // NANOS_PER_SECOND)).astimezone(own).replace(tzinfo=other)
        for at_ns in segment
    )
    return _at(start), _at(end)


def _at(moment: datetime) -> int:
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * NANOS_PER_SECOND
