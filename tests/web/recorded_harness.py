"""A service with a recording of trades: eight days of ESU4 in 2024, with sides, granted to everyone."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from tests.web.harness import WebHarness, empty_service

from outcry.access.model import GrantRow
from outcry.market.calendar import Calendar, SessionKind
from outcry.recordings.file_model import ReadOptions
from outcry.trades.reference_tables import load_reference

FIRST, LAST = date(2024, 6, 24), date(2024, 7, 3)
SECOND = 10**9
#: A pull towards this price keeps the days' value areas near each other. In ticks of 0.25.
_CENTRE = 22000


def trades_csv(calendar: Calendar) -> str:
    """Trades about every 40 s of the regular and overnight sessions, as CSV."""
    chance, price = random.Random(7), _CENTRE
    lines = ["ts_utc,symbol,price,size,side"]
    end_ns = 0
    for session in calendar.sessions("ES", FIRST, LAST):
        for start, end in session.segments:
            for at_ns in range(start, end, 40 * SECOND):
                price += chance.randrange(-4, 5) - (price > _CENTRE + 60) + (price < _CENTRE - 60)
                lots = chance.randrange(1, 30) * (3 if session.kind is SessionKind.RTH else 1)
                lines.append(_line(at_ns + chance.randrange(40) * SECOND, price, lots, chance.choice("ABBN")))
            end_ns = end
    lines.append(_line(end_ns + 30 * SECOND, price, 1, "N"))  # after the close: the recording goes on
    return "\n".join(lines) + "\n"


def _line(at_ns: int, price: int, lots: int, side: str) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_ns // SECOND)
    return f"{at:%Y-%m-%dT%H:%M:%S}Z,ESU4,{price / 4},{lots},{side}"


@contextmanager
def recorded_service(folder: Path) -> Iterator[WebHarness]:
    """A service whose visitors see the recording."""
    path = folder / "es.csv"
    path.write_text(trades_csv(load_reference().calendar))
    with empty_service(folder / "data", {"OUTCRY_GUESTS": "true"}) as harness:
        installation = harness.installation
        now_ns = installation.clock.now_ns()
        installation.store.add_grant(GrantRow(0, "everyone", "completed", (), None, None, 0, None), now_ns)
        installation.importer.run(path, 0, ReadOptions(), now_ns)
        yield harness
