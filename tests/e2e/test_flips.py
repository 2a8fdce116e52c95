"""One random bit of the stored data is flipped: the service reports it, or every answer is unchanged."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from tests.installations import write_zip
from tests.live.engine_harness import EngineHarness, ScriptFeed, run
from tests.live.test_bars import KEY, OPEN, PRESENT, SettableClock, followed_for_two_hours
from tests.live.test_damage import MORNING
from tests.timeouts import until

from outcry.access.licences import Grant, resolve
from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.base.errors import NoLicensedSource
from outcry.cli.doctor import doctor
from outcry.cli.importing import refold
from outcry.cli.mendable import MENDABLE
from outcry.database.database import DATABASE_FILE
from outcry.live.model import AlertRow
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.recordings.file_model import ReadOptions

SCOPE = resolve(
    7, 0, "free", (Grant("everyone", "completed", (), None, None), Grant("everyone", "live", (), None, None))
)
NOW_NS = OPEN + 120 * 60 * 10**9
T = TypeVar("T")
#: What an answer says of a session from its own trades alone: the rest changes when the session before is set aside.
OF_ITSELF = (
    "contract",
    "date",
    "poc",
    "vah",
    "val",
    "vpoc",
    "high",
    "low",
    "openPrice",
    "closePrice",
    "singlePrints",
)
SEED = 20131008
KINDS = ("tape", "log", "snapshot", "database")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create three recorded days, two live hours with log and snapshot, three alerts, and a user with a key."""
    folder = tmp_path_factory.mktemp("whole")
    with open_installation(Settings(data=str(folder / "data")), SettableClock(NOW_NS)) as installation:
        for number, day in enumerate(("20240626", "20240627", "20240628")):
            lows = {n: 5500 + n % 17 + number * 3 for n in range(815, 1215)}
            minutes = [
                f"{n * 60_000},{low},{low + 2},{low - 1},{low + 1},{n % 7 + 1}" for n, low in lows.items()
            ]
            path = write_zip(folder / "in", f"{day}_trade.zip", f"{day}_es_minute_trade_202409.csv", minutes)
            installation.importer.run(path, 0, ReadOptions(), NOW_NS)
        alerts = [
            AlertRow(
                0, "script", "ESU2024", "ES", AlertType.IB_BREAK_UP, "info", SessionKind.RTH, date(2024, 7, 2),
                f"ES:ib-break-up:{n}", OPEN + n, 5_500 * 10**9, "ib", {"ibHigh": 5_500 * 10**9}, invented=False,
            )
            for n in range(3)
        ]  # fmt: skip
        installation.alerts.record_alerts(alerts, {})
        user = installation.store.ensure_user("ann@example.com", NOW_NS)
        installation.store.add_key(user, "free", "outcry_abc", b"digest of a key", NOW_NS)

        async def work(harness: EngineHarness) -> None:
            await followed_for_two_hours(harness, ScriptFeed([MORNING], caps=PRESENT))

        run(installation, work)
    return folder / "data"


def answers(folder: Path) -> dict[str, bytes]:
    """Return the answers of a restarted service, with the error message of each part that fails."""
    found: dict[str, bytes] = {}
    with open_installation(Settings(data=str(folder)), SettableClock(NOW_NS)) as installation:
        query = installation.query
        asked = {
            "levels": lambda: query.levels(SCOPE, "ES", NOW_NS),
            "context": lambda: query.context(SCOPE, "ES", NOW_NS),
            "profile": lambda: query.profile(SCOPE, "ES", None, NOW_NS),
            "history": lambda: query.history(SCOPE, "ES", None, None, NOW_NS),
            "chart": lambda: query.chart(SCOPE, "ES", None, NOW_NS),
            "symbols": lambda: query.symbols(SCOPE, NOW_NS),
            "alerts": lambda: query.alerts_history(SCOPE, "ES", None, None, None, None, None, NOW_NS),
        }
        for name, ask in asked.items():
            try:
                found[name] = msgspec.json.encode(ask().answer)
            except NoLicensedSource:
                found[name] = b"nothing"
        keys = installation.store.keys(None)
        found["keys"] = repr([(row.tier, row.digest, row.prefix, row.role) for row in keys]).encode()
        found["grants"] = repr(installation.store.grants()).encode()

        async def work(harness: EngineHarness) -> bytes:
            await until(lambda: KEY in harness.engine.runners or harness.reports)
            runner = harness.engine.runners.get(KEY)
            view = runner.channel.view() if runner else None
            return repr((view and (view.ladder, view.profile), harness.reports)).encode()

        found["live"] = run(installation, work)
    return found


