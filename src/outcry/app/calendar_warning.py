"""Warns the operator a year before the known holidays of a calendar end."""

from datetime import UTC, datetime

from outcry.base.log_events import EventLog, LogEvent
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.reference_tables import Reference


def warn_of_ending_holidays(event_log: EventLog, reference: Reference, now_ns: int) -> None:
    """Log each calendar whose known holidays end less than a year after a time (ns UTC), or have ended."""
    today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
    for calendar, last in reference.calendar.hours.holidays_ending(today).items():
        event_log.warning(LogEvent.HOLIDAYS_ENDING, calendar=calendar, last=str(last))
