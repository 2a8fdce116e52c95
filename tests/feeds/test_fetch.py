"""`outcry fetch`: the installed command with a fake historical service on loopback."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest
from support.vendors.databento_peer import KEY, DatabentoPeer

from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.feeds.databento.downloads import plan_downloads
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.trades.records import TRADE, Quality, Rows
from outcry.trades.reference_tables import load_reference

OUTCRY = Path(sys.executable).with_name("outcry")
SECOND = 1_000_000_000
H4, M4 = Contract("ES", 2024, 3), Contract("ES", 2024, 6)
WEDNESDAY, THURSDAY = date(2024, 2, 21), date(2024, 2, 22)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def tape() -> Rows:
    """A trade every ten seconds of Globex on two trade dates."""
    windows = [("2024-02-20 23:00", "2024-02-21 22:00"), ("2024-02-21 23:00", "2024-02-22 22:00")]
    times = np.concatenate([np.arange(at(a), at(b), 10 * SECOND) for a, b in windows])
    rows = np.zeros(len(times), TRADE)
    chance = np.random.default_rng(3)
    rows["ts_event"] = times
    rows["price"] = (20_000 + np.cumsum(chance.integers(-2, 3, len(rows)))) * 250_000_000
    rows["size"] = chance.integers(1, 9, len(rows))
    rows["side"] = chance.choice([b"A", b"B"], len(rows))
    rows["sequence"] = np.arange(1, len(rows) + 1)
    return rows


@pytest.fixture
def vendor() -> Iterator[DatabentoPeer]:
    """The vendor, on a loop of its own: the command waits for it from without."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def made() -> DatabentoPeer:
        peer = DatabentoPeer()
        peer.now_ns = at("2024-02-23 12:00")
        peer.tape(H4, tape())
        await peer.start()
        return peer

    peer = asyncio.run_coroutine_threadsafe(made(), loop).result(20)
    try:
        yield peer
    finally:
        asyncio.run_coroutine_threadsafe(peer.stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def fetch(
    vendor: DatabentoPeer,
    data: Path,
    *more: str,
    key: str = KEY,
    dates: Sequence[date] = (WEDNESDAY, THURSDAY),
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(data),
        "OUTCRY_DATA": str(data),
        "OUTCRY_DATABENTO_KEY": key,
        "OUTCRY_FEED_PLACES": f"databento.historical={vendor.places['historical']}",
    }
    command = [OUTCRY, "fetch", "ES", "--from", str(dates[0]), "--to", str(dates[-1]), *more]
    return subprocess.run(
        [name for name in command if name],
        capture_output=True, text=True, timeout=120, env=environment, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_what_is_fetched_is_what_was_traded_and_is_not_paid_for_twice(
    vendor: DatabentoPeer, tmp_path: Path
) -> None:
    done = fetch(vendor, tmp_path, "--yes", "--owner", "ann@example.com")
    assert done.returncode == 0, done.stderr
    assert "2 trade dates of ESH2024, 2024-02-21 to 2024-02-22. Databento estimates $1.25." in done.stderr
    assert vendor.priced == [("ESH4", at("2024-02-20 23:00"), at("2024-02-22 22:00"))]
    assert [symbol for symbol, _, _ in vendor.fetched] == ["ESH4", "ESH4"]
    with open_installation(Settings(data=str(tmp_path))) as installation:
        user = installation.store.ensure_user("ann@example.com", 0)
        rows = [row for row in installation.store.sessions([user], "ES") if row.kind is SessionKind.RTH]
        assert sorted((row.trade_date, row.complete, row.quality) for row in rows) == [
            (day, True, Quality.TICKS) for day in (WEDNESDAY, THURSDAY)
        ]
        found = [
            chunk
            for row in sorted(installation.store.all_recordings(), key=lambda one: one.trade_date)
            for chunk in installation.tape.read(row.file, row.quality)
        ]
    names = ["ts_event", "price", "size", "side", "sequence"]
    assert np.concatenate(found)[names].tolist() == tape()[names].tolist()
    again = fetch(vendor, tmp_path, "--yes", "--owner", "ann@example.com")
    assert again.returncode == 0, again.stderr
    assert "Nothing to download" in again.stderr
    assert (len(vendor.fetched), len(vendor.priced)) == (2, 1)


def test_nothing_is_fetched_unless_it_is_agreed_to(vendor: DatabentoPeer, tmp_path: Path) -> None:
    done = fetch(vendor, tmp_path)
    assert done.returncode == 1
    assert "$1.25" in done.stderr
    assert "--yes" in done.stderr
    assert vendor.fetched == []


@pytest.mark.parametrize("key", ["", "db-short", KEY[:-1] + "x"])
def test_a_key_that_is_wrong_is_said_and_not_shown(vendor: DatabentoPeer, tmp_path: Path, key: str) -> None:
    done = fetch(vendor, tmp_path, "--yes", key=key)
    assert done.returncode in {1, 2}
    assert "key" in done.stderr
    assert "Traceback" not in done.stderr
    if key:
        assert key not in done.stderr + done.stdout
    assert vendor.fetched == []


def test_a_refusal_is_told_in_the_services_words_and_what_came_before_is_kept(
    vendor: DatabentoPeer, tmp_path: Path
) -> None:
    first = fetch(vendor, tmp_path, "--yes", dates=(WEDNESDAY,))
    assert first.returncode == 0, first.stderr
    vendor.history_error = (422, "data_end_after_available_end")
    done = fetch(vendor, tmp_path, "--yes")
    assert done.returncode == 1
    assert "data_end_after_available_end" in done.stderr
    assert "Traceback" not in done.stderr
    vendor.history_error = None
    last = fetch(vendor, tmp_path, "--yes")
    assert last.returncode == 0, last.stderr
    assert "1 trade date of ESH2024, 2024-02-22" in last.stderr


def test_near_a_roll_both_contracts_are_fetched() -> None:
    """ESH2024 ends on 15 March and is not front on the 13th: from 28 February on, volume may go over to ESM2024."""
    reference = load_reference()
    found = plan_downloads(
        reference.universe, reference.calendar, "ES", None, date(2024, 2, 26), date(2024, 3, 15),
        at("2024-03-15 12:00"), {(H4, date(2024, 3, 1))},
    )  # fmt: skip
    days = {
        contract: [part.trade_date for part in found if part.contract == contract] for contract in (H4, M4)
    }
    assert days[H4][:4] == [date(2024, 2, 26), date(2024, 2, 27), date(2024, 2, 28), date(2024, 2, 29)]
    assert date(2024, 3, 1) not in days[H4]
    assert days[H4][-1] == date(2024, 3, 12)
    assert (days[M4][0], days[M4][-1]) == (date(2024, 2, 28), date(2024, 3, 14))
    assert {part.symbol for part in found} == {"ESH4", "ESM4"}
