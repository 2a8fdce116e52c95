"""Formats of timestamps in files."""

from enum import StrEnum

#: A time outside 1980 to 2100 has another unit.
EARLIEST_NS = 315_532_800 * 1_000_000_000
LATEST_NS = 4_102_444_800 * 1_000_000_000


class TimeFormat(StrEnum):
    """Format of a file's timestamps."""

    ISO = "iso"  # 2024-01-02 09:30:00[.123], without a zone
    ISO_ABSOLUTE = "iso with offset"  # …Z, …+00:00
    EPOCH = "epoch"  # whole seconds, ms, µs or ns since 1970
    US = "us"  # 01/02/2024 and 09:30[:00], the month first
    DAY_FIRST = "day first"  # 02.01.2024 or 02/01/2024 or 02-01-2024, and 09:30[:00]
    IB = "ib"  # 20240102 09:30[:00], one blank or two, optionally followed by a zone name
    COMPACT = "compact"  # 20240102 093000[ 1234567]
    TIMESTAMP = "timestamp"  # a typed column without a zone
    TIMESTAMP_ABSOLUTE = "timestamp with zone"
    MS_OF_DAY = "ms of day"  # LEAN: the date is in the file name

    @property
    def naive(self) -> bool:
        """Return whether timestamps of this format have no time zone, so that the file or the user must state one."""
        return self in (
            TimeFormat.ISO,
            TimeFormat.US,
            TimeFormat.DAY_FIRST,
            TimeFormat.IB,
            TimeFormat.COMPACT,
            TimeFormat.TIMESTAMP,
        )


def epoch_unit(number: int) -> int:
    """Return the unit, in ns, of a time since 1970: seconds, ms, µs or ns, by its number of digits."""
    digits = len(str(abs(number)))
    return 10**9 if digits <= 11 else 10**6 if digits <= 14 else 1_000 if digits <= 17 else 1
