"""How files are to be read, as every command that reads them asks it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cyclopts import Parameter

from outcry.core.units import NANOS_PER_SECOND
from outcry.ports.files import ReadOptions


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Reading:
    """What a file does not tell of itself.

    Parameters
    ----------
    contract
        The contract the file is about, or to take from it: ESZ3, ESZ2013.
    format
        What the file is, if its content does not show it.
    tz
        The zone of stamps that carry none: America/New_York, UTC.
    stamp
        Which end of a bar its stamp names: open or close.
    """

    contract: str | None = None
    format: str | None = None
    tz: str | None = None
    stamp: str | None = None

    def options(self, now_ns: int) -> ReadOptions:
        """The same, with the day (UTC) that short years are nearest to."""
        today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
        return ReadOptions(
            contract=self.contract, format=self.format, tz=self.tz, stamp=self.stamp, today=today
        )


#: The file tells it all.
AS_IT_SAYS = Reading()
