"""Real sessions of ES and GC compared with independently computed levels.

Two rows of the vectors follow other rules, explained in `docs/decisions/0007`. Where two tied rows are equally near the
centre, the vectors take the lower one, and this project the side with more TPOs first (ES 2013-10-09 to 16:15). They
spread a bar's volume in fractions, this project in whole lots with the remainder on the close's row (GC 2013-10-08).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from outcry.access.licences import Grant, Scope
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.market.methods import Method
from outcry.market.profile import value_area
from outcry.market.snapshot import load
from outcry.recordings.file_model import ReadOptions
from outcry.wire.answers import SessionLevels

EVERYTHING = Scope(user_id=1, grants=(Grant("everyone", "completed", (), None, None),))

BLOCKS = {
    "ES_RTH_0930_1615_ET": ("ES", ["2013-10-07", "2013-10-08", "2013-10-09"]),
    "GC_PIT_0820_1330_ET": ("GC", ["2013-10-08"]),
    "GC_PIT_trades_0820_1330_ET": ("GC", ["2013-10-07"]),
}
CASES = [(block, symbol, day) for block, (symbol, days) in BLOCKS.items() for day in days]
OTHER_POC_TIE = {("ES", "2013-10-09")}
OTHER_VOLUME_SPREAD = {("GC", "2013-10-08")}


def worked(shared: Path, block: str, day: str) -> dict[str, Any]:
    vectors = json.loads((shared / "vectors" / "worked_sessions.json").read_text())
    return vectors[block]["sessions"][day]


def answered(installation: Installation, symbol: str, day: str) -> SessionLevels:
    found = installation.query.history(EVERYTHING, symbol, day, day, installation.clock.now_ns()).answer
    assert found.count == 1
    return found.sessions[0]


@pytest.mark.parametrize(("block", "symbol", "day"), CASES)
def test_ranges_and_initial_balance(
    installation: Installation, shared: Path, block: str, symbol: str, day: str
) -> None:
    want, found = worked(shared, block, day), answered(installation, symbol, day)
    assert (found.high, found.low, found.close_price) == (want["high"], want["low"], want["close"])
    assert (found.ib_high, found.ib_low) == (want["ib_high"], want["ib_low"])
    assert (found.data.volume, found.data.rows) == (want["volume"], want["bars"])
    assert found.contract == want.get("contract", "GC_201312").replace("_201312", "Z2013")
    assert (found.data.complete, found.data.off_tick) == (True, 0)


@pytest.mark.parametrize(("block", "symbol", "day"), CASES)
def test_tpo_levels(installation: Installation, shared: Path, block: str, symbol: str, day: str) -> None:
    want, found = worked(shared, block, day)["tpo"], answered(installation, symbol, day)
    assert found.poc_candidates == want["poc_candidates"]
    if (symbol, day) in OTHER_POC_TIE:
        # 1648.25 and 1648.50 are equally near the centre 1648.375; 192 TPOs lie above it, 125 below
        assert want["poc"] == 1648.25
        assert (found.poc, found.val, found.vah) == (1648.5, 1645.5, 1654.0)
    else:
        assert (found.poc, found.val, found.vah) == (want["poc"], *want["va_two_row_up"])


@pytest.mark.parametrize(("block", "symbol", "day"), CASES)
def test_extremes_and_single_prints(
    installation: Installation, shared: Path, block: str, symbol: str, day: str
) -> None:
    want, found = worked(shared, block, day)["tpo"], answered(installation, symbol, day)
    assert (found.upper_tail_ticks, found.lower_tail_ticks) == (want["upper_tail"], want["lower_tail"])
    assert (found.poor_high, found.poor_low) == (want["upper_tail"] < 2, want["lower_tail"] < 2)
    assert [[zone.low, zone.high] for zone in found.single_prints] == want["interior_single_zones"]


@pytest.mark.parametrize(("block", "symbol", "day"), CASES)
def test_volume_levels(installation: Installation, shared: Path, block: str, symbol: str, day: str) -> None:
    session, found = worked(shared, block, day), answered(installation, symbol, day)
    exact = session.get("volume_profile_exact_trades")
    want = exact or session["volume_profile_uniform_high_low"]
    assert found.data.quality == ("ticks" if exact else "bars_1m")
    if (symbol, day) in OTHER_VOLUME_SPREAD:
        # whole lots: 997 at 1324.5, 993 at 1324.4; in fractions 989.3 and 995.9
        assert want["poc"] == 1324.4
        assert (found.vpoc, found.volume_val, found.volume_vah) == (1324.5, 1322.1, 1328.1)
    else:
        assert (found.vpoc, found.volume_val, found.volume_vah) == (want["poc"], *want["va_two_row_up"])


@pytest.mark.parametrize(("block", "symbol", "day"), CASES)
def test_every_value_area_rule_of_the_vectors(
    installation: Installation, shared: Path, block: str, symbol: str, day: str
) -> None:
    """From the vectors' own POC, each rule is checked: one row or two, ties up, down or both."""
    want = worked(shared, block, day)["tpo"]
    tick_e9 = installation.reference.universe.products[symbol].tick_e9
    rows = installation.store.sessions([0], symbol)
    row = next(
        r for r in rows if str(r.trade_date) == day and r.kind == "rth" and r.contract.endswith("Z2013")
    )
    ladder = load(row.profile)
    counts = ladder.tpo_counts()
    assert sum(counts) == want["total"]
    poc = round(want["poc"] * 1e9) // tick_e9 - ladder.low_ticks
    rules: dict[str, Method] = {
        f"va_{'two' if step == 2 else 'one'}_row_{tie}": Method("vector", step=step, side_tie=tie)
        for step in (1, 2)
        for tie in ("up", "down", "both")
    }
    for name, method in rules.items():
        low, high, _ = value_area(counts, poc, method)
        found = [(ladder.low_ticks + index) * tick_e9 / 1e9 for index in (low, high)]
        assert found == want[name], name


