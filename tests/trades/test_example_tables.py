"""Examples are appended to the operator's tables, whose rows and line breaks stay as they are."""

from datetime import date
from pathlib import Path

import pytest

from outcry.market.calendar import SessionKind
from outcry.trades.example_tables import CannotAdd, examples, with_examples
from outcry.trades.own_tables import replace_tables
from outcry.trades.reference_tables import BadReference, Reference, load_reference

HEADER = (
    "root,name,exchange,sector,parent,tick,multiplier,unit,months,serial,skipped,zone,settle,expiry_rule,"
    "notice_rule,roll_sessions,projectx,aliases,source,checked_on,note"
)
MINE = 'MINE,"Mine, of course",X,mine,,1,1,points,,,,UTC,,,,,,,me,2026-11-23,'
HOURS = """\
roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note
MINE,,Mon-Fri,2012-01-01,,09:00-15:00,09:00-15:00,me,2026-11-23,
"""


def add_examples(folder: Path, roots: list[str]) -> tuple[Reference, tuple[Path, ...]]:
    """Add examples to the tables of a data folder; return the reference data and the written files."""
    reference, drafts, based_on = with_examples(folder, roots)
    return reference, replace_tables(folder, drafts, based_on)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the folder of tables with a product that has no column `size_step`."""
    place = tmp_path / "instruments"
    place.mkdir()
    (place / "products.csv").write_bytes(f"{HEADER}\r\n{MINE}\r\n".encode())
    (place / "sessions.csv").write_text(HOURS)
    return place


@pytest.mark.parametrize("root", examples())
def test_each_example_is_complete_by_itself(root: str, tmp_path: Path) -> None:
    add_examples(tmp_path, [root])
    found = load_reference(tmp_path)
    own = {each for each, product in found.universe.products.items() if product.own_tables}
    assert own == {root}
    assert found.calendar.session(root, date(2026, 11, 20), SessionKind.RTH) is not None


def test_existing_rows_stay_as_they_are(place: Path) -> None:
    before = (place / "products.csv").read_bytes()
    reference, written = add_examples(place.parent, ["FESX"])
    after = (place / "products.csv").read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == after.count(b"\r\n") == 3
    assert [path.name for path in written] == ["products.csv", "sessions.csv", "holidays.csv"]
    assert reference.universe.products["MINE"].name == "Mine, of course"
    assert sorted(path.name for path in place.iterdir()) == ["holidays.csv", "products.csv", "sessions.csv"]


def test_a_missing_column_is_added_if_an_example_needs_it(place: Path) -> None:
    add_examples(place.parent, ["BTC-PERP"])
    products = load_reference(place.parent).universe.products
    assert (products["BTC-PERP"].size_step_e9, products["MINE"].size_step_e9) == (1_000_000, 1_000_000_000)
    assert products["MINE"].name == "Mine, of course"


def test_holidays_that_the_operator_lists_are_not_added_again(tmp_path: Path) -> None:
    """FESX and FDAX have the same group of holidays; the operator has removed Good Friday from it."""
    add_examples(tmp_path, ["FESX"])
    table = tmp_path / "instruments" / "holidays.csv"
    edited = "".join(line for line in table.read_text().splitlines(True) if "Good Friday" not in line)
    table.write_text(edited)
    reference, written = add_examples(tmp_path, ["FDAX"])
    assert table not in written
    assert table.read_text() == edited
    assert reference.calendar.session("FDAX", date(2026, 4, 3), SessionKind.RTH) is not None
    assert reference.calendar.session("FDAX", date(2026, 12, 25), SessionKind.RTH) is None


@pytest.mark.parametrize(("root", "problem"), [("MINE", "no example 'MINE'"), ("FESX", "FESX is already in")])
def test_an_unknown_or_own_root_is_refused(root: str, problem: str, place: Path) -> None:
    add_examples(place.parent, ["FESX"])
    before = {path: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(CannotAdd, match=problem):
        add_examples(place.parent, ["NIFTY", root])
    assert {path: path.read_bytes() for path in place.iterdir()} == before


def test_nothing_is_written_if_the_tables_do_not_fit_together(place: Path) -> None:
    """The alias of the operator's product is the root of the example."""
    (place / "products.csv").write_text(f"{HEADER}\n{MINE.replace(',,me,', ',FESX,me,')}\n")
    before = {path: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(BadReference, match=r"products\.csv, row 2, column aliases"):
        add_examples(place.parent, ["FESX"])
    assert {path: path.read_bytes() for path in place.iterdir()} == before
