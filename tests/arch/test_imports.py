"""The import rules hold, and each of them can be broken: a rule nothing breaks guards nothing.

The rules are `[tool.importlinter]` in `pyproject.toml`. Each case copies the sources, adds one forbidden import and
expects the linter to fail and to name the rule.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"

LAYERS = "Data flows one way through the house"
PURE = "core and accounts touch no clock, chance, file, thread or socket"
NUMPY = "numpy stays in core.kernels"
DRIVERS = "ports and services know no driver and no HTTP"
ACYCLIC = "No cycles between siblings"

#: A name for the case, the rule it breaks, the file it is put into, and the line put there.
BREACHES = [
    ("core reads the clock", PURE, "core/units.py", "import time"),
    ("core reads the clock inside a function", PURE, "core/units.py", "def f():\n    from time import time_ns\n"),
    ("core draws lots", PURE, "core/ladder.py", "import random"),
    ("core opens files", PURE, "core/reference.py", "from pathlib import Path"),
    ("core knows a database", PURE, "core/profile.py", "import sqlalchemy"),
    ("accounts know a database", PURE, "accounts/keys.py", "import sqlalchemy"),
    ("accounts read the environment", PURE, "accounts/tiers.py", "import os"),
    ("core counts with numpy outside its kernels", NUMPY, "core/profile.py", "import numpy"),
    ("accounts count with numpy", NUMPY, "accounts/licences.py", "import numpy"),
    ("a port knows a driver", DRIVERS, "ports/store.py", "import sqlite3"),
    ("a service speaks HTTP", DRIVERS, "services/query.py", "import starlette"),
    ("a service reads Parquet by itself", DRIVERS, "services/importing.py", "import pyarrow"),
    ("core knows the ports", LAYERS, "core/engine.py", "import outcry.trades.records"),
    ("core knows accounts", LAYERS, "core/engine.py", "import outcry.access.tiers"),
    ("accounts know the ports", LAYERS, "accounts/tiers.py", "import outcry.base.clock"),
    ("a port knows a service", LAYERS, "ports/store.py", "import outcry.base.errors"),
    ("services know HTTP's errors", LAYERS, "services/query.py", "import outcry.http.errors"),
    ("feeds know the store", LAYERS, "feeds/files/dbn.py", "import outcry.recordings.tape"),
    ("the store knows feeds", LAYERS, "store/tape.py", "import outcry.recordings.formats.dbn"),
    ("api knows the store", LAYERS, "api/endpoints.py", "import outcry.sessions.store"),
    ("bus knows api", LAYERS, "bus/inprocess.py", "import outcry.api.app"),
    ("http knows api", LAYERS, "http/edge.py", "import outcry.api.app"),
    ("the client knows the server", LAYERS, "client/reader.py", "import outcry.http.errors"),
    ("a feed reads settings", LAYERS, "feeds/files/dbn.py", "import outcry.app.settings"),
    ("settings know the wiring", LAYERS, "settings.py", "import outcry.app"),
    ("the wiring knows the command line", LAYERS, "wiring.py", "import outcry.cli"),
    ("the library knows the command line", LAYERS, "library.py", "import outcry.cli"),
    ("services know the library", LAYERS, "services/query.py", "import outcry.library"),
    ("a module without a layer", LAYERS, "utils.py", '"""Whatever."""'),
    ("a package without a layer", LAYERS, "helpers/__init__.py", '"""Whatever."""'),
    ("a cycle in core", ACYCLIC, "core/ladder.py", "import outcry.market.profile"),
    ("a cycle in feeds", ACYCLIC, "feeds/files/faults.py", "import outcry.recordings.formats.library"),
    ("a cycle in services", ACYCLIC, "services/answers.py", "import outcry.answers.query"),
]  # fmt: skip


def lint(folder: Path) -> tuple[int, set[str], str]:
    """Run the linter over the sources in a folder: exit status, the rules broken, all it said."""
    done = subprocess.run(
        [LINTER, "--no-logo", "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    return done.returncode, set(re.findall(r"^(.+) BROKEN\b", said, re.MULTILINE)), said


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources and the configuration, to be spoilt."""
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_rules_hold() -> None:
    status, broken, said = lint(ROOT)
    assert (status, broken) == (0, set()), said
    for rule in (LAYERS, PURE, NUMPY, DRIVERS, ACYCLIC):
        assert f"{rule} KEPT" in said


def test_an_untouched_copy_passes(copy: Path) -> None:
    # else a case below could fail for a reason of its own
    status, _, said = lint(copy)
    assert status == 0, said


@pytest.mark.parametrize(
    ("rule", "module", "line"), [case[1:] for case in BREACHES], ids=[c[0] for c in BREACHES]
)
def test_a_breach_is_named(copy: Path, rule: str, module: str, line: str) -> None:
    target = copy / "src" / "outcry" / module
    target.parent.mkdir(exist_ok=True)
    with target.open("a") as file:
        file.write(f"\n{line}\n")
    status, broken, said = lint(copy)
    assert status != 0, said
    assert rule in broken, said


def test_every_rule_has_a_case() -> None:
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rules = {contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]}
    assert rules == {case[1] for case in BREACHES}
