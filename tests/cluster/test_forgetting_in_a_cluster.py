"""`outcry import`, `--list` and `--forget` with PostgreSQL, while processes of a cluster answer from the same data."""

import csv
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from support.engines.jetstream import JetStream
from support.engines.ports import free_ports
from support.engines.postgres import Postgres
from tests.installations import write_zip
from tests.timeouts import wait_until

OUTCRY = Path(sys.executable).with_name("outcry")
DAYS = [date(2024, 7, 9) + timedelta(days=day) for day in range(3)]
HISTORY = f"/api/history?symbol=ES&from={DAYS[0]}&to={DAYS[-1]}"
OWNER = "ann@example.com"
RUN_S = 120


def write(folder: Path, name: str, day: date, seed: int) -> Path:
    """Write 13,500 trades of a regular session of ES. The prices are random, so that tape files take over 20 kB."""
    chance, price, lines = random.Random(seed), 22_000, list[str]()
    for second in range(0, 405 * 60, 18):
        for part in range(10):
            price += chance.randint(-3, 3)
            ms = (13 * 3600 + 1800 + second) * 1000 + 100 * part + seed
            lines.append(f"{ms},{price // 4}.{price % 4 * 25:02d},{chance.randint(1, 500)},cme,,0")
    return write_zip(
        folder / name, f"{name}_{day:%Y%m%d}_trade.zip", f"{day:%Y%m%d}_es_tick_trade_202409.csv", lines
    )


@dataclass
class Cluster:
    """An engine and an API process, and the environment of commands."""

    environment: dict[str, str]
    port: int
    key: str = ""

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [OUTCRY, *arguments], env=self.environment, capture_output=True, text=True, timeout=RUN_S, check=False,
            stdin=subprocess.DEVNULL, **options,
        )  # fmt: skip

    def done(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str) -> tuple[int, Any]:
        request = Request(f"http://127.0.0.1:{self.port}{path}", headers={"x-api-key": self.key})
        try:
            with urlopen(request, timeout=20) as response:
                return response.status, json.load(response)
        except HTTPError as refused:
            return refused.code, json.load(refused)

    def answers(self) -> bool:
        try:
            return self.get("/healthz")[0] == 200
        except (URLError, OSError):
            return False

    def history(self) -> Any:
        """Return the history over HTTP and the levels of the newest session, with naked POCs."""
        status, history = self.get(HISTORY)
        found, levels = self.get("/api/levels?symbol=ES")
        return (status, history, found, levels)

    def imports(self) -> list[dict[str, str]]:
        text = self.done("import", "--list", "--owner", OWNER, "--output", "csv")
        return list(csv.DictReader(StringIO(text)))


@pytest.fixture
def cluster(tmp_path: Path, postgres: Postgres, jetstream: JetStream) -> Iterator[Cluster]:
    database = postgres.database()
    ports = free_ports(2)
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "OUTCRY_DATA": str(tmp_path / "data"),
        "OUTCRY_SECRET": "0123456789abcdef", "OUTCRY_VAULT_KEYS": "k1:" + "7" * 64,
        "OUTCRY_CLUSTER": jetstream.urls, "OUTCRY_DATABASE_URL": postgres.url(database).replace("+psycopg", ""),
    }  # fmt: skip
    log = (tmp_path / "log").open("wb")
    processes = [
        subprocess.Popen(
            [OUTCRY, "serve", "--role", role, "--port", str(port)], env=environment, stdout=log, stderr=log
        )
        for role, port in zip(("engine", "api"), ports, strict=True)
    ]
    made = Cluster(environment, ports[1])
    try:
        wait_until(made.answers, "the API process answers")
        made.key = made.done("keys", "create", "--email", OWNER, "--tier", "admin").strip()
        yield made
    finally:
        for process in processes:
            process.kill()
            process.wait()
        log.close()
        postgres.drop(database)


def small_files() -> None:
    """Let every write past 20 kB fail, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def equals(cluster: Cluster, expected: Any) -> Callable[[], bool]:
    """Return a condition: the API process answers as expected. It reads changes of the database within a second."""
    return lambda: cluster.history() == expected


def test_a_file_that_is_forgotten_in_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Killed at any moment, a forget changes nothing or everything; repeated, it ends as if the file never came.

    The file overlaps two others of the first day, so forgetting it writes a tape file. A full disk changes nothing.
    """
    kept = [write(tmp_path, f"kept{n}", day, n) for n, day in enumerate([*DAYS, DAYS[0]])]
    gone = write(tmp_path, "gone", DAYS[0], 50)
    cluster.done("import", "--owner", OWNER, *map(str, kept))
    wait_until(lambda: cluster.history()[2] == 200, "the imported sessions are answered")
    without = cluster.history()
    assert [row["date"] for row in without[1]["sessions"]] == [str(day) for day in DAYS]
    listed = cluster.imports()
    assert [row["name"] for row in listed] == [path.name for path in kept]
    chance = random.Random(20240709)
    for attempt in range(3):
        cluster.done("import", "--owner", OWNER, str(gone))
        wait_until(lambda: cluster.history() != without, "the further file changes the levels")
        with_file = cluster.history()
        assert [row["name"] for row in cluster.imports()] == [*(path.name for path in kept), gone.name]
        if attempt == 0:
            refused = cluster.run("import", "--forget", "--owner", OWNER, str(gone), preexec_fn=small_files)
            assert refused.returncode == 1
            assert refused.stderr.startswith("outcry import: Nothing was forgotten.")
            assert "Traceback" not in refused.stderr
            assert cluster.history() == with_file
            assert "No faults found." in cluster.done("doctor")
        forgetting = subprocess.Popen(
            [OUTCRY, "import", "--forget", "--owner", OWNER, str(gone)], env=cluster.environment
        )
        time.sleep(0.3 + chance.random() * 1.5)
        forgetting.kill()
        forgetting.wait()
        assert cluster.history() in (without, with_file)
        repeated = cluster.run("import", "--forget", "--owner", OWNER, str(gone))
        assert repeated.returncode == 0 or "No import is named" in repeated.stderr
        wait_until(equals(cluster, without), "the levels without the file")
        assert cluster.imports() == listed
        assert "No faults found." in cluster.done("doctor")
