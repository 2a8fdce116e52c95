"""Options shared by the commands that read files."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cyclopts import Parameter

from outcry.market.units import NANOS_PER_SECOND
from outcry.recordings.file_model import ReadOptions


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Reading:
    """Facts about a file that its content does not include.

    Parameters
    ----------
    contract
        Contract of the file, or the contract to select from it, such as ESZ3 or ESZ2013.
    format
        File format. Default: detected from the content.
    tz
        Time zone of timestamps that have none, such as America/New_York or UTC.
    stamp
        Whether a bar's timestamp is its open or its close: open or close.
    volume
        Tables: volume of each row, or running total of the trading day: each or total. Default: each.
    decimal
        Tables: sign before the decimals of prices and sizes: point or comma. Default: point.
    dates
        Tables: order of dates such as 02/01/2024: day-first or month-first.
    bad_rows
        Tables: refuse a file with invalid rows, skip these rows, or keep unlikely prices: refuse, skip or keep.
        Default: refuse.
    """

    contract: str | None = None
    format: str | None = None
    tz: str | None = None
    stamp: str | None = None
    volume: str | None = None
    decimal: str | None = None
    dates: str | None = None
    bad_rows: str | None = None

    def options(self, now_ns: int) -> ReadOptions:
        """Return the options for the importer. Short years mean the year nearest to `now_ns` (UTC)."""
        today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
        return ReadOptions(
            contract=self.contract, format=self.format, tz=self.tz, stamp=self.stamp, volume=self.volume,
            decimal=self.decimal, dates=self.dates, bad_rows=self.bad_rows, today=today,
        )  # fmt: skip


#: Default: everything comes from the file.
AS_IT_SAYS = Reading()
