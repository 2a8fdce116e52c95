"""Fixtures: an installation for each test, and recordings written by hand in LEAN's layout."""

import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.market.instruments import Universe
from outcry.trades.reference_tables import load_reference

Write = Callable[..., Path]


@pytest.fixture(scope="session")
def universe() -> Universe:
    return load_reference().universe


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with open_installation(Settings(data=str(tmp_path / "data"))) as opened:
        yield opened


@pytest.fixture
def ticks(tmp_path: Path) -> Write:
    """Write ES trades of one UTC day: lines of (time `HH:MM:SS.mmm` UTC, price, size)."""

    def write(day: str, *lines: tuple[str, str, int], month: str = "202409", folder: str = "in") -> Path:
        rows = [f"{ms_of_day(at)},{price},{size},cme,,0" for at, price, size in lines]
        return write_zip(tmp_path / folder, f"{day}_trade.zip", f"{day}_es_tick_trade_{month}.csv", rows)

    return write


@pytest.fixture
def bars(tmp_path: Path) -> Write:
    """Write ES minutes of one UTC day: lines of (time `HH:MM` UTC, open, high, low, close, volume)."""

    def write(
        day: str, *lines: tuple[str, str, str, str, str, int], month: str = "202409", folder: str = "in"
    ) -> Path:
        rows = [f"{ms_of_day(at)},{o},{h},{lo},{c},{v}" for at, o, h, lo, c, v in lines]
        return write_zip(tmp_path / folder, f"{day}_trade.zip", f"{day}_es_minute_trade_{month}.csv", rows)

    return write


def ms_of_day(at: str) -> int:
    hours, minutes, *rest = at.split(":")
    return int(hours) * 3_600_000 + int(minutes) * 60_000 + round(float(rest[0] if rest else 0) * 1000)


def write_zip(folder: Path, name: str, member: str, rows: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr(member, "\n".join(rows) + "\n")
    return folder / name
