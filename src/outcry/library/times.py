"""Convert times of the user's data and arguments to ns UTC.

Columns named `ts`, `ts_event` or `…_utc` are in UTC if their times have no time zone. For other columns the user states
the zone, because a wrong guess would shift the session by hours.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from outcry.library.errors import InvalidInput
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.recordings.formats.time_format import EARLIEST_NS, LATEST_NS, epoch_unit

Column = NDArray[Any]
Ints = NDArray[np.int64]

#: Names of columns whose times are UTC and whose integers are ns.
UTC_NS_NAMES = ("ts", "ts_event")
#: Up to this many segments, comparing all times with each is faster than a search.
_FEW_SEGMENTS = 8
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - converts naive local times
#: Clocks change on a quarter of an hour, so all times within one have the same UTC offset.
_QUARTER_NS = 15 * NANOS_PER_MINUTE
#: Numpy's integer value of a missing datetime.
_NAT = np.iinfo(np.int64).min
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_ZONE_REMEDY = 'Add tz, for example tz="America/New_York" or tz="UTC".'
_ACCEPTED = "Give datetimes, ISO 8601 text or int64 ns UTC"


class Times(NamedTuple):
    """The user's column of times. `aware`: the column has a time zone, and `values` are in UTC already."""

    name: str
    values: Column
    aware: bool


