"""`outcry serve --market hyperliquid`, the installed command, against the fake vendor on loopback."""

import asyncio
import csv
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from support.vendors.hyperliquid_peer import MINUTE, MS, SECOND, HyperliquidPeer

from outcry.base.clock import SystemClock
from outcry.feeds.hyperliquid import terms
from outcry.market.instruments import Contract
from outcry.trades.records import TRADE, Rows

OUTCRY = Path(sys.executable).with_name("outcry")
START_S, LIVE_S, RUN_S = 120, 180, 120
#: Price, price step (10⁻⁹ dollars) and decimals of sizes, by coin.
COINS = {"BTC": (72_581, 10**9, 5), "ETH": (3_021, 10**8, 4), "SOL": (151, 10**7, 2)}


def tape(price: int, step_e9: int, seed: int) -> Rows:
    """Generate a random walk of trades, one in 20 s, from three days ago to an hour ahead."""
    now_ns, chance = SystemClock().now_ns(), np.random.default_rng(seed)
    first_ns = now_ns // (24 * 60 * MINUTE) * 24 * 60 * MINUTE - 3 * 24 * 60 * MINUTE
    rows = np.zeros((now_ns + 60 * MINUTE - first_ns) // (20 * SECOND), TRADE)
    rows["ts_event"] = (first_ns + np.arange(len(rows)) * 20 * SECOND) // MS * MS
    rows["price"] = (price * 10**9 // step_e9 + np.cumsum(chance.integers(-2, 3, len(rows)))) * step_e9
    rows["size"], rows["side"] = chance.integers(1, 2_000, len(rows)), b"B"
    return rows


@contextmanager
def playing(peer: HyperliquidPeer) -> Generator[None]:
    """Run the fake in a thread, at the real time."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def play() -> None:
        await peer.start()
        ready.set()
        while not over.is_set():
            await peer.advance(SystemClock().now_ns())
            await asyncio.sleep(0.05)
        await peer.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(play(),))
    thread.start()
    assert ready.wait(START_S)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(START_S)
        loop.close()


@pytest.fixture
def vendor() -> Iterator[HyperliquidPeer]:
    peer = HyperliquidPeer()
    peer.now_ns = SystemClock().now_ns()
    for seed, (coin, (price, step_e9, decimals)) in enumerate(COINS.items()):
        peer.tape(Contract(coin), tape(price, step_e9, seed))
        peer.decimals[coin] = decimals
    with playing(peer):
        yield peer


def environment(folder: Path, peer: HyperliquidPeer) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("OUTCRY_")}
    return others | {
        "OUTCRY_DATA": str(folder),
        "OUTCRY_FEED_PLACES": f"hyperliquid.api=http://127.0.0.1:{peer.port}",
    }


@contextmanager
def served(folder: Path, peer: HyperliquidPeer, *options: str) -> Generator[tuple[str, str]]:
    """Run the service until the end of the context. Yields its URL and its greeting."""
    with subprocess.Popen(
        [str(OUTCRY), "serve", "--port", "0", *options], env=environment(folder, peer),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as service:  # fmt: skip
        stop = threading.Timer(START_S, service.kill)
        stop.start()
        try:
            assert service.stdout is not None
            greeting, line = "", ""
            while not line.startswith("Symbols: "):
                line = service.stdout.readline()
                assert line, f"the service ended: {greeting}"
                greeting += line
            stop.cancel()
            threading.Thread(target=service.stdout.read, daemon=True).start()  # its log
            yield (folder / "address").read_text().strip(), greeting
        finally:
            stop.cancel()
            service.terminate()
            service.wait(timeout=60)


def outcry(folder: Path, peer: HyperliquidPeer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(OUTCRY), *arguments], env=environment(folder, peer), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=RUN_S, check=False,
    )  # fmt: skip


def asked(url: str, key: str, path: str) -> tuple[int, Any]:
    try:
        with urlopen(Request(url + path, headers={"x-api-key": key}), timeout=20) as response:
            return response.status, json.load(response)
    except HTTPError as refused:
        return refused.code, json.load(refused)


def live_levels(url: str, key: str, symbol: str, began_s: float) -> dict[str, Any]:
    """Wait for the first live answer, which needs to come within three minutes after the start (`began_s`)."""
    end_s = began_s + LIVE_S
    while True:
        status, answer = asked(url, key, f"/api/levels?symbol={symbol}")
        if status == 200 and answer["live"]:
            return answer
        assert monotonic() < end_s, f"no live level of {symbol}: {status} {answer}"
        sleep(1)


def test_from_the_first_start_to_a_level_that_only_its_user_sees(
    tmp_path: Path, vendor: HyperliquidPeer
) -> None:
    """The first level comes within three minutes after the command, and within the vendor's limits of requests."""
    vendor.limited = True
    began_s = monotonic()
    with served(tmp_path, vendor, "--market", "hyperliquid", "--accept-terms") as (url, greeting):
        assert terms.URL in greeting
        assert greeting.index(terms.VERSION) < greeting.index("key: ")
        assert "email address me@localhost.localdomain" in greeting
        key = re.findall(r"^key: (\S+)", greeting, re.MULTILINE)[0]
        answer = live_levels(url, key, "BTC-PERP", began_s)
        assert (answer["symbol"], answer["dataSource"]) == ("BTC-PERP", "personal")
        assert answer["developing"]["low"] <= answer["developing"]["poc"] <= answer["developing"]["high"]
        assert answer["prior"]["poc"] == pytest.approx(COINS["BTC"][0], rel=0.02)
        status, context = asked(url, key, "/api/context?symbol=BTC-PERP")
        assert (status, context["contract"]) == (200, "BTC-PERP")
        for symbol, tick in (("ETH-PERP", 0.1), ("SOL-PERP", 0.01)):
            poc = live_levels(url, key, symbol, began_s)["prior"]["poc"]
            assert round(poc / tick, 6) == round(poc / tick)
        other = outcry(tmp_path, vendor, "keys", "create", "--email", "other@example.com").stdout.strip()
        status, refused = asked(url, other, "/api/levels?symbol=BTC-PERP")
        assert (status, refused["code"]) == (409, "no_licensed_source")
        assert vendor.over_limit == 0
        assert (
            vendor.most_weight() <= 600
        )  # half of the limit, because other programs may share the IP address
    text = (tmp_path / "instruments" / "products.csv").read_text()
    products = list(csv.DictReader(text.splitlines()))
    assert [(row["root"], row["tick"], row["size_step"]) for row in products] == [
        ("BTC-PERP", "1", "0.00001"), ("ETH-PERP", "0.1", "0.0001"), ("SOL-PERP", "0.01", "0.01"),
    ]  # fmt: skip
    # A later start continues without terms and without the option. It prints no further key.
    with served(tmp_path, vendor, "--market", "hyperliquid") as (url, greeting):
        assert terms.VERSION not in greeting
        assert "key: " not in greeting
        assert live_levels(url, key, "BTC-PERP", monotonic())["dataSource"] == "personal"


def test_nothing_is_requested_before_the_terms_are_accepted(tmp_path: Path, vendor: HyperliquidPeer) -> None:
    done = outcry(tmp_path, vendor, "serve", "--port", "0", "--market", "hyperliquid")
    assert done.returncode == 1
    assert terms.SUMMARY in done.stderr
    assert "--accept-terms" in done.stderr
    assert vendor.requests == []
    assert not (tmp_path / "instruments").exists()


def test_a_folder_with_other_instruments_is_left_alone(tmp_path: Path, vendor: HyperliquidPeer) -> None:
    folder = tmp_path / "instruments"
    folder.mkdir()
    (folder / "products.csv").write_text("root,name\n")
    done = outcry(tmp_path, vendor, "serve", "--port", "0", "--market", "hyperliquid", "--accept-terms")
    assert done.returncode == 1
    assert "has other instruments" in done.stderr
    assert (folder / "products.csv").read_text() == "root,name\n"
    assert vendor.requests == []


def test_a_vendor_that_cannot_be_reached(tmp_path: Path, vendor: HyperliquidPeer) -> None:
    vendor.busy = 1
    done = outcry(tmp_path, vendor, "serve", "--port", "0", "--market", "hyperliquid", "--accept-terms")
    assert done.returncode == 1
    assert "The instruments cannot be read: too many requests" in done.stderr
    assert not (tmp_path / "instruments").exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--demo",), "either --demo or --market"), (("--owner", "nobody"), "Invalid --owner"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(
    tmp_path: Path, vendor: HyperliquidPeer, options: tuple[str, ...], error: str
) -> None:
    done = outcry(tmp_path, vendor, "serve", "--market", "hyperliquid", "--accept-terms", *options)
    assert done.returncode == 1
    assert error in done.stderr
