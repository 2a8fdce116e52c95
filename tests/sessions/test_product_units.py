"""A tick or size step that differs from stored data is refused at each start, and named with the remedy."""

from pathlib import Path

import pytest
from tests.own_products import HOURS, PRODUCTS

from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.live.file_log import FileLog
from outcry.recordings.file_model import ReadOptions
from outcry.sessions.product_units import UnitsChanged, changed_units

DAY = "ts,price,size\n2026-11-19T15:00:00Z,90000.1,1.5\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of a data folder with a perpetual: tick 0.1, size step 0.001."""
    tables = tmp_path / "data" / "instruments"
    tables.mkdir(parents=True)
    (tables / "products.csv").write_text(PRODUCTS)
    (tables / "sessions.csv").write_text(HOURS)
    return Settings(data=str(tmp_path / "data"))


def edited(settings: Settings, tick: str, step: str) -> None:
    """Write the perpetual's row with another tick and size step."""
    table = settings.folder / "instruments" / "products.csv"
    table.write_text(PRODUCTS.replace(",0.1,1,0.001,", f",{tick},1,{step},"))


def imported(settings: Settings, tmp_path: Path) -> None:
    recording = tmp_path / "BTC-PERP_2026-11-19.csv"
    recording.write_text(DAY)
    with open_installation(settings) as opened:
        opened.importer.run(recording, 0, ReadOptions(), opened.clock.now_ns())


def test_without_data_they_may_change(settings: Settings) -> None:
    for tick, step in (("0.1", "0.001"), ("0.5", "1"), ("0.1", "0.0001")):
        edited(settings, tick, step)
        with open_installation(settings) as opened:
            assert opened.reference.universe.products["BTC-PERP"].size_step_e9 == int(float(step) * 10**9)


def test_refolding_mends_a_tick_but_no_size_step(settings: Settings, tmp_path: Path) -> None:
    imported(settings, tmp_path)
    edited(settings, "0.1", "0.01")
    with pytest.raises(UnitsChanged), open_installation(settings, refolds=True):
        pass
    edited(settings, "0.05", "0.001")
    for _ in range(2):  # an interrupted refold stores nothing, so it can be run again
        with open_installation(settings, refolds=True):
            pass
        with pytest.raises(UnitsChanged), open_installation(settings):
            pass


@pytest.mark.parametrize(
    ("tick", "step", "said"),
    [
        ("0.1", "0.01", "size_step of BTC-PERP is 0.01, but its stored data was recorded with 0.001"),
        (
            "0.5",
            "0.001",
            "tick of BTC-PERP is 0.5, but its stored data was recorded with 0.1. Set it back to 0.1",
        ),
    ],
)
def test_with_data_the_start_is_refused_until_they_are_set_back(
    tick: str, step: str, said: str, settings: Settings, tmp_path: Path
) -> None:
    imported(settings, tmp_path)
    edited(settings, tick, step)
    for _ in range(2):  # the refused start does not store the new values
        with pytest.raises(UnitsChanged, match=said), open_installation(settings):
            pass
    edited(settings, "0.1", "0.001")
    with open_installation(settings) as opened:
        assert changed_units(opened.database, opened.reference.universe.products) == ()


def test_they_may_change_after_the_import_was_forgotten(settings: Settings, tmp_path: Path) -> None:
    imported(settings, tmp_path)
    with open_installation(settings) as opened:
        (row,) = opened.store.imports(0)
        opened.importer.forget([row.name], 0, opened.clock.now_ns())
    edited(settings, "0.5", "0.01")
    with open_installation(settings):
        pass


def test_data_of_a_live_stream_counts(settings: Settings) -> None:
    """The log has an entry, and nothing was recorded yet."""
    with open_installation(settings):
        pass
    log = FileLog(settings.folder / "live")
    with log.exclusively():
        log.append("0/exchange/BTC-PERP", 0, 1, b"entry")
    edited(settings, "0.1", "0.01")
    with pytest.raises(UnitsChanged), open_installation(settings):
        pass


def test_a_product_with_a_longer_name_does_not_count(settings: Settings, tmp_path: Path) -> None:
    """`BTC-PERP` has data; `BTC` and `SPY` have none."""
    imported(settings, tmp_path)
    table = settings.folder / "instruments" / "products.csv"
    table.write_text(PRODUCTS.replace("index,,0.01,1,,points", "index,,0.05,1,,points"))
    with open_installation(settings):
        pass
