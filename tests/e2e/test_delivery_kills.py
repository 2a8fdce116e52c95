"""Thousands of alerts on their way to twenty endpoints, and a worker killed every five seconds."""

import re
import subprocess
import sys
from pathlib import Path

from support.engines.postgres import Postgres

ROOT = Path(__file__).parents[2]
ALERTS, FEWER = 10_000, 2_400


def killed(folder: Path, alerts: int, workers: int, *database: str) -> tuple[int, int, int, set[str]]:
    """Run it: kills, requests, repeats, and what was under way as workers were killed. See `delivery_worker`."""
    call = [
        sys.executable,
        "-m",
        "tests.e2e.delivery_worker",
        str(folder),
        str(ALERTS),
        "1",
        str(workers),
        *database,
    ]
    done = subprocess.run(call, cwd=ROOT, timeout=900, check=False, capture_output=True, text=True)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    found = re.match(r"(\d+) kills, (\d+) requests, (\d+) repeats, \d+ s; during: (.*)", done.stdout)
    assert found
    kills, requests, repeats = map(int, found.groups()[:3])
    return kills, requests, repeats, {part.rsplit(" ", 1)[0] for part in found[4].split(", ")}


def test_no_alert_is_lost_and_every_repeat_has_its_id(tmp_path: Path) -> None:
    """Everybody gets every alert that is for them, under one id, numbered without a gap; a message that comes again has
    the body it had; and it comes again only where it was not taken, or one of the two workers was killed: see
    `delivery_worker` and `delivery_play.faults`."""
    kills, requests, repeats, during = killed(tmp_path / "folder", ALERTS, 2)
    assert kills >= 4
    assert requests > ALERTS / 20
    assert repeats > 0
    assert {"recording", "claiming", "firing"} <= during


def test_nor_is_one_by_four_workers_on_postgresql(tmp_path: Path) -> None:
    """The same by four, which know of each other by the database alone."""
    with Postgres() as server:
        kills, requests, _, _ = killed(tmp_path / "folder", FEWER, 4, server.url(server.database()))
    assert kills >= 4
    assert requests > FEWER / 20
