"""`outcry fetch hyperliquid`: the installed command with the fake vendor, at the real time."""

import csv
import subprocess
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from support.vendors.bars import bars_by_hand
from support.vendors.hyperliquid_peer import MINUTE, HyperliquidPeer
from tests.e2e.test_free_market import COINS, OUTCRY, environment, outcry, vendor
from tests.feeds.feed_harness import run

from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.base.clock import SystemClock
from outcry.cli.market import EMAIL
from outcry.feeds.hyperliquid import terms
from outcry.feeds.hyperliquid.downloads import MAX_ATTEMPTS, CandleDownloader, DayDownload
from outcry.market.units import NANOS_PER_DAY
from outcry.trades.feed import FeedLost
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

__all__ = ["vendor"]

ROOTS = [f"{coin}-PERP" for coin in COINS]


def whole_days() -> list[date]:
    """Return two days that are over (UTC). A day is over five minutes after its end."""
    today = datetime.fromtimestamp(SystemClock().now_ns() // 10**9 - 6 * 60, UTC).date()
    return [today - timedelta(days=2), today - timedelta(days=1)]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text)))


def fetch(folder: Path, peer: HyperliquidPeer, *more: str) -> subprocess.CompletedProcess[str]:
    return outcry(folder, peer, "fetch", "hyperliquid", "--accept-terms", "--format", "csv", *more)


def test_the_days_that_the_vendor_has_are_stored_once(tmp_path: Path, vendor: HyperliquidPeer) -> None:
    first, second = whole_days()
    done = fetch(tmp_path, vendor, "--from", str(first), "--to", str(second))
    assert done.returncode == 0, done.stderr
    assert terms.SUMMARY in done.stderr
    assert f"6 days of {', '.join(ROOTS)}, {first} to {second}, as one-minute candles." in done.stderr
    assert "no trades of the past, so volume by price is estimated" in done.stderr
    found = rows_of(done.stdout)
    assert sorted((row["date"], row["contract"]) for row in found) == [
        (str(day), root) for day in (first, second) for root in ROOTS
    ]
    assert {(row["quality"], row["complete"], row["off_tick"]) for row in found} == {("bars_1m", "yes", "0")}
    with open_installation(Settings(data=str(tmp_path))) as installation:
        user = installation.store.find_user(EMAIL)
        assert user is not None
        (recording,) = installation.store.recordings(user, "BTC-PERP", first, first)
        assert (recording.source, recording.quality) == ("hyperliquid", Quality.BARS_1M)
        rows = np.concatenate(list(installation.tape.read(recording.file, recording.quality)))
        tape = vendor.tapes["BTC"]
        begin_ns = int(datetime.combine(first, datetime.min.time(), UTC).timestamp()) * 10**9
        of_day = tape[(tape["ts_event"] >= begin_ns) & (tape["ts_event"] < begin_ns + NANOS_PER_DAY)]
        assert [tuple(map(int, row)) for row in rows.tolist()] == bars_by_hand(of_day, MINUTE)
    requests = len(vendor.asked)
    again = fetch(tmp_path, vendor, "--from", str(first), "--to", str(second))
    assert again.returncode == 0, again.stderr
    assert "Nothing to download" in again.stderr
    assert len(vendor.asked) == requests
    listed = outcry(tmp_path, vendor, "import", "--list", "--owner", EMAIL, "--output", "csv")
    assert f"hyperliquid-BTC-PERP-{first}" in [row["name"] for row in rows_of(listed.stdout)]


def test_what_the_vendor_no_longer_has_is_reported(tmp_path: Path, vendor: HyperliquidPeer) -> None:
    first, second = whole_days()
    old = first - timedelta(days=10)
    done = fetch(tmp_path, vendor, "BTC-PERP", "--from", str(old), "--to", str(second))
    assert done.returncode == 0, done.stderr
    assert f"Not available: {old} to " in done.stderr
    assert "the last 5,000 minutes only" in done.stderr
    only = fetch(tmp_path, vendor, "BTC-PERP", "--from", str(old), "--to", str(old))
    assert only.returncode == 0
    assert f"Not available: {old} to {old}." in only.stderr
    assert only.stdout.count("\n") <= 1


def test_nothing_is_requested_before_the_terms_are_accepted(tmp_path: Path, vendor: HyperliquidPeer) -> None:
    done = outcry(tmp_path, vendor, "fetch", "hyperliquid")
    assert done.returncode == 1
    assert terms.SUMMARY in done.stderr
    assert "--accept-terms" in done.stderr
    assert vendor.requests == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(("ES",), "'ES' is not one of the market's products"), (("--owner", "nobody"), "Invalid --owner")],
)
def test_arguments_that_do_not_fit(
    tmp_path: Path, vendor: HyperliquidPeer, arguments: tuple[str, ...], error: str
) -> None:
    done = fetch(tmp_path, vendor, *arguments)
    assert done.returncode == 2
    assert error in done.stderr


def test_an_interrupted_command_continues(tmp_path: Path, vendor: HyperliquidPeer) -> None:
    """Killed after each number of stored days, the command at last has stored the same as one that ran through."""
    first, second = whole_days()
    whole = tmp_path / "whole"
    assert fetch(whole, vendor, "--from", str(first), "--to", str(second)).returncode == 0
    folder = tmp_path / "killed"
    command = [
        str(OUTCRY),
        "fetch",
        "hyperliquid",
        "--accept-terms",
        "--from",
        str(first),
        "--to",
        str(second),
        "--format",
        "csv",
    ]
    for _ in range(2):
        with subprocess.Popen(
            command, env=environment(folder, vendor), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            for line in process.stderr:
                if ": imported" in line:
                    break
            process.kill()
            process.stderr.read()
    asked = len(vendor.asked)
    last = fetch(folder, vendor, "--from", str(first), "--to", str(second))
    assert last.returncode == 0, last.stderr
    assert len(vendor.asked) - asked <= 1 + 4  # the list of coins, and at most four of the six days
    assert sessions(folder) == sessions(whole)


def sessions(folder: Path) -> list[tuple[object, ...]]:
    with open_installation(Settings(data=str(folder))) as installation:
        return sorted(
            (row.contract, row.trade_date, row.complete, row.rows, row.volume, row.profile)
            for row in installation.store.all_sessions()
        )


def days_of(now_ns: int) -> list[DayDownload]:
    reference = load_reference()
    product = reference.universe.products["ES"]
    begin_ns = now_ns - NANOS_PER_DAY
    return [DayDownload(product, "ES", date(2026, 11, 17), begin_ns, now_ns)]


def test_refused_requests_are_repeated_and_at_last_reported() -> None:
    """HTTP 429 is tried again with growing pauses, at most eight times."""

    async def work() -> None:
        made = HyperliquidPeer()
        made.now_ns = SystemClock().now_ns()
        made.tapes["ES"] = np.zeros(0, Quality.TICKS.dtype)
        await made.start()
        try:
            (day,) = days_of(made.now_ns)
            async with CandleDownloader(SystemClock(), made.places["api"], speedup=1000.0) as past:
                made.busy = MAX_ATTEMPTS - 1
                assert len(await past.bars(day)) == 0
                assert made.busy == 0
                made.busy = MAX_ATTEMPTS + 1
                with pytest.raises(FeedLost, match="too many requests"):
                    await past.bars(day)
                assert made.busy == 1
        finally:
            await made.stop()

    run(work)
