"""Alerts to twenty endpoints while delivery workers are killed, one every five seconds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.engines.postgres import Postgres

ROOT = Path(__file__).parents[2]
#: Alerts of a campaign: how many a worker records decides for how long kills go on.
ALERTS, POSTGRESQL_ALERTS, FEW_ALERTS = 10_000, 2_400, 3_000


def killed(folder: Path, alerts: int, workers: int, *database: str) -> tuple[int, int, int, set[str]]:
    """Run `delivery_worker`; return kills, requests, repeats, and what was under way when workers were killed.

    Everybody receives every alert addressed to them, under one id, numbered without a gap. A repeated message has the
    body it had, and is repeated only where it was refused or a worker was killed: see `delivery_play.faults`.
    """
    call = [sys.executable, "-m", "tests.e2e.delivery_worker", str(folder), str(alerts), "1", str(workers)]
    done = subprocess.run(
        [*call, *database], cwd=ROOT, timeout=900, check=False, capture_output=True, text=True
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    found = re.match(r"(\d+) kills, (\d+) requests, (\d+) repeats, \d+ s; during: (.*)", done.stdout)
    assert found
    kills, requests, repeats = map(int, found.groups()[:3])
    return kills, requests, repeats, {part.rsplit(" ", 1)[0] for part in found[4].split(", ")}


def test_a_killed_worker_loses_no_alert(tmp_path: Path) -> None:
    """A short campaign with two workers on SQLite."""
    kills, requests, repeats, _ = killed(tmp_path / "folder", FEW_ALERTS, 2)
    assert kills >= 1
    assert requests > FEW_ALERTS / 20
    assert repeats > 0


@pytest.mark.soak
def test_no_alert_is_lost_and_every_repeat_has_its_id(tmp_path: Path) -> None:
    kills, requests, repeats, during = killed(tmp_path / "folder", ALERTS, 2)
    assert kills >= 4
    assert requests > ALERTS / 20
    assert repeats > 0
    assert {"recording", "claiming", "firing"} <= during


@pytest.mark.soak
def test_nor_is_one_by_four_workers_on_postgresql(tmp_path: Path) -> None:
    """Four workers, which see each other through the database alone."""
    with Postgres() as server:
        database = server.url(server.database())
        kills, requests, _, _ = killed(tmp_path / "folder", POSTGRESQL_ALERTS, 4, database)
    assert kills >= 4
    assert requests > POSTGRESQL_ALERTS / 20
