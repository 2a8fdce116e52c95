"""Every command prints rows in the chosen format, with the documented columns, or is listed with its reason."""

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from outcry.cli import app
from outcry.cli.columns import COLUMNS

#: Commands that print no rows, and why.
WITHOUT_ROWS = {
    "agent": "runs until stopped; its events go to standard error",
    "agent init": "writes a file",
    "backup": "writes a folder",
    "completion": "prints a script",
    "endpoint check": "prints one word, for a program",
    "grants add": "prints the number of the new grant, for a program",
    "grants remove": "prints nothing",
    "keys create": "prints only the key, for a program",
    "keys revoke": "prints nothing but a message on standard error",
    "migrate": "prints messages about its work",
    "replay": "prints one sentence at its end",
    "serve": "runs until stopped; its log goes to standard error",
    "users invite": "prints only the link, for a program",
    "users operator": "prints nothing but a message on standard error",
    "users reset": "prints only the link, for a program",
    "vault forget": "prints messages about its work",
    "vault rotate": "prints nothing but messages on standard error",
}
FORMATS = ("table", "json", "csv")
#: The option of a command, where it is not `--format`.
OPTIONS = {"import": "--output"}


def commands(of: App = app, prefix: str = "") -> Iterator[tuple[str, App]]:
    """Yield every command that runs something, including those in groups, by its name."""
    for name, command in of.resolved_commands().items():
        if name.startswith("-"):
            continue
        if command.default_command is not None:
            yield f"{prefix}{name}", command
        yield from commands(command, f"{prefix}{name} ")


def formats(command: App, option: str) -> tuple[str, ...] | None:
    """Return the choices of an option of a command; None if it has no such option."""
    found = [one for one in command.assemble_argument_collection() if option in one.names]
    return found[0].get_choices(force=True) if found else None


ALL = dict(commands())
WITH_ROWS = {name.partition(" --")[0] for name in COLUMNS}


def test_every_command_has_columns_or_a_reason_for_none() -> None:
    assert WITH_ROWS | set(WITHOUT_ROWS) == set(ALL)
    assert not WITH_ROWS & set(WITHOUT_ROWS)


@pytest.mark.parametrize("name", ALL)
def test_a_command_with_rows_has_the_three_formats(name: str) -> None:
    choices = formats(ALL[name], OPTIONS.get(name, "--format"))
    assert (choices == FORMATS) is (name in WITH_ROWS)


#: Commands that need no service: their arguments on an empty data folder, and the expected exit status.
RUNNABLE: dict[str, tuple[list[str], int]] = {
    "doctor": ([], 0),
    "grants list": ([], 0),
    "grants log": ([], 0),
    "import": ([], 1),
    "import --list": ([], 0),
    "instruments add": ([], 0),
    "instruments check": ([], 0),
    "instruments list": ([], 0),
    "instruments show": (["ES"], 0),
    "keys list": ([], 0),
    "refold": ([], 0),
    "session": (["ES", "2025-11-28T10:00:00-05:00"], 0),
    "sessions": (["ES", "2025-11-24", "2025-11-26"], 0),
    "users list": ([], 0),
    "vault status": ([], 0),
}


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a data folder with one key, and no settings of the environment."""
    for name in [name for name in os.environ if name.startswith("OUTCRY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUTCRY_DATA", str(tmp_path / "data"))
    assert app("keys create --email me@example.com", result_action="return_value") == 0
    return tmp_path


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_columns_are_the_documented_ones(
    name: str, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, status = RUNNABLE[name]
    if name == "import":
        (own_folder / "empty").mkdir()
        arguments = [str(own_folder / "empty")]
    printed = dict[str, str]()
    for form in FORMATS:
        capsys.readouterr()
        call = [*name.split(), *arguments, OPTIONS.get(name.partition(" --")[0], "--format"), form]
        assert app(call, result_action="return_value") == status
        printed[form] = capsys.readouterr().out
    rows = list(csv.reader(io.StringIO(printed["csv"])))
    assert rows[0] == list(COLUMNS[name])
    objects = json.loads(printed["json"])
    assert [list(each) for each in objects] == [list(COLUMNS[name])] * (len(rows) - 1)
    titles = " ".join(printed["table"].splitlines()[0].split())
    assert titles == " ".join(each.replace("_", " ") for each in COLUMNS[name])
