"""The installed command on a disk frozen with `fsfreeze` for 15 seconds during a live market."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).with_name("outcry"))
PROBES = ("/readyz", "/healthz")
ANSWERS = ("/api/levels?symbol=ES", "/api/context?symbol=ES", "/api/symbols", "/")
FROZEN_S = 15.0


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in a file."""
    if os.geteuid() or not all(map(shutil.which, ("fsfreeze", "mkfs.ext4", "mount", "umount"))):
        pytest.skip("freezing a file system needs root, and mkfs.ext4, mount and fsfreeze")
    image, place = tmp_path / "image", tmp_path / "volume"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True).returncode:
        pytest.skip("this machine mounts no file as a disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


class Served:
    """The demonstration, its data on the volume."""

    def __init__(self, place: Path) -> None:
        self.errors = (place.parent / "errors").open("w")
        env = {**os.environ, "OUTCRY_DATA": str(place / "data"), "OUTCRY_DISK_RESERVE_MIB": "0"}
        call = [COMMAND, "serve", "--demo", "--port", "0"]
        self.process = subprocess.Popen(call, env=env, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        assert self.process.stdout is not None
        first, second = self.process.stdout.readline(), self.process.stdout.readline()
        found = re.search(r"http://localhost:(\d+)", first)
        assert found
        self.port, self.key = int(found[1]), second.split()[1]

    def get(self, path: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path, headers={"x-api-key": self.key})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def state(self) -> str:
        return json.loads(self.get("/api/context?symbol=ES")[1])["state"]

    def until(self, state: str) -> None:
        deadline = time.monotonic() + 60
        while self.state() != state:
            assert time.monotonic() < deadline, f"it is {self.state()}, not {state}"
            time.sleep(0.1)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.errors.close()
            if self.process.stdout is not None:
                self.process.stdout.close()


@pytest.mark.soak
def test_fifteen_seconds_of_a_frozen_disk(volume: Path) -> None:
    """Every answer is 200 all the time; the stream says `log_stalled`, then is live by itself; readiness and health are
    degraded meanwhile, and the store, the log and the tape are in order after it."""
    served = Served(volume)
    try:
        served.until("live")
        for path in ANSWERS:
            assert served.get(path)[0] == 200
        subprocess.run(["fsfreeze", "-f", volume], check=True)
        try:
            thaw_s = time.monotonic() + FROZEN_S
            served.until("log_stalled")
            while time.monotonic() < thaw_s:
                for path in ANSWERS:
                    assert (path, *served.get(path))[:2] == (path, 200)
                for probe in PROBES:
                    status, body = served.get(probe)
                    assert (status, json.loads(body)) == (
                        200,
                        {"status": "degraded", "parts": ["disk", "log"]},
                    )
                assert json.loads(served.get(ANSWERS[0])[1])["dataSource"] == "delayed"
                time.sleep(0.5)
        finally:
            subprocess.run(["fsfreeze", "-u", volume], check=True)
        served.until("live")
        assert json.loads(served.get("/readyz")[1]) == {"status": "ready"}
    finally:
        assert served.stop() in {0, -signal.SIGTERM}
    call = [COMMAND, "doctor", "--data", str(volume / "data")]
    done = subprocess.run(call, check=False, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "No faults found.", done.stdout
