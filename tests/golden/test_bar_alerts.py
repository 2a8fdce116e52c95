"""Real minute recordings replayed as a feed of bars: each alert is compared with the stored levels and the bars."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.golden.replaying import replay

from outcry.access.licences import Grant, Scope
from outcry.answers.alerts import params
from outcry.answers.wording import message
from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.feeds.replay import readings_of
from outcry.live.model import AlertRow
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE, PRICE_SCALE
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.records import Rows
from outcry.wire.answers import SessionLevels

ALL = Scope(user_id=1, grants=(Grant("everyone", "completed", (), None, None),))
RECORDINGS = [
    ("lean/cme/minute/es", "*_trade.zip", ReadOptions(), Contract("ES", 2013, 12)),
    ("lean/comex/minute/gc", "*_trade.zip", ReadOptions(), Contract("GC", 2013, 12)),
    ("6e", "*.csv.gz", ReadOptions(contract="6EH4", stamp="close", tz="UTC"), Contract("6E", 2024, 3)),
]


def played(
    tmp_path: Path, files: Sequence[Path], options: ReadOptions, contract: Contract
) -> tuple[Rows, Sequence[AlertRow], dict[str, SessionLevels]]:
    """Return the bars, the alerts they fired, and the levels of the stored sessions by date."""
    with open_installation(Settings(data=str(tmp_path / "data"))) as installation:
        library, universe = FileLibrary(), installation.reference.universe
        batches = [b for one in readings_of(library, universe, files, options) for b in one.batches()]
        rows = np.concatenate([b.rows for b in batches if b.contract == contract])

        replay(installation, files, options)
        stored = installation.query.history(
            ALL, contract.key, None, None, installation.clock.now_ns()
        ).answer.sessions
        alerts = [row for row in installation.alerts.alerts(None) if row.contract == contract.key]
        return rows, alerts, {session.date: session for session in stored}


def level_of(alert: AlertRow, stored: dict[str, SessionLevels]) -> float:
    """Return the level of an alert, from the stored sessions."""
    before = {of: prior for prior, of in pairwise(sorted(stored))}
    prior = stored[before[str(alert.trade_date)]] if str(alert.trade_date) in before else None
    if alert.ref in {"VAH", "VAL"}:
        assert prior is not None
        return prior.vah if alert.ref == "VAH" else prior.val
    if alert.ref in {"IBH", "IBL"}:
        session = stored[str(alert.trade_date)]
        return session.ib_high if alert.ref == "IBH" else session.ib_low
    made = stored[alert.ref]
    return {"naked-poc": made.poc, "poor-high": made.high, "poor-low": made.low}[alert.type]


def prices_in(text: str) -> list[float]:
    """Return the prices in a message, without its symbol and the date of a level."""
    _, _, text = re.sub(r"\d{4}-\d\d-\d\d", "", text).partition(" ")
    return [float(price) for price in re.findall(r"\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize(("folder", "pattern", "options", "contract"), RECORDINGS)
def test_every_alert_of_a_minute_recording_names_its_level_and_a_price_the_bar_reached(
    shared: Path, tmp_path: Path, folder: str, pattern: str, options: ReadOptions, contract: Contract
) -> None:
    files = sorted((shared / "data" / folder).glob(pattern))
    rows, alerts, stored = played(tmp_path, files, options, contract)
    bars = {int(row["ts_event"]) + NANOS_PER_MINUTE: row for row in rows}
    assert len(alerts) >= 10
    for alert in alerts:
        text, level = message(alert), level_of(alert, stored)
        prices, kind = prices_in(text), alert.type.value
        assert (params(alert.params)["level"], level in prices) == (level, True), text
        bar = bars[alert.at_ns]  # it fired the alert, or was the last of the bar that closed
        low, high, close = (float(bar[name]) / PRICE_SCALE for name in ("low", "high", "close"))
        if kind.startswith(("va-accept", "va-reject")):
            assert prices[-1] == close, text
            continue
        reached = prices[0]
        assert low <= reached <= high, text
        if kind.startswith("ib-break"):
            assert reached == (high if kind == "ib-break-up" else low), text
            assert reached > level if kind == "ib-break-up" else reached < level
        elif kind == "naked-poc":
            assert reached == level, text
        else:
            assert abs(reached - level) <= 2.001 * float(params(alert.params)["tick"] or 0), text
            assert reached == level or not low <= level <= high or "beyond" in text, text