def flip(folder: Path, kind: str, chance: random.Random) -> str:
    """Flip one bit; return where."""
    if kind == "snapshot":
        with closing(sqlite3.connect(folder / DATABASE_FILE)) as database:
            data = bytearray(database.execute("SELECT data FROM snapshots").fetchone()[0])
            bit = chance.randrange(len(data) * 8)
            data[bit // 8] ^= 1 << bit % 8
            database.execute("UPDATE snapshots SET data = ?", (bytes(data),))
            database.commit()
        return f"snapshot, bit {bit}"
    paths = {
        "tape": list(folder.glob("tape/**/*.dbn.zst")),
        "log": [path for path in folder.glob("live/**/*.log") if path.stat().st_size],
        "database": [folder / DATABASE_FILE],
    }[kind]
    path = chance.choice(sorted(paths, key=lambda path: path.stat().st_size))
    data = bytearray(path.read_bytes())
    # Most of a small database is zeros that mean nothing.
    used = [byte for byte, value in enumerate(data) if value]
    bit = chance.choice(used) * 8 + chance.randrange(8)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return f"{path.name}, bit {bit}"


def campaign(whole: Path, folder: Path, kind: str, flips: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Flip random bits; any traceback fails the test."""
    chance = random.Random(f"{SEED} {kind}")
    before = answers(shutil.copytree(whole, folder / "before"))
    known = set(_sessions(before))
    noticed = 0
    unnoticed: list[str] = []
    for number in range(flips):
        data = folder / str(number)
        shutil.copytree(whole, data)
        where = flip(data, kind, chance)
        status = doctor(data=str(data))
        output = capsys.readouterr().out
        assert ("fault\t" in output) == (status == 1), where
        noticed += status
        if status and number % 4:  # what a start makes of reported damage: looked at now and then
            shutil.rmtree(data)
            continue
        after, problem = _tried(lambda data=data: answers(data))
        assert status or not problem, f"{where}: the doctor finds nothing, the start says {problem}"
        if after is not None:
            if not status and after != before:
                unnoticed.append(f"{where}: {[name for name in before if before[name] != after[name]]}")
            assert set(_sessions(after)) <= known, f"{where}: a damaged session is answered"
        if kind in {"tape", "database"} and number % 4 == 0:
            _, problem = _tried(lambda data=data: refold(data=str(data)))
            assert status or not problem, f"{where}: {problem}"
            capsys.readouterr()
        shutil.rmtree(data)
    assert unnoticed == []
    assert noticed >= flips // 3 or kind == "database"  # most of whose bytes are unused, in a small one


def _tried(work: Callable[[], T]) -> tuple[T | None, str]:
    """Return the result, or the error line with which a command would end."""
    try:
        return work(), ""
    except MENDABLE as problem:
        return None, str(problem)


def _sessions(found: dict[str, bytes]) -> list[bytes]:
    if found["history"] == b"nothing":
        return []
    sessions = msgspec.json.decode(found["history"])["sessions"]
    return [msgspec.json.encode([one[name] for name in OF_ITSELF]) for one in sessions]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_noticed_or_harmless(
    whole: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign(whole, tmp_path, kind, 10, capsys)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_four_hundred_flipped_bits_are_noticed_or_harmless(
    whole: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign(whole, tmp_path, kind, 100, capsys)


@pytest.mark.parametrize("place", ["tape", "log"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "removed", "swapped"])
def test_damaged_files_are_noticed(
    whole: Path, tmp_path: Path, place: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shutil.copytree(whole, tmp_path / "data")
    pattern = "tape/**/*.dbn.zst" if place == "tape" else "live/**/*.log"
    first, *_, last = sorted(data.glob(pattern), key=lambda path: path.stat().st_size)
    match damage:
        case "truncated":
            last.write_bytes(last.read_bytes()[:-7])
        case "emptied":
            last.write_bytes(b"")
        case "removed":
            last.unlink()
        case _:
            one, other = first.read_bytes(), last.read_bytes()
            first.write_bytes(other)
            last.write_bytes(one)
    before = answers(shutil.copytree(whole, tmp_path / "before"))
    assert doctor(data=str(data)) == 1
    assert "fault\t" in capsys.readouterr().out
    after = answers(data)
    assert after["history"] == before["history"]
    assert place == "tape" or after["live"] != before["live"]