def inside(at_ns: Ints, segments: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return which times are in one of the trading segments (ns UTC, half-open, ascending)."""
    if len(segments) > _FEW_SEGMENTS:
        edges = np.array(segments, np.int64).ravel()
        return np.searchsorted(edges, at_ns, side="right") % 2 == 1
    found = np.zeros(len(at_ns), bool)
    for start, end in segments:
        found |= (at_ns >= start) & (at_ns < end)
    return found


def zone_of(tz: str | tzinfo | None) -> tzinfo | None:
    """Return the time zone that the user named."""
    if tz is None or isinstance(tz, tzinfo):
        return tz
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise InvalidInput(
            f"Invalid tz {tz!r}", "Use an IANA name, for example America/New_York or UTC."
        ) from None


def times_of(times: Times, zone: tzinfo | None) -> Ints:
    """Return the times of the data in ns UTC. zone: the zone that the user stated for times without one."""
    name, values = times.name, times.values
    lower = name.lower()
    if lower.endswith("_utc") and zone not in (None, UTC) and str(zone) != "UTC":
        raise InvalidInput(
            f"The column name {name!r} says UTC, but tz is {zone}", "Omit tz, or rename the column."
        )
    if lower.endswith("_utc") or (zone is None and lower in UTC_NS_NAMES):
        zone = UTC
    if values.dtype.kind in "iu":
        return values.astype(np.int64, copy=False) if lower in UTC_NS_NAMES else _from_epoch(values, name)
    if values.dtype.kind == "M":
        at_ns = values.astype("datetime64[ns]", copy=False).view(np.int64)
        if len(at_ns) and at_ns.min() == _NAT:
            _refuse_missing(np.isnat(values), name)
        return at_ns if times.aware else _utc(at_ns, zone, name, np.arange(0))
    if values.dtype.kind in "OUT":
        return _from_objects(values, zone, name)
    if values.dtype.kind == "f":  # an integer column with a missing value becomes a float column
        _refuse_missing(np.isnan(values), name)
    raise InvalidInput(f"{name} has type {values.dtype}", f"{_ACCEPTED}.")


def _refuse_missing(missing: NDArray[np.bool_], name: str) -> None:
    if missing.any():
        raise _missing(int(missing.argmax()), name)


def _missing(row: int, name: str) -> InvalidInput:
    return InvalidInput(f"{name} is missing (NaT or null)", "Drop the row or give it a time.", row=row)


def _from_epoch(values: Column, name: str) -> Ints:
    """Convert s, ms, µs or ns since 1970. The first number's digits determine the unit, which all must share."""
    numbers = values.astype(np.int64, copy=False)
    unit = epoch_unit(int(numbers[0]))
    outside = (numbers < EARLIEST_NS // unit) | (numbers >= LATEST_NS // unit)
    if outside.any():
        row = int(outside.argmax())
        raise InvalidInput(
            f"{name} {numbers[row]} is not a time between 1980 and 2100 in the unit of the first row",
            "Give all times in the same unit: s, ms, µs or ns since 1970.", row=row,
        )  # fmt: skip
    return numbers * unit


def _from_objects(values: Column, zone: tzinfo | None, name: str) -> Ints:
    """Convert datetimes, ISO 8601 text and integers of an object column."""
    at_ns, naive = np.zeros(len(values), np.int64), np.zeros(len(values), bool)
    for row, value in enumerate(values):
        at_ns[row], naive[row] = _stamp(value, row, name)
    rows = np.flatnonzero(naive)
    if len(rows):
        at_ns[rows] = _utc(at_ns[rows], zone, name, rows)
    return at_ns


def _stamp(value: Any, row: int, name: str) -> tuple[int, bool]:
    """Return a time in ns, and whether it has no time zone."""
    if is_missing(value):
        raise _missing(row, name)
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[ns]").astype(np.int64)), True
    if isinstance(value, int | np.integer):
        return int(value), False
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidInput(
            f"{name} {str(value)!r} is not an ISO 8601 time",
            "Use a form such as 2013-10-08T13:30:00Z.",
            row=row,
        ) from None
    if not isinstance(at, datetime):
        raise InvalidInput(f"{name} is {value!r}", f"{_ACCEPTED}.", row=row)
    return since_epoch(at if at.tzinfo else at.replace(tzinfo=UTC)), at.tzinfo is None


def _utc(local_ns: Ints, zone: tzinfo | None, name: str, rows: Sequence[int] | NDArray[np.intp]) -> Ints:
    """Convert local times without a zone to UTC. rows: their rows in the data; empty if they are all rows."""

    def refused(at: int, problem: str, remedy: str) -> InvalidInput:
        shown = np.datetime64(int(local_ns[at]), "ns").astype("datetime64[ms]")
        return InvalidInput(f"{name} {shown} {problem}", remedy, row=int(rows[at]) if len(rows) else at)

    if zone is None:
        raise refused(0, "has no time zone", _ZONE_REMEDY)
    if zone is UTC or str(zone) == "UTC":
        return local_ns
    quarters, where = np.unique(local_ns // _QUARTER_NS, return_inverse=True)
    starts = [_EPOCH + timedelta(minutes=15) * quarter for quarter in quarters.tolist()]
    early, late = (
        np.array([_offset_ns(at.replace(tzinfo=zone, fold=fold)) for at in starts], np.int64)
        for fold in (0, 1)
    )
    odd = (early != late)[where]
    if odd.any():
        at = int(odd.argmax())
        if early[where[at]] > late[where[at]]:
            raise refused(at, f"occurs twice in {zone}, when clocks go back", "Give times with a UTC offset.")
        raise refused(at, f"does not exist in {zone}, because clocks go forward", "Correct the time or tz.")
    return local_ns - early[where]


def _offset_ns(at: datetime) -> int:
    return int((at.utcoffset() or timedelta()) / timedelta(microseconds=1)) * 1_000


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN and NaT are not equal to themselves
    except TypeError:  # pandas' NA cannot be converted to bool
        return True


def since_epoch(at: datetime) -> int:
    """Return an aware datetime as ns UTC, including the nanoseconds of a pandas Timestamp."""
    since = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    whole = (since.days * 86_400 + since.seconds) * NANOS_PER_SECOND + since.microseconds * 1_000
    return whole + getattr(at, "nanosecond", 0)


def time_text(at_ns: int) -> str:
    """Format a time (ns UTC) for a message or title."""
    return f"{np.datetime64(at_ns // NANOS_PER_SECOND, 's')}Z"


def span_text(first_ns: int, last_ns: int) -> str:
    """Format two times (ns UTC) for a message or title."""
    return f"{time_text(first_ns)} to {time_text(last_ns)}"


def instant_of(value: Any, name: str = "window") -> int:
    """Convert an instant that the user gave to ns UTC. A naive time is an error. name: of the argument."""
    forms = "Give aware datetimes, ISO strings with an offset, or int ns."
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, np.datetime64):
        raise InvalidInput(f"{name}: {value!r} (numpy datetime64) has no time zone", forms)
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        at = None
    if is_missing(at) or not isinstance(at, datetime):
        raise InvalidInput(f"{name}: {value!r} is not a time", forms)
    if at.tzinfo is None:
        raise InvalidInput(
            f"{name}: {value!r} has no time zone", "Add one, for example 2013-10-08T09:30-04:00."
        )
    return since_epoch(at)


def trade_date_of(day: Any) -> date:
    """Convert date types of notebooks to a date. A time of day is an error: its trade date depends on the exchange."""
    if isinstance(day, np.datetime64):
        day = str(day)
    if isinstance(day, str):
        try:
            day = datetime.fromisoformat(day)
        except ValueError:
            raise InvalidInput(f"Invalid date {day!r}: use the form 2013-10-08") from None
    if is_missing(day) or not isinstance(day, date):
        raise InvalidInput(f"Invalid date {day!r}: give a date, or text such as 2013-10-08")
    if isinstance(day, datetime):
        if day.time() != time() or getattr(day, "nanosecond", 0):
            raise InvalidInput(
                f"Invalid date {day}: it has a time of day", "Give only the trade date, such as 2013-10-08."
            )
        return day.date()
    return day


def edge_of(value: Any, name: str) -> date | int:
    """Convert one end of a range: a trade date, or an instant to ns UTC. name: of the argument."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        return trade_date_of(value)
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    if is_day or (isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "D"):
        return trade_date_of(value)
    return instant_of(value, name)
