"""`outcry agent` as a user runs it: a growing Sierra Chart file, a service on a real socket, kills of both."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.e2e.test_replay_command import Service, command, outcry, serving
from tests.recordings.sample_files import scid, scid_ticks
from tests.timeouts import wait_until

from outcry.access.key_format import compose
from outcry.base.clock import SystemClock
from outcry.market.reference import PRODUCT_COLUMNS
from outcry.market.reference_hours import HOURS_COLUMNS
from outcry.trades.feed import Event, Status, Trades
from outcry.trades.reference_tables import load_reference

#: How often the agent and the service are killed: in `make test`, and in a campaign.
FEW_KILLS, KILLS = 6, 25
NOW_S = SystemClock().now_ns() // 10**9
ESZ = load_reference().universe.front("ES", datetime.fromtimestamp(NOW_S, UTC).date())
FILE = f"{ESZ.short_key[:-1]}{ESZ.year % 100}_FUT_CME.scid"


def ticks(*prices: float, ago_s: int) -> bytes:
    """Records of one tick a second, without a header; the first so long ago."""
    return scid_ticks(list(prices), (NOW_S - ago_s) * 1_000_000)[len(scid()) :]


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


class Harness:
    """A folder with the agent's file, and a service to push to."""

    def __init__(self, folder: Path, service: Service, role: str = "ingest") -> None:
        self.folder, self.service = folder, service
        self.key = service.installation.keys.create("ann@example.com", "free", 0, role=role)  # pyright: ignore[reportArgumentType]
        folder.mkdir()
        self.config = folder / "agent.toml"
        self.config.write_text(f'service = "{service.url}"\n[[feed]]\nscid = "{FILE}"\nname = "mine"\n')
        self.file = folder / FILE
        self.file.write_bytes(scid() + ticks(6000.0, 6000.25, 6000.5, ago_s=600))

    def run(self, *more: str) -> "subprocess.Popen[str]":
        call = command("agent", "--config", str(self.config), "--log", "json", *more, OUTCRY_KEY=self.key)
        return subprocess.Popen(**call, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def check(self, **more: str) -> "subprocess.CompletedProcess[str]":
        return outcry("agent", "check", "--config", str(self.config), **({"OUTCRY_KEY": self.key} | more))

    @property
    def events(self) -> list[Event]:
        return self.service.got.get((1, "mine", ESZ), [])

    def prices(self) -> list[float]:
        rows = [event.rows["price"].tolist() for event in self.events if isinstance(event, Trades)]
        return [price / 1e9 for some in rows for price in some]

    def statuses(self) -> list[str]:
        return [event.code for event in self.events if isinstance(event, Status)]


def test_a_growing_file_is_pushed_and_an_end_is_a_clean_one(tmp_path: Path) -> None:
    """What is in the file, what is added to it, and after another start what was added meanwhile."""
    with serving(tmp_path / "data") as service:
        harness = Harness(tmp_path / "agent", service)
        with harness.run() as agent:
            wait_until(lambda: harness.prices() == [6000.0, 6000.25, 6000.5])
            wait_until(lambda: harness.statuses()[-1:] == ["subscribed"])
            add(harness.file, ticks(6000.75, ago_s=300))
            wait_until(lambda: harness.prices()[-1] == 6000.75)
            second = outcry("agent", "--config", str(harness.config), OUTCRY_KEY=harness.key)
            assert (second.returncode, second.stderr.count("\n")) == (1, 1)
            assert "Another agent already uses" in second.stderr
            agent.send_signal(signal.SIGTERM)
            _, output = agent.communicate(timeout=60)
        assert agent.returncode == 0
        assert harness.statuses()[-1] == "agent_stopped"
        lines = [json.loads(line) for line in output.splitlines()]
        assert [line["phase"] for line in lines if "contract" in line] == ["catching_up", "live", "stopped"]
        assert harness.key not in output
        known = len(harness.prices())
        add(harness.file, ticks(6001.0, 6001.25, ago_s=200))
        with harness.run() as agent:
            wait_until(lambda: harness.prices()[-2:] == [6001.0, 6001.25])
            agent.send_signal(signal.SIGINT)
            agent.communicate(timeout=60)
        assert agent.returncode == 0
        # A new run repeats its rows, and the service recognises new ones by its own log.
        again = harness.prices()[known:]
        assert again == [6000.0, 6000.25, 6000.5, 6000.75, 6001.0, 6001.25]


def test_instruments_of_the_user_are_read_beside_the_configuration(tmp_path: Path) -> None:
    """ZZZ is no product of ours: without its tables the name of its file has no contract."""
    name = f"ZZZ{FILE[2:]}"
    (tmp_path / "agent.toml").write_text(f'service = "http://127.0.0.1:9"\n[[feed]]\nscid = "{name}"\n')
    (tmp_path / name).write_bytes(scid() + ticks(6000.0, ago_s=600))
    call = ("agent", "check", "--config", str(tmp_path / "agent.toml"))
    key = compose(1)
    before = outcry(*call, OUTCRY_KEY=key)
    assert (before.returncode, "the file name has no contract" in before.stderr) == (2, True)
    folder = tmp_path / "instruments"
    folder.mkdir()
    own = "2026-11-23,\n"
    (folder / "products.csv").write_text(
        f"{PRODUCT_COLUMNS}\nZZZ,Own,CME,index,,0.25,1,points,HMUZ,,,America/New_York,none,third_friday,none,1,,,test,{own}"
    )
    (folder / "sessions.csv").write_text(
        f"{HOURS_COLUMNS}\nZZZ,,Mon-Sun,2020-01-01,,00:00-24:00,00:00-24:00,test,{own}"
    )
    after = outcry(*call, OUTCRY_KEY=key)
    assert f"ZZZ{ESZ.key[2:]}\tsubscribed\tok" in after.stdout


def test_a_service_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        harness = Harness(tmp_path / "agent", service)
        address = service.url
    with harness.run() as agent:
        assert agent.stderr is not None
        output: list[str] = []
        for line in agent.stderr:
            event = json.loads(line)
            output.append(event.get("phase", event["event"]))
            if {"live", "push_rejected"} <= set(output):
                break
        add(harness.file, ticks(6000.75, ago_s=300))
        with serving(tmp_path / "data", port=int(address.rpartition(":")[2])) as later:
            harness.service = later
            wait_until(lambda: harness.prices() == [6000.0, 6000.25, 6000.5, 6000.75])
            agent.send_signal(signal.SIGTERM)
            agent.communicate(timeout=60)
    assert agent.returncode == 0


def test_check_says_what_is_missing(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        harness = Harness(tmp_path / "agent", service)
        done = harness.check()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "failed" not in done.stdout
        reading = service.installation.keys.create("ann@example.com", "free", 0)
        done = harness.check(OUTCRY_KEY=reading)
        assert done.returncode == 1
        assert "Create a key for pushing" in done.stdout
        harness.file.unlink()
        done = harness.check()
        assert done.returncode == 1
        assert "The file does not exist" in done.stdout
        assert harness.events == []  # nothing was sent
    done = harness.check()
    assert done.returncode == 1
    assert "does not respond" in done.stdout
    assert harness.key not in done.stdout + done.stderr


def test_it_begins_with_an_example(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    none = outcry("agent", "--config", str(path))
    assert (none.returncode, none.stderr.count("\n")) == (2, 1)
    assert "outcry agent init" in none.stderr
    assert outcry("agent", "init", str(path)).returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    again = outcry("agent", "init", str(path))
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("kills", [FEW_KILLS, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_whatever_is_killed_when_what_is_stored_is_the_tape(tmp_path: Path, kills: int) -> None:
    """30,000 trades, one in eight like the one before, over a connection that breaks every second or so; the agent and
    the service are killed again and again. Three sessions are complete, and all of it equals a day without kills."""
    call = [sys.executable, "-m", "tests.e2e.agent_kills", str(tmp_path), str(kills), "1"]
    done = subprocess.run(
        call, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600, check=False
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("complete: 3 of 4 sessions") == 2
    assert "what was stored is the tape" in done.stdout
