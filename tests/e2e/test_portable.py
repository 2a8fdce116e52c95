"""The commands, the service, the agent and the library on Windows, macOS and Linux.

On Linux the commands run by the rules of Windows (`windows_rules.py`). On Windows and macOS they run as they are: the
CI definition runs this file there, so it imports only what an installation and pytest provide.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.recordings.sample_files import scid, scid_ticks
from tests.timeouts import wait_until

from outcry.base.clock import SystemClock

HERE = Path(__file__).parent
LINUX = sys.platform == "linux"
#: A bar for most minutes of a regular session, all at 5500, as LEAN has it: time of day (ms), prices, volume.
MINUTES = [f"{n * 60_000},5500,5500,5500,5500,{n % 7 + 1}" for n in range(815, 1215)]
PROFILE = """
import outcry
start = 1_720_000_000_000_000_000
got = outcry.profile(
    {"ts": [start, start + 1, start + 2], "price": [10.0, 10.25, 10.25], "size": [1, 1, 2]},
    tick_size=0.25, window=(start, start + 3_600_000_000_000),
)
print(got.vpoc, got.high, got.low)
"""


class Machine:
    """Runs commands on one data folder."""

    def __init__(self, folder: Path) -> None:
        self.data, self.log = folder / "data", folder / "breaches.txt"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTCRY_")}
        self.environment = kept | {
            "OUTCRY_DATA": str(self.data),
            "OUTCRY_DISK_RESERVE_MIB": "0",
            "WINDOWS_RULES_LOG": str(self.log),
        }

    def call(self, *arguments: str) -> list[str]:
        if LINUX:
            return [sys.executable, str(HERE / "windows_rules.py"), *arguments]
        return [sys.executable, *(() if arguments[:1] == ("-c",) else ("-m", "outcry")), *arguments]

    def run(self, *arguments: str, status: int = 0, **environment: str) -> str:
        """Run a command and return what it prints; fail for another exit status."""
        done = subprocess.run(
            self.call(*arguments), env=self.environment | environment, capture_output=True, encoding="utf-8",
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def running(self, *arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
        """Run a command in the background, and stop it as a console or a service manager does."""
        group = {} if sys.platform != "win32" else {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        errors = self.log.with_name(f"stderr-{arguments[0]}-{time.monotonic_ns()}.txt")
        with errors.open("w+", encoding="utf-8") as shown:
            process = subprocess.Popen(
                self.call(*arguments), env=self.environment | environment, stdout=subprocess.PIPE, stderr=shown,
                encoding="utf-8", **group,
            )  # fmt: skip
            try:
                yield process
            finally:
                process.send_signal(signal.CTRL_BREAK_EVENT if sys.platform == "win32" else signal.SIGTERM)
                try:
                    process.communicate(timeout=60)
                finally:
                    process.kill()
                    sys.stdout.write(errors.read_text(encoding="utf-8"))  # pytest shows it if the test fails


def get(url: str, key: str = "") -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers={"x-api-key": key} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def levels(url: str, key: str) -> dict[str, Any]:
    status, body = get(f"{url}/api/levels?symbol=ES", key)
    return {"status": status, **json.loads(body)}


def recorded(folder: Path, day: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"2024070{day}_trade.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"2024070{day}_es_minute_trade_202409.csv", "\n".join(MINUTES) + "\n")
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Commands on a new data folder; afterwards nothing may have been done that Windows refuses or does wrong."""
    machine = Machine(tmp_path)
    yield machine
    assert not machine.log.exists() or machine.log.read_text() == ""


