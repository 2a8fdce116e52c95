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
from tests.timeouts import wait_until

COMMAND = str(Path(sys.executable).with_name("outcry"))
PROBES = ("/readyz", "/healthz")
ANSWERS = ("/api/levels?symbol=ES", "/api/context?symbol=ES", "/api/symbols", "/")
FROZEN_S = 15.0


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of its own, stored in a file."""
    if os.geteuid() or not all(map(shutil.which, ("fsfreeze", "mkfs.ext4", "mount", "umount"))):
        pytest.fail("freezing a file system needs root, and mkfs.ext4, mount and fsfreeze")
    image, place = tmp_path / "image", tmp_path / "volume"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True).returncode:
        pytest.fail("this machine mounts no file as a disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


class DemoProcess:
    """The demo with its data on the volume, in a process of its own."""

    def __init__(self, place: Path) -> None:
        self.errors = (place.parent / "errors").open("w")
        env = {**os.environ, "OUTCRY_DATA": str(place / "data"), "OUTCRY_DISK_RESERVE_MIB": "0"}
        call = [COMMAND, "serve", "--demo", "--port", "0"]
        self.process = subprocess.Popen(call, env=env, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://localhost:(\d+)", self.process.stdout.readline())
        assert found
        self.port = int(found[1])
        # The key that the demo prints allows too few requests a minute for this test.
        create = [COMMAND, "keys", "create", "--email", "operator@example.com", "--tier", "admin"]
        self.key = subprocess.run(create, env=env, check=True, capture_output=True, text=True).stdout.strip()

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
        wait_until(lambda: self.state() == state, lambda: f"it is {self.state()}, not {state}", poll_s=0.1)

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
    """All answers stay 200 while the stream is `log_stalled` and the probes are degraded; it recovers without loss."""
    served = DemoProcess(volume)
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
