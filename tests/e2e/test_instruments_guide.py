"""The guide of own instruments by its own commands, from an empty folder to levels and live alerts of a replay."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.arch.docs_blocks import blocks
from tests.timeouts import wait_until

OUTCRY = Path(sys.executable).with_name("outcry")
PAGE = "guides/instruments"
RUN_S = 240


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTCRY_")}
    kept["PATH"] = f"{OUTCRY.parent}{os.pathsep}{kept['PATH']}"
    data = str(tmp_path / "data")
    return {**kept, "OUTCRY_DATA": data, "OUTCRY_DISK_RESERVE_MIB": "0", "PYTHONUNBUFFERED": "1"}


def recorded(path: Path, opens: datetime, closes: datetime, price: int, drift: float) -> None:
    """Write a file of trades, one every ten seconds; `drift`: mean change of the price from trade to trade."""
    draw, at, lines, now = random.Random(7), opens, ["ts,price,size"], float(price)
    while at < closes:
        now += draw.choice([-2, -1, 0, 1, 2]) + drift
        lines.append(f"{at:%Y-%m-%dT%H:%M:%SZ},{round(now)},{draw.randint(1, 5)}")
        at += timedelta(seconds=10)
    path.write_text("\n".join(lines) + "\n")


def both_days(folder: Path, contract: str) -> None:
    """Write the two files that the guide names: the second day rises out of the first day's value area."""
    for day, drift in ((19, 0.0), (20, 0.05)):
        opens = datetime(2026, 11, day, 6, 50, tzinfo=UTC)
        closes = datetime(2026, 11, day, 21, 0, tzinfo=UTC)
        recorded(folder / f"{contract}-2026-11-{day}.csv", opens, closes, 5600, drift)


def run(script: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}: {done.stderr}"
    return done.stdout


@contextmanager
def serving(command: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Run the guide's `outcry serve`, on a free port."""
    address = Path(environment["OUTCRY_DATA"]) / "address"
    with subprocess.Popen(
        [*command.split(), "--port", "0"], cwd=folder, env=environment, stderr=subprocess.DEVNULL
    ) as service:
        try:
            wait_until(lambda: address.exists() and address.read_text().strip())
            yield
        finally:
            service.terminate()
            service.wait(timeout=60)


def scripts(root: str) -> Sequence[str]:
    """Return the guide's shell blocks in order, for a product: FESX as written, or another one."""
    return [block.code.replace("FESX", root) for block in blocks("sh") if block.page == PAGE]


def levels_and_alerts(root: str, folder: Path, environment: dict[str, str]) -> None:
    """Follow the guide from its check of the tables to live alerts."""
    _, check, serve, first, live = scripts(root)
    shown = run(check, folder, environment)
    assert shown.count(f"{root}\tproducts.csv sessions.csv") == 1
    assert "2026-11-19\trth" in shown
    follow, replay = live.strip().splitlines()
    with serving(serve.strip(), folder, environment):
        printed = run(f"{first}\necho KEY=$OUTCRY_KEY", folder, environment)
        answer, _, key = printed[printed.index("{") :].partition("KEY=")
        levels = json.loads(answer)
        assert (levels["symbol"], levels["asOf"]) == (root, "2026-11-19")
        environment["OUTCRY_KEY"] = key.strip()
        with subprocess.Popen(
            follow.split(), cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        ) as alerts:
            try:
                assert replay.count("--speed 60") == 1
                run(replay.replace("--speed 60", "--speed 0"), folder, environment)
                assert alerts.stdout is not None
                alert = json.loads(alerts.stdout.readline())
            finally:
                alerts.kill()
        assert (alert["symbol"], alert["tradeDate"]) == (root, "2026-11-20")


def test_an_example(tmp_path: Path, environment: dict[str, str]) -> None:
    both_days(tmp_path, "FESXZ6")
    add = scripts("FESX")[0]
    assert "FDAX" in run(add, tmp_path, environment)
    levels_and_alerts("FESX", tmp_path, environment)


def test_a_product_of_one_s_own(tmp_path: Path, environment: dict[str, str]) -> None:
    """The guide's first rows of products and hours, as a reader copies them."""
    both_days(tmp_path, "FSMIZ6")
    tables = [block.code for block in blocks("csv") if block.page == PAGE and "\nFSMI," in block.code]
    folder = tmp_path / "data" / "instruments"
    folder.mkdir(parents=True)
    for name, table in zip(("products.csv", "sessions.csv"), tables, strict=True):
        (folder / name).write_text(table)
    levels_and_alerts("FSMI", tmp_path, environment)


def test_all_tables_of_the_guide_are_valid_together(tmp_path: Path, environment: dict[str, str]) -> None:
    """Rows of both products in one table each, and the holidays of Hong Kong."""
    folder = tmp_path / "data" / "instruments"
    folder.mkdir(parents=True)
    for block in (block for block in blocks("csv") if block.page == PAGE):
        header, *rows = block.code.strip().splitlines()
        name = {"root": "products", "roots": "sessions", "date": "holidays"}[header.partition(",")[0]]
        path = folder / f"{name}.csv"
        path.write_text("\n".join([path.read_text().rstrip() if path.exists() else header, *rows, ""]))
    assert "HSI\tproducts.csv sessions.csv holidays.csv" in run(
        "outcry instruments check", tmp_path, environment
    )