@pytest.mark.skipif(not LINUX, reason="Windows and macOS run the commands without these rules")
@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        ("import fcntl", "ModuleNotFoundError"),
        ("import resource", "ModuleNotFoundError"),
        ("import os; os.pread", "has no attribute 'pread'"),
        ("import os; os.O_NOFOLLOW", "has no attribute 'O_NOFOLLOW'"),
        ("import signal; signal.SIGKILL", "has no attribute 'SIGKILL'"),
        ("import os; os.open('.', os.O_RDONLY)", "Windows opens no folder"),
        ("import os; f = open('f', 'w'); os.unlink('f')", "Windows deletes no open file"),
        (
            "import os; open('a', 'w').close(); b = open('b', 'w'); os.replace('a', 'b')",
            "replaces no open file",
        ),
        ("import asyncio; asyncio.new_event_loop().add_signal_handler(15, print)", "NotImplementedError"),
        ("import os; os.open('plain', os.O_WRONLY | os.O_CREAT)", "opened without O_BINARY"),
        ("open('10:30.txt', 'w')", "Windows does not allow the name '10:30.txt'"),
        ("import os; os.mkdir('aux')", "Windows does not allow the name 'aux'"),
    ],
)
def test_the_rules_of_windows_hold(tmp_path: Path, code: str, refusal: str) -> None:
    machine = Machine(tmp_path)
    done = subprocess.run(
        machine.call("-c", code), cwd=tmp_path, env=machine.environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert refusal in done.stderr + machine.log.read_text()


def test_help_version_and_the_library(machine: Machine) -> None:
    assert "Run the service" in machine.run("--help")
    assert re.match(r"\d+\.\d+\.\d+", machine.run("--version"))
    assert machine.run("-c", PROFILE).split() == ["10.25", "10.25", "10.0"]


def test_import_keys_service_replay_doctor_and_backup(machine: Machine, tmp_path: Path) -> None:
    for day in (1, 2):
        assert f"2024-07-0{day}" in machine.run("import", str(recorded(tmp_path / "in", day)))
    key = machine.run("keys", "create", "--email", "me@example.com").strip()
    assert re.fullmatch(r"outcry_[0-9A-Za-z]{49}", key)
    with machine.running("serve", "--port", "0"):
        address = machine.data / "address"
        url = wait_until(lambda: address.exists() and address.read_text().strip())
        answer = levels(url, key)
        assert (answer["status"], answer["asOf"], answer["prior"]["poc"]) == (200, "2024-07-02", 5500)
        assert json.loads(machine.run("levels", "ES", OUTCRY_KEY=key))["asOf"] == "2024-07-02"
        played = machine.run("replay", str(recorded(tmp_path / "in", 3)), "--speed", "0")
        assert played.startswith("Played 400 rows of ESU2024")
        assert "No faults found." in machine.run("doctor")
        machine.run("backup", str(tmp_path / "copy"))
    assert not address.exists()  # the service was stopped and not killed
    assert "No faults found." in machine.run("doctor", OUTCRY_DATA=str(tmp_path / "copy"))
    for _ in range(3):
        machine.run("backup", str(tmp_path / "dated"), "--keep", "2")
    assert len(list((tmp_path / "dated").glob("outcry-*"))) == 2
    assert key[:15] in machine.run("keys", "list")
    machine.run("keys", "revoke", key[:15])
    machine.run("vault", "status")


def test_the_demo_serves_live_levels_and_pages(machine: Machine) -> None:
    with machine.running("serve", "--demo", "--port", "0") as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(4)]
        url, key = printed[0].split()[3], printed[2].split()[1]
        answer = wait_until(
            lambda: (found := levels(url, key)) and found["status"] == 200 and found["live"] and found
        )
        assert answer["developing"]["poc"] > 0
        status, page = get(f"{url}/levels/ES")
        assert (status, b"<html" in page) == (200, True)
        assert get(f"{url}/metrics")[0] == 200


def test_the_agent_checks_and_sends_a_growing_file(machine: Machine, tmp_path: Path) -> None:
    key = machine.run("keys", "create", "--email", "me@example.com", "--ingest").strip()
    with machine.running("serve", "--port", "0"):
        address = machine.data / "address"
        url = wait_until(lambda: address.exists() and address.read_text().strip())
        folder = tmp_path / "agent"
        config = folder / "agent.toml"
        machine.run("agent", "init", str(config))
        assert "[[feed]]" in config.read_text(encoding="utf-8")
        contract = machine.run("-c", FRONT).strip()
        now_us = SystemClock().now_ns() // 1000
        (folder / contract).write_bytes(
            scid() + scid_ticks([6000.0, 6000.25], now_us - 600_000_000)[len(scid()) :]
        )
        config.write_text(
            f'service = "{url}"\n[[feed]]\nscid = "{contract}"\nname = "mine"\n', encoding="utf-8"
        )
        machine.run("agent", "check", "--config", str(config), OUTCRY_KEY=key)
        with machine.running("agent", "--config", str(config), "--log", "json", OUTCRY_KEY=key):
            wait_until(lambda: list(machine.data.glob("live/*/mine/*/*.log")))
    assert list(folder.glob("spool/**/*.log")) == [] or (folder / "spool").is_dir()
    assert "No faults found." in machine.run("doctor")


#: Prints the name of Sierra Chart's file of the front contract of ES.
FRONT = """
from datetime import UTC, datetime
from outcry.base.clock import SystemClock
from outcry.trades.reference_tables import load_reference
day = datetime.fromtimestamp(SystemClock().now_ns() // 10**9, UTC).date()
front = load_reference().universe.front("ES", day)
print(f"{front.short_key[:-1]}{front.year % 100}_FUT_CME.scid")
"""