def test_the_cash_variant_ends_at_sixteen(shared: Path, tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), session_variants={"ES": "cash"})
    with open_installation(settings) as installation:
        for path in installation.importer.library.expand(shared / "data" / "lean" / "cme"):
            installation.importer.run(path, 0, ReadOptions(), installation.clock.now_ns())
        for day in ("2013-10-07", "2013-10-08", "2013-10-09"):
            want, found = worked(shared, "ES_RTH_0930_1600_ET", day)["tpo"], answered(installation, "ES", day)
            assert (found.poc, found.val, found.vah) == (want["poc"], *want["va_two_row_up"])


def test_levels_answer_of_the_newest_session(installation: Installation) -> None:
    found = installation.query.levels(EVERYTHING, "gc", installation.clock.now_ns()).answer
    assert (found.symbol, found.data_source, found.live, found.as_of) == (
        "GC",
        "delayed",
        False,
        "2013-10-08",
    )
    assert (found.prior.poc, found.prior.vah, found.prior.val) == (1323.5, 1328.7, 1322.3)
    assert [
        found.updated_at,
        found.last_price,
        found.bias,
        found.developing,
        found.overnight,
        found.playbook,
    ] == [None] * 6
    # 2013-10-08 traded 1315.4–1330.8 over the POC of the day before, 1323.7: only its own is naked
    assert [(level.price, level.date) for level in found.naked_pocs] == [(1323.5, "2013-10-08")]


def test_carried_levels_of_es(installation: Installation) -> None:
    """Worked by hand from the vectors.

    The POC of the 7th, 1675.50, lies above the highs of the 8th and 9th (1671.25, 1656.75). That of the 8th, 1655.75,
    was traded on the 9th. The low of the 7th (a tail of one) was passed on the 8th."""
    found = installation.query.levels(EVERYTHING, "ES", installation.clock.now_ns()).answer
    assert [(level.price, level.date) for level in found.naked_pocs] == [
        (1648.5, "2013-10-09"),
        (1675.5, "2013-10-07"),
    ]
    assert [(level.price, level.date) for level in found.poor_highs] == [(1656.75, "2013-10-09")]
    assert found.poor_lows == []


def test_profile_rows_add_up(installation: Installation, shared: Path) -> None:
    found = installation.query.profile(EVERYTHING, "ESZ3", "2013-10-08", installation.clock.now_ns()).answer
    want = worked(shared, "ES_RTH_0930_1615_ET", "2013-10-08")
    assert sum(row.volume for row in found.rows) == want["volume"]
    assert (
        sum(row.tpos for row in found.rows)
        == want["tpo"]["total"]
        == sum(len(row.letters) for row in found.rows)
    )
    assert [found.rows[0].price, found.rows[-1].price] == [want["high"], want["low"]]
    assert found.rows[0].price - found.rows[1].price == found.tick_size == 0.25
