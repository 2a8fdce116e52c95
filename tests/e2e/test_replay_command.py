"""`outcry replay` as a user runs it, against a service on a real socket.

The recordings are LEAN's minute bars of the UTC day 2013-10-08, counted with `unzip -p … | awk -F, '$6 > 0' | wc -l`
(bars without volume do not count): 1,372 of ESZ2013, 332 of ESH2014, 2 of ESM2014, 1 of ESU2014, 1,707 together. The
first and the last of ESZ2013 begin at 00:00 and 23:59.
"""

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from outcry.access.licences import Licences
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.api.app import Options, Services, create_app
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.feeds.pushed import PushedFeed, PushedFeeds
from outcry.http.server import Binding, build_server
from outcry.market.instruments import Contract
from outcry.trades.feed import Bars, CaughtUp, Cursor, Ended, Event, FeedRefused

OUTCRY = Path(sys.executable).with_name("outcry")
ESZ = Contract("ES", 2013, 12)
DAY = "data/lean/cme/minute/es/20131008_trade.zip"


class Service:
    """A service on a free port, and what was pushed into it by owner, feed and contract."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.got: dict[tuple[int, str, Contract], list[Event]] = {}
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self.pushes = PushedFeeds(installation.reference.universe)
        self.pushes.subscribe(self._begin)

    def _begin(self, owner: int, feed: PushedFeed, contract: Contract) -> None:
        events = self.got.setdefault((owner, feed.name, contract), [])

        async def read() -> None:
            with suppress(FeedRefused):  # another run goes on from it
                async for event in feed.open(contract, Cursor(0)):
                    events.append(event)

        self._tasks.add(asyncio.get_running_loop().create_task(read()))

    def bars(self, owner: int, contract: Contract = ESZ, feed: str = "replay") -> list[int]:
        """Starts of the bars that came."""
        events = self.got[owner, feed, contract]
        return [at for event in events if isinstance(event, Bars) for at in event.rows["ts_event"].tolist()]


@contextmanager
def serving(data: Path, port: int = 0) -> Iterator[Service]:
    with open_installation(read_settings({}, data=str(data))) as installation:
        service = Service(installation)
        parts = Services(
            installation.query,
            installation.keys,
            Licences(installation.store),
            SlidingWindowLimiter(),
            installation.clock,
            pushes=service.pushes,
        )
        up = threading.Event()

        def started(_host: str, port: int) -> None:
            service.url = f"http://127.0.0.1:{port}"
            up.set()

        server = build_server(
            create_app(parts, Options(log=io.BytesIO())), Binding(port=port, shutdown_s=2), started
        )
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        assert up.wait(10)
        try:
            yield service
        finally:
            service.pushes.close()
            server.stop()
            thread.join(10)


def command(*arguments: str, **environment: str) -> dict[str, Any]:
    """What a process needs to run the command."""
    plain = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}
    return {"args": [str(OUTCRY), *arguments], "text": True, "env": plain}


def outcry(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(**command(*arguments, **environment), capture_output=True, timeout=120, check=False)


def roles(installation: Installation) -> list[tuple[str, str, bool]]:
    """Every key: whose, what for, whether it is in force."""
    return [(row.email, row.role, row.revoked_ns is None) for row in installation.keys.list()]


def test_a_recording_is_played_as_the_operators_feed_with_a_key_for_the_time_of_it(
    shared: Path, tmp_path: Path
) -> None:
    with serving(tmp_path) as service:
        done = outcry(
            "replay", str(shared / DAY), "--speed", "0", "--url", service.url, OUTCRY_DATA=str(tmp_path)
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == (
            "Played 1,707 rows of ESH2014, ESM2014, ESU2014, ESZ2013, 2013-10-08T00:00:00Z to 2013-10-08T23:59:00Z\n"
        )
        assert {(owner, feed) for owner, feed, _ in service.got} == {(0, "replay")}
        counts = {contract.key: len(service.bars(0, contract)) for _, _, contract in service.got}
        assert counts == {"ESZ2013": 1372, "ESH2014": 332, "ESM2014": 2, "ESU2014": 1}
        starts = service.bars(0)
        assert starts == sorted(set(starts))
        events = service.got[0, "replay", ESZ]
        assert isinstance(events[0], CaughtUp)
        assert isinstance(events[-1], Ended)
        assert roles(service.installation) == [("operator", "ingest-operator", False)]
        (made,) = service.installation.keys.list()
        assert made.expires_ns is not None, "the command may be killed before it revokes it"


def test_whose_feed_it_is(shared: Path, tmp_path: Path) -> None:
    """The user of the key in OUTCRY_KEY, whatever the key is for, unless the command says otherwise."""
    with serving(tmp_path) as service:
        ann = service.installation.keys.create("ann@example.com", "free", 0)
        ben = service.installation.keys.create("ben@example.com", "free", 0, role="ingest")
        played = ("replay", str(shared / DAY), "--speed", "0", "--contract", "ESZ3")
        known = {"OUTCRY_URL": service.url, "OUTCRY_DATA": str(tmp_path)}
        assert outcry(*played, OUTCRY_KEY=ann, **known).returncode == 0
        assert outcry(*played, "--feed", "mine", OUTCRY_KEY=ben, **known).returncode == 0
        assert outcry(*played, "--owner", "cy@example.com", OUTCRY_KEY=ben, **known).returncode == 0
        assert set(service.got) == {(1, "replay", ESZ), (2, "mine", ESZ), (3, "replay", ESZ)}
        assert len(service.bars(2, feed="mine")) == 1372
        assert roles(service.installation) == [
            ("ann@example.com", "read", True),
            ("ben@example.com", "ingest", True),
            ("ann@example.com", "ingest", False),
            ("cy@example.com", "ingest", False),
        ]


def test_from_another_machine_with_a_key_made_for_it(shared: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "there") as service:
        made = outcry(
            "keys", "create", "--email", "operator", "--ingest", OUTCRY_DATA=str(tmp_path / "there")
        )
        key = made.stdout.strip()
        here = {"OUTCRY_URL": service.url, "OUTCRY_DATA": str(tmp_path / "here")}
        played = ("replay", str(shared / DAY), "--speed", "0", "--contract", "ESZ3")
        assert outcry(*played, OUTCRY_KEY=key, **here).returncode == 0
        assert set(service.got) == {(0, "replay", ESZ)}
        read = service.installation.keys.create("ann@example.com", "free", 0)
        for key, arguments, expected in (
            (read, (), "This API key can only read."),
            ("outcry_x", (), "unauthorized"),
            ("", (), "Set OUTCRY_KEY"),
            (read, ("--owner", "ann@example.com"), "--owner needs access to the service's data folder"),
        ):
            refused = outcry(*played, *arguments, OUTCRY_KEY=key, **here)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert expected in refused.stderr
            assert len(refused.stderr.splitlines()) == 1
        assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(("stop_signal", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_replay_that_is_interrupted_says_goodbye(
    shared: Path, tmp_path: Path, stop_signal: signal.Signals, status: int
) -> None:
    """At 600 times the speed a minute's bar comes every tenth of a second."""
    with serving(tmp_path) as service:
        call = command(
            "replay", str(shared / DAY), "--speed", "600", "--contract", "ESZ3", "--url", service.url,
            OUTCRY_DATA=str(tmp_path),
        )  # fmt: skip
        with subprocess.Popen(**call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                deadline = time.monotonic() + 60
                while not service.got or len(service.bars(0)) < 3:
                    assert time.monotonic() < deadline
                    assert process.poll() is None
                    time.sleep(0.05)
                process.send_signal(stop_signal)
                stdout, stderr = process.communicate(timeout=60)
            finally:
                process.kill()
        assert (process.returncode, stderr) == (status, "")
        played = re.fullmatch(r"Played (\d+) rows of ESZ2013, 2013-10-08T00:00:00Z to \S+Z\n", stdout)
        assert played
        assert int(played[1]) <= len(service.bars(0)) < 300
        assert isinstance(service.got[0, "replay", ESZ][-1], Ended)
        assert roles(service.installation) == [("operator", "ingest-operator", False)]


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        ((), 2, "Name at least one file or folder"),
        (("x.csv", "--speed", "-1"), 2, "--speed"),
        (("x.csv", "--speed", "nan"), 2, "--speed"),
        (("x.csv", "--feed", "A/b"), 2, "--feed"),
        (("x.csv", "--owner", "nobody"), 2, "--owner"),
        (("missing.csv",), 1, "missing.csv"),
        (("empty.csv",), 1, "empty.csv"),
        (("day.zip", "--url", "nonsense"), 1, "base URL"),
        (("day.zip", "--url", "http://127.0.0.1:1"), 1, "does not respond"),
        (("day.zip", "--contract", "GCZ3"), 1, "GCZ"),
        (("day.zip", "--format", "dbn"), 1, "not a dbn file"),
    ],
)
def test_what_a_person_can_mend_is_one_line(
    shared: Path, tmp_path: Path, arguments: tuple[str, ...], status: int, expected: str
) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "day.zip").write_bytes((shared / DAY).read_bytes())
    (tmp_path / "20131008_trade.zip").write_bytes((shared / DAY).read_bytes())
    with open_installation(read_settings({}, data=str(tmp_path / "data"))) as installation:
        call = command("replay", *arguments, "--data", str(tmp_path / "data"))
        done = subprocess.run(**call, cwd=tmp_path, capture_output=True, timeout=120, check=False)
        assert (done.returncode, done.stdout) == (status, "")
        assert expected in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not [row for row in installation.keys.list() if row.revoked_ns is None]
