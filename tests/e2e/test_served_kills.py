"""The real commands: a service that is killed and restarted while recordings are pushed to it."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.engines.ports import free_ports

from outcry.app.installation import LOG_FOLDER, open_installation
from outcry.app.settings import read_settings

OUTCRY = Path(sys.executable).with_name("outcry")
#: Number of kills of the service: in `make test`, and in a campaign.
FEW_KILLS, KILLS = 3, 20
#: Plays about three days in eight seconds without faults.
SPEED = 36_000


class CommandHarness:
    """A data folder, and the commands that run on it."""

    def __init__(self, folder: Path, files: Path) -> None:
        self.folder, self.files, self.port = folder, files, free_ports(1)[0]
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "OUTCRY_DATA": str(folder),
            "OUTCRY_URL": f"http://127.0.0.1:{self.port}", "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }  # fmt: skip
        folder.mkdir(parents=True)
        self.service = self.serve()

    def serve(self) -> subprocess.Popen[bytes]:
        with (self.folder / "service.log").open("ab") as log:
            return subprocess.Popen(
                [OUTCRY, "serve", "--port", str(self.port)], env=self.environment, stdout=log, stderr=log
            )

    def ready(self) -> None:
        deadline_s = time.monotonic() + 90
        while time.monotonic() < deadline_s:
            assert self.service.poll() is None, (self.folder / "service.log").read_text()[-3000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise AssertionError("the service does not come up")

    @contextmanager
    def replay(self, speed: int) -> Iterator[subprocess.Popen[str]]:
        call = [OUTCRY, "replay", str(self.files), "--contract", "ESZ3", "--speed", str(speed)]
        with subprocess.Popen(
            call, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def kill(self) -> None:
        self.service.kill()
        self.service.wait()
        self.service = self.serve()

    def stop(self) -> None:
        self.ready()
        self.service.send_signal(signal.SIGTERM)
        assert self.service.wait(30) in {0, -signal.SIGTERM}

    def outcome(self) -> tuple[Sequence[Any], Sequence[Any]]:
        with open_installation(read_settings({}, data=str(self.folder))) as installation:
            alerts = [replace(row, seq=0) for row in installation.alerts.alerts([0], limit=10_000)]
            sessions = [replace(row, received_ns=0) for row in installation.store.sessions([0], "ES")]
            return alerts, sessions


def played(folder: Path, files: Path, kills: int, chance: random.Random) -> tuple[CommandHarness, int]:
    """Replay to the end with up to this many kills of the service; return their number."""
    harness, killed = CommandHarness(folder, files), 0
    try:
        harness.ready()
        with harness.replay(SPEED if kills else 0) as replay:
            while kills and replay.poll() is None and not any((folder / LOG_FOLDER).glob("*/*/*/*.log")):
                time.sleep(0.02)  # until it has been heard once, for at first it has little patience
            while killed < kills and replay.poll() is None:
                time.sleep(chance.uniform(0.1, 2.0))  # its start takes a moment
                if replay.poll() is None:
                    harness.kill()
                    killed += 1
            output, _ = replay.communicate(timeout=120)
            assert replay.returncode == 0, output + (harness.folder / "service.log").read_text()[-3000:]
            assert output.startswith(
                "Played 4,205 rows of ESZ2013, 2013-10-06T22:00:00Z to 2013-10-09T23:59:00Z"
            )
        harness.stop()
    finally:
        harness.service.kill()
        harness.service.wait()
    return harness, killed


@pytest.mark.parametrize("wanted", [FEW_KILLS, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_a_service_killed_while_a_replay_goes_on_comes_to_the_same(
    shared: Path, tmp_path: Path, wanted: int
) -> None:
    """Three sessions of real minute bars of ES; the replay resends all unacknowledged events."""
    files, chance = shared / "data/lean/cme/minute/es", random.Random(2)
    expected = played(tmp_path / "undisturbed", files, 0, chance)[0].outcome()
    assert len(expected[0]) > 10
    assert len([row for row in expected[1] if row.complete]) >= 5
    kills = rounds = 0
    while kills < wanted:
        rounds += 1
        harness, killed = played(tmp_path / f"round-{rounds}", files, wanted - kills, chance)
        kills += killed
        assert harness.outcome() == expected
    sys.stdout.write(f"{kills} kills of the service in {rounds} rounds\n")
