"""`outcry.profile` knows the user's own instruments: their tick, their size step and their hours."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.own_products import HOURS, PRODUCTS

import outcry
from outcry import InvalidInput

#: 09:30 in New York on 20 November 2026.
OPEN_NS = int(datetime(2026, 11, 20, 14, 30, tzinfo=UTC).timestamp()) * 10**9
HOUR_NS = 3600 * 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "instruments"
    place.mkdir()
    (place / "products.csv").write_text(PRODUCTS)
    (place / "sessions.csv").write_text(HOURS)
    return tmp_path


def trades() -> dict[str, list[Any]]:
    """Two trades in regular hours, of 0.5 and 0.25; one before them."""
    at = [OPEN_NS - HOUR_NS, OPEN_NS, OPEN_NS + HOUR_NS]
    return {"ts": at, "price": [80000.0, 90000.1, 90000.3], "size": [9.0, 0.5, 0.25]}


def test_a_symbol_of_own_tables_has_its_tick_size_step_and_hours(folder: Path) -> None:
    """Tick 0.1, step 0.001, 09:30 to 16:00: the first and third row are traded, in brackets A and C."""
    for place in (folder, str(folder / "instruments")):
        found = outcry.profile(trades(), symbol="btc/usdt", date="2026-11-20", instruments=place)
        assert (found.symbol, found.tick_size, found.low, found.high) == ("btc/usdt", 0.1, 90000.1, 90000.3)
        assert [(row.price, row.letters, row.volume) for row in found.rows] == [
            (90000.3, "C", 0.25),
            (90000.2, "", 0.0),
            (90000.1, "A", 0.5),
        ]
        assert (found.ib_high, found.ib_low) == (90000.1, 90000.1)


def test_a_file_of_an_own_product_is_read(folder: Path, tmp_path: Path) -> None:
    recording = tmp_path / "BTC-PERP_2026-11-20.csv"
    recording.write_text(
        "ts,price,size\n2026-11-20T14:30:00Z,90000.1,0.5\n2026-11-20T15:30:00Z,90000.3,0.25\n"
    )
    found = outcry.profile(recording, symbol="BTC-PERP", date="2026-11-20", instruments=folder)
    assert (found.contract, sum(row.volume for row in found.rows)) == ("BTC-PERP", 0.75)


def test_without_the_folder_the_symbol_is_unknown(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown symbol 'BTC-PERP'"):
        outcry.profile(trades(), symbol="BTC-PERP", date="2026-11-20")
    assert (
        outcry.profile(trades(), tick_size=0.1, size_step=0.001, window=(OPEN_NS, OPEN_NS + 1)).low == 90000.1
    )


def test_changed_tables_are_read_again(folder: Path) -> None:
    outcry.profile(trades(), symbol="BTC-PERP", date="2026-11-20", instruments=folder)
    table = folder / "instruments" / "sessions.csv"
    table.write_text(HOURS.replace("09:30-16:00", "10:00-16:00"))
    found = outcry.profile(trades(), symbol="BTC-PERP", date="2026-11-20", instruments=folder)
    assert found.low == 90000.3


def test_a_folder_without_tables_and_an_invalid_row_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No tables of instruments in .*nothing"):
        outcry.profile(trades(), symbol="ES", date="2026-11-20", instruments=tmp_path / "nothing")
    (folder / "instruments" / "products.csv").write_text(PRODUCTS.replace(",0.1,1,", ",none,1,"))
    with pytest.raises(InvalidInput, match=r"products\.csv, row 3, column tick"):
        outcry.profile(trades(), symbol="ES", date="2026-11-20", instruments=folder)
