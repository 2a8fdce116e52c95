"""The parts of a cluster start in any order."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from support.engines.ports import free_ports
from support.engines.postgres import Postgres
from tests.timeouts import wait_until

OUTCRY = Path(sys.executable).with_name("outcry")


def test_a_process_waits_for_a_database_that_starts_after_it(tmp_path: Path) -> None:
    port, nowhere = free_ports(2)
    with Postgres() as postgres:
        database = postgres.database()
        postgres.stop()
        environment = {
            "PATH": os.environ["PATH"], "HOME": "/nonexistent",
            "OUTCRY_DATA": str(tmp_path / "data"), "OUTCRY_SECRET": "0123456789abcdef",
            "OUTCRY_CLUSTER": f"nats://127.0.0.1:{nowhere}", "OUTCRY_ROLE": "api",
            "OUTCRY_DATABASE_URL": postgres.url(database),
        }  # fmt: skip
        log_path = tmp_path / "said"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [OUTCRY, "serve", "--port", str(port)], env=environment, stdout=log, stderr=log
            )
        try:
            wait_until(lambda: "Retrying" in log_path.read_text(), "it waits")
            assert process.poll() is None
            postgres.start()
            wait_until(lambda: _answers(port), "it answers")
        finally:
            process.kill()
            process.wait()
    assert log_path.read_text().count("Retrying") == 1


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return answer.status == 200
    except (URLError, OSError):
        return False
