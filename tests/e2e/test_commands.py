"""The installed command over real files, sockets and signals: what a user does on the first day."""

import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outcry.cli.reading import explained
from outcry.client import ApiError

OUTCRY = Path(sys.executable).with_name("outcry")


def outcry(data: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(data),
        "OUTCRY_DATA": str(data),
        **options.pop("env", {}),
    }
    return subprocess.run(
        [OUTCRY, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
        **options,
    )


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(data), "OUTCRY_DATA": str(data)}
    command = [OUTCRY, "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            greeting = (re.search(r"Outcry is running at (http://\S+)", line) for line in process.stderr)
            yield next(found[1] for found in greeting if found), process
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            process.wait(timeout=60)


def get(url: str, key: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    request = urllib.request.Request(url, headers={"x-api-key": key})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read()), dict(answer.headers)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read()), dict(refused.headers)


def test_the_first_day(shared: Path, tmp_path: Path) -> None:
    """Import, key, serve, ask, revoke: every step by the command, over a real socket."""
    made = outcry(tmp_path, "import", str(shared / "data" / "lean" / "cme"))
    assert made.returncode == 0, made.stderr
    lines = [line.split("\t") for line in made.stdout.splitlines()]
    assert lines[0][:3] == ["date", "session", "contract"]
    assert ["2013-10-08", "rth", "ESZ2013", "bars_1m", "405", "1045038"] in [line[:6] for line in lines]
    key = outcry(tmp_path, "keys", "create", "--email", "me@example.com").stdout
    assert re.fullmatch(r"outcry_[0-9A-Za-z]{49}\n", key)
    key = key.strip()
    with serving(tmp_path) as (url, process):
        status, body, headers = get(f"{url}/api/levels?symbol=ESZ3", key)
        assert (status, body["asOf"], body["symbol"]) == (200, "2013-10-09", "ES")
        assert (headers["x-api-tier"], headers["x-ratelimit-limit"]) == ("free", "30")
        assert get(f"{url}/api/levels?symbol=NQ", key)[:2][1]["code"] == "no_licensed_source"
        shown = outcry(tmp_path, "levels", "ES", env={"OUTCRY_URL": url, "OUTCRY_KEY": key})
        assert json.loads(shown.stdout)["prior"] == body["prior"]
        # whatever the port is, the other commands find it by the data folder
        assert outcry(tmp_path, "levels", "ES", env={"OUTCRY_KEY": key}).stdout == shown.stdout
        invited = outcry(tmp_path, "users", "invite", "ann@example.com").stdout
        assert invited.startswith(f"{url}/invite?token=")
        # revoked by another process: refused soon; that it is within a second is shown in `tests/api`
        assert outcry(tmp_path, "keys", "revoke", key[:15]).returncode == 0
        deadline = time.monotonic() + 10.0
        while (status := get(f"{url}/api/levels?symbol=ES", key)[0]) == 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert status == 401
        assert process.poll() is None
    assert not (tmp_path / "address").exists()
    listed = outcry(tmp_path, "keys", "list").stdout
    assert key not in listed
    assert key[:15] in listed


def test_data_imported_while_serving_is_answered(shared: Path, tmp_path: Path) -> None:
    key = outcry(tmp_path, "keys", "create", "--email", "me@example.com").stdout.strip()
    with serving(tmp_path) as (url, _):
        assert get(f"{url}/api/levels?symbol=GC", key)[1]["code"] == "no_licensed_source"
        assert outcry(tmp_path, "import", str(shared / "data" / "lean" / "comex" / "minute")).returncode == 0
        deadline = time.monotonic() + 60.0
        while (found := get(f"{url}/api/levels?symbol=GC", key))[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert found[1]["asOf"] == "2013-10-08"


def state(data: Path) -> list[str]:
    """Every session with its profile, as the store has it."""
    with closing(sqlite3.connect(data / "outcry.sqlite3")) as database:
        rows = database.execute(
            "SELECT contract, trade_date, kind, source, quality, complete, rows, volume, hex(profile) FROM sessions"
        ).fetchall()
    return sorted(str(row) for row in rows)


def test_a_killed_import_loses_nothing_reported_and_can_be_run_again(shared: Path, tmp_path: Path) -> None:
    folder = str(shared / "data" / "lean")
    whole = tmp_path / "whole"
    assert outcry(whole, "import", folder).returncode == 0
    chance = random.Random(20131008)
    for attempt in range(6):
        data = tmp_path / f"killed{attempt}"
        environment = {"PATH": os.environ["PATH"], "HOME": str(data), "OUTCRY_DATA": str(data)}
        process = subprocess.Popen(
            [OUTCRY, "import", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        time.sleep(0.5 + chance.random() * 1.2)
        process.kill()
        reported, _ = process.communicate()
        rows = [line.split("\t") for line in reported.splitlines()[1:] if line.count("\t") == 10]
        if (data / "outcry.sqlite3").exists() and rows:
            stored = state(data)
            for date, kind, contract, *_ in rows:
                assert any(f"'{contract}', '{date}', '{kind}'" in row for row in stored), (
                    date,
                    kind,
                    contract,
                )
        assert outcry(data, "import", folder).returncode == 0
        assert state(data) == state(whole)
        assert "No faults found." in outcry(data, "doctor").stdout


def test_a_killed_forget_changes_nothing_or_everything_and_can_be_run_again(
    shared: Path, tmp_path: Path
) -> None:
    first = shared / "data" / "lean" / "cme" / "minute" / "es" / "20131008_trade.zip"
    imported, forgotten = tmp_path / "imported", tmp_path / "forgotten"
    assert outcry(imported, "import", str(shared / "data" / "lean")).returncode == 0
    shutil.copytree(imported, forgotten)
    assert outcry(forgotten, "import", "--forget", str(first)).returncode == 0
    before, after = state(imported), state(forgotten)
    assert before != after
    chance = random.Random(20240702)
    for attempt in range(6):
        data = tmp_path / f"killed{attempt}"
        shutil.copytree(imported, data)
        environment = {"PATH": os.environ["PATH"], "HOME": str(data), "OUTCRY_DATA": str(data)}
        process = subprocess.Popen([OUTCRY, "import", "--forget", str(first)], env=environment)
        time.sleep(0.4 + chance.random() * 1.2)
        process.kill()
        process.wait()
        assert state(data) in (before, after)
        assert "No faults found." in outcry(data, "doctor").stdout
        repeated = outcry(data, "import", "--forget", str(first))
        assert repeated.returncode == 0 or "was not imported" in repeated.stderr
        assert state(data) == after
        assert "No faults found." in outcry(data, "doctor").stdout


def test_a_full_disk_is_one_line_and_loses_nothing(shared: Path, tmp_path: Path) -> None:
    assert outcry(tmp_path, "import", str(shared / "data" / "lean" / "cme")).returncode == 0
    before = state(tmp_path)

    def small_files() -> None:  # every write past 20 kB fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    refused = outcry(tmp_path, "import", str(shared / "data" / "lean" / "comex"), preexec_fn=small_files)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert state(tmp_path) == before
    assert outcry(tmp_path, "import", str(shared / "data" / "lean" / "comex")).returncode == 0


def test_nothing_is_imported_into_the_reserve_of_the_disk(tmp_path: Path) -> None:
    """The reserve, 1 TiB, is larger than any disk of a test."""
    file = tmp_path / "ES.csv"
    file.write_text("anything\n")
    refused = outcry(tmp_path, "import", str(file), env={"OUTCRY_DISK_RESERVE_MIB": "1048576"})
    assert refused.returncode == 1
    assert "MiB are kept in reserve" in refused.stderr
    assert "OUTCRY_DISK_RESERVE_MIB" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["import"], 2, "Name at least one file"),
        (["import", "/nowhere/at/all.dbn"], 1, "/nowhere/at/all.dbn"),
        (["keys", "create", "--email", "nobody"], 2, "Invalid email address"),
        (["keys", "create", "--email", "a@example.com", "--expires", "soon"], 2, "90d or 12h"),
        (["keys", "create", "--email", "a@example.com", "--expires", "3661d"], 2, "10 years"),
        (["keys", "create", "--email", "a@example.com", "--label", "two\nlines"], 2, "one line"),
        (["keys", "revoke", "outcry_zzzz"], 1, "keys list"),
        (["levels", "ES"], 2, "OUTCRY_KEY"),
        (["grants", "add", "user:nobody@example.com"], 2, "Unknown grantee"),
        (["session", "ES", "2025-11-28T10:00:00"], 2, "time zone"),
    ],
)
def test_mistakes_are_answered_in_one_line(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    done = outcry(tmp_path, *arguments)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("\n") <= 1


def test_levels_with_nothing_imported_name_the_reasons_and_the_remedies(tmp_path: Path) -> None:
    key = outcry(tmp_path, "keys", "create", "--email", "me@example.com").stdout.strip()
    with serving(tmp_path) as (url, _):
        body = get(f"{url}/api/levels?symbol=CL", key)[1]
        assert (body["reasons"], body["fix"]) == (
            ["no_connection", "no_completed_session"], {"account": "/account", "brokerGuide": "/broker-guide"},
        )  # fmt: skip
        asked = outcry(tmp_path, "levels", "CL", env={"OUTCRY_KEY": key})
        unknown = outcry(tmp_path, "levels", "ESX", env={"OUTCRY_KEY": key})
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr.splitlines() == [
        "outcry: No data for CL (no_licensed_source).",
        "  - No live feed is connected for CL.",
        "  - No complete session of CL is stored. A session with a hole does not count: the import names its holes.",
        "To fix this:",
        "  - Import a recording: outcry import FILE",
        f"  - Connect a live feed: {url}/broker-guide",
        f"  - See what your account can access: {url}/account",
    ]

    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr.strip().endswith("Did you mean ES, MES?")


def test_without_a_service_the_remedy_is_to_start_one(tmp_path: Path) -> None:
    alone = outcry(tmp_path, "levels", "ES", env={"OUTCRY_KEY": "a key", "OUTCRY_URL": "http://127.0.0.1:9"})
    assert (alone.returncode, alone.stdout) == (1, "")
    assert alone.stderr.startswith("outcry: http://127.0.0.1:9 does not respond")
    assert "Start the service with `outcry serve`" in alone.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["level", "ES"], 'Did you mean "levels"?'),
        (["keys", "creat"], 'Did you mean "create"?'),
        (["keys", "list", "--fromat", "json"], "--format"),
        (["keys", "list", "--format", "jsn"], 'Did you mean "json"?'),
        (["levels"], "SYMBOL is missing. Run `outcry levels --help` to see the usage."),
        (["keys", "create"], "--email is missing. Run `outcry keys create --help`"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = outcry(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith("outcry: ")
    assert done.stderr.count("\n") == 1


def test_the_state_of_a_feed_is_explained_by_a_sentence() -> None:
    body = {"symbol": "ES", "reasons": ["incomplete", "busy_elsewhere"]}
    said = explained(ApiError("no_licensed_source", 409, "", "", body), "http://localhost:8000").splitlines()
    assert said[1:3] == [
        "  - The live feed of ES is `incomplete`: The feed could not load the trades from the start of this "
        "session. Live answers resume with the next session.",
        "  - The live feed of ES is `busy_elsewhere`: The feed refused the connection (busy_elsewhere).",
    ]


def test_a_key_is_revoked_by_the_whole_key_and_a_mistake_is_explained(tmp_path: Path) -> None:
    first, second = (
        outcry(tmp_path, "keys", "create", "--email", f"{name}@example.com").stdout.strip()
        for name in ("ann", "bob")
    )

    def revoke(text: str) -> tuple[int, str]:
        done = outcry(tmp_path, "keys", "revoke", text)
        assert done.stdout == ""
        assert not any(key in done.stderr for key in (first, second))
        return done.returncode, done.stderr.strip()

    status, said = revoke("outcry_")
    assert status == 1
    assert said == (
        f"outcry: 2 keys start with 'outcry_': {first[:15]} (ann@example.com), {second[:15]} (bob@example.com). "
        "Give more characters."
    )
    # A whole key with its last character mistyped is not mistaken for the key it begins like.
    mistyped = first[:-1] + ("0" if first[-1] != "0" else "1")
    status, said = revoke(mistyped)
    assert status == 1
    assert said.startswith(f"outcry: No key matches {first[:15]}…")
    assert mistyped not in said
    secret = "hunter2-this-is-a-password"
    status, said = revoke(secret)
    assert (status, secret in said) == (1, False)
    assert "keys start with 'outcry_'" in said
    assert revoke(first) == (0, f"Revoked key {first[:15]} of ann@example.com.")
    status, said = revoke("outcry_")
    assert status == 1
    assert (
        said
        == f"outcry: All keys start with 'outcry_'. Give more characters of {second[:15]} (bob@example.com)."
    )
    assert revoke(second[:30]) == (0, f"Revoked key {second[:15]} of bob@example.com.")
    status, said = revoke(first)
    assert status == 1
    assert said.startswith(f"outcry: Key {first[:15]} is already revoked (since 20")


def test_a_bad_setting_is_named(tmp_path: Path) -> None:
    wrong = outcry(tmp_path, "keys", "list", env={"OUTCRY_PORT": "many"})
    assert wrong.returncode == 1
    assert "port" in wrong.stderr
    unknown = outcry(tmp_path, "keys", "list", env={"OUTCRY_PROT": "8000"})
    assert "OUTCRY_PROT is not a setting" in unknown.stderr


def test_a_lost_secret_is_said_and_not_replaced(tmp_path: Path) -> None:
    assert outcry(tmp_path, "keys", "create", "--email", "me@example.com").returncode == 0
    (tmp_path / "secret.key").unlink()
    lost = outcry(tmp_path, "keys", "create", "--email", "me@example.com")
    assert lost.returncode == 1
    assert "secret.key is missing" in lost.stderr
    assert not (tmp_path / "secret.key").exists()


def test_a_vault_key_that_is_none_stops_the_service_and_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "vault.key").write_text("k1 0123456789abcdef\n")
    refused = outcry(tmp_path, "serve", "--port", "0")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"outcry: {tmp_path / 'vault.key'}: Entry 1 is invalid")
    assert "0123456789abcdef" not in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_backup_is_whole(shared: Path, tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    outcry(data, "import", str(shared / "data" / "lean" / "cme"))
    key = outcry(data, "keys", "create", "--email", "me@example.com").stdout.strip()
    assert outcry(data, "backup", str(copy)).returncode == 0
    assert state(copy) == state(data)
    assert "No faults found." in outcry(copy, "doctor").stdout
    with serving(copy) as (url, _):
        assert get(f"{url}/api/levels?symbol=ES", key)[0] == 200


def test_the_exit_status_of_an_import_says_whether_anything_is_there(shared: Path, tmp_path: Path) -> None:
    """Quotes alone and an empty folder are nothing; the same file again is what is there already."""
    es = shared / "data" / "lean" / "cme" / "minute" / "es"
    (tmp_path / "empty").mkdir()
    data = tmp_path / "data"
    quotes = outcry(data, "import", str(es / "20131007_quote.zip"))
    assert (quotes.returncode, len(quotes.stdout.splitlines())) == (1, 1)
    assert "Nothing was imported: no file contains trades of a known product" in quotes.stderr
    assert outcry(data, "import", str(tmp_path / "empty")).returncode == 1
    both = [str(es / "20131007_quote.zip"), str(es / "20131007_trade.zip")]
    assert outcry(data, "import", *both).returncode == 0
    again = outcry(data, "import", both[1])
    assert again.returncode == 0
    assert "already imported" in again.stderr


def test_secrets_are_private_files(tmp_path: Path) -> None:
    outcry(tmp_path / "data", "keys", "list")
    assert (tmp_path / "data" / "secret.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_grants_decide_what_is_seen(shared: Path, tmp_path: Path) -> None:
    outcry(tmp_path, "import", str(shared / "data" / "lean" / "cme"))
    key = outcry(tmp_path, "keys", "create", "--email", "me@example.com").stdout.strip()
    assert outcry(tmp_path, "grants", "list").stdout.split("\t")[1:4] == ["everyone", "completed", "all"]
    assert outcry(tmp_path, "grants", "remove", "1").returncode == 0
    with serving(tmp_path) as (url, _):
        assert get(f"{url}/api/levels?symbol=ES", key)[1]["code"] == "no_licensed_source"
        assert outcry(tmp_path, "grants", "add", "user:me@example.com", "--symbols", "ES").returncode == 0
        deadline = time.monotonic() + 60.0
        while (found := get(f"{url}/api/levels?symbol=ES", key))[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert found[0] == 200


def test_a_live_feed_is_granted_without_dates(tmp_path: Path) -> None:
    live = ("grants", "add", "everyone", "--scope", "live", "--symbols", "es,NQ")
    assert outcry(tmp_path, *live, "--licence", "public").stdout == "2\n"
    (_, added) = outcry(tmp_path, "grants", "list").stdout.splitlines()
    assert added.split("\t") == ["2", "everyone", "live", "ES,NQ", "", "", "0", "public"]
    for more in (["--until", "2026-01-02"], ["--from", "2026-01-02"], ["--embargo-hours", "0"]):
        refused = outcry(tmp_path, "grants", "add", "everyone", "--scope", "live", *more)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "has no dates and no embargo" in refused.stderr


def test_what_is_shown_soon_needs_a_licence_that_is_declared_and_kept(tmp_path: Path) -> None:
    soon = ("grants", "add", "everyone", "--embargo-hours", "23")
    for live in (soon, ("grants", "add", "everyone", "--scope", "live")):
        refused = outcry(tmp_path, *live)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "Declare yours with --licence" in refused.stderr
        for licence in ("personal", "internal"):
            assert "only named users and keys" in outcry(tmp_path, *live, "--licence", licence).stderr
    assert outcry(tmp_path, *soon, "--licence", "redistributable").stdout == "2\n"
    assert outcry(tmp_path, "grants", "list").stdout.splitlines()[1].split("\t")[6:] == [
        "23",
        "redistributable",
    ]
    assert outcry(tmp_path, "grants", "remove", "2").returncode == 0
    withdrawn, granted = (line.split("\t") for line in outcry(tmp_path, "grants", "log").stdout.splitlines())
    assert [withdrawn[1], granted[1]] == ["withdrawn", "granted"]
    assert granted[2:5] == ["command", "2", "everyone"]
    assert granted[-1].startswith("I have a licence of class redistributable from the data's owner")


def test_a_key_that_sends_trades_is_listed_as_such_and_reads_nothing(tmp_path: Path) -> None:
    reads = outcry(tmp_path, "keys", "create", "--email", "me@example.com").stdout.strip()
    sends = outcry(tmp_path, "keys", "create", "--email", "me@example.com", "--ingest").stdout.strip()
    listed = [line.split("\t") for line in outcry(tmp_path, "keys", "list").stdout.splitlines()]
    assert [(row[0], row[4], row[5]) for row in listed] == [
        (reads[:15], "", "read"),
        (sends[:15], "", "ingest"),
    ]
    with serving(tmp_path) as (url, _):
        assert get(f"{url}/api/levels?symbol=ES", sends)[1]["code"] == "forbidden"
        assert get(f"{url}/api/levels?symbol=ES", reads)[1]["code"] == "no_licensed_source"


def test_a_key_is_listed_with_its_name_its_end_and_its_last_use(tmp_path: Path) -> None:
    named = ("keys", "create", "--email", "me@example.com", "--label", "Büro", "--expires", "90d")
    used, idle = outcry(tmp_path, *named).stdout.strip(), outcry(tmp_path, *named).stdout.strip()
    with serving(tmp_path) as (url, _):
        assert get(f"{url}/api/symbols", used)[0] == 200
    listed = [line.split("\t") for line in outcry(tmp_path, "keys", "list").stdout.splitlines()]
    assert [(row[0], row[6]) for row in listed] == [(used[:15], "Büro"), (idle[:15], "Büro")]
    made, expires, last = (datetime.fromisoformat(listed[0][n]) for n in (3, 7, 8))
    assert expires - made == timedelta(days=90)
    assert timedelta(0) <= last - made < timedelta(minutes=2)
    assert listed[1][8] == ""


def test_a_second_service_of_a_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path):
        second = outcry(tmp_path, "serve", "--port", "0")
    assert second.returncode == 1
    assert [line for line in second.stderr.splitlines() if "is Outcry running already?" in line] != []
    assert "Traceback" not in second.stderr


def test_help_teaches(tmp_path: Path) -> None:
    whole = outcry(tmp_path, "--help").stdout
    for command in (
        "serve",
        "import",
        "keys",
        "grants",
        "levels",
        "session",
        "sessions",
        "migrate",
        "doctor",
        "backup",
    ):
        assert command in whole
        assert outcry(tmp_path, command, "--help").returncode == 0
    assert "not advice" in whole


def test_a_ruined_database_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "outcry.sqlite3").write_bytes(b"ruins " * 1000)
    refused = outcry(tmp_path, "keys", "list")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "The database cannot be opened" in refused.stderr


def test_a_files_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    bad = tmp_path / "a\x1b[31mred\nnext.csv"
    bad.touch()
    refused = outcry(tmp_path / "data", "import", str(bad))
    assert refused.returncode == 1
    assert "\x1b" not in refused.stderr
    assert refused.stderr.count("\n") == 1
