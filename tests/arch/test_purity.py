"""Rules that imports cannot show: exact arithmetic and no access to the environment.

No float and no true division in the core (decision 0001). The core imports only listed modules of the standard library
and calls no built-in that reads or writes (0003). The clock is read in one place (ruff's banned names). An example
breaks each rule.
"""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "outcry"
RUFF = Path(sys.executable).parent / "ruff"

#: Modules that calculate with whole arrays.
KERNELS = [
    SOURCES / "market" / f"{name}.py"
    for name in (
        "bar_columns",
        "kernels",
        "matching/counting",
        "profile_kernels",
        "session_rows",
        "volume_count",
    )
]
PURE = sorted((SOURCES / "market").rglob("*.py"))
EXACT = sorted((SOURCES / "market").rglob("*.py"))

#: Modules of the standard library that only calculate. zoneinfo reads tables, which are data (decision 0002).
CALCULATIONS = {
    "bisect", "calendar", "collections", "csv", "dataclasses", "datetime", "difflib", "enum", "functools", "ipaddress",
    "itertools", "json", "math", "re", "typing", "unicodedata", "zlib", "zoneinfo",
}  # fmt: skip
#: Libraries that only calculate: email-validator checks syntax, and uses the network only on request.
CALCULATING_LIBRARIES = {"emails": {"email_validator"}}
WORLDLY = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}
INEXACT = {"float", "round", "complex"}
#: The functions of `math` that calculate with integers.
INTEGER_MATH = {"gcd", "isqrt"}


def inexact(tree: ast.AST) -> Iterator[str]:
    """Return float literals, true divisions and calls that create floats."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)):
            yield f"line {node.lineno}: the float {node.value!r}"
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div):
            yield f"line {node.lineno}: a true division"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in INEXACT:
            yield f"line {node.lineno}: {node.func.id}()"
        elif isinstance(node, ast.ImportFrom) and node.module == "math":
            wrong = sorted({alias.name for alias in node.names} - INTEGER_MATH)
            yield from (f"line {node.lineno}: math.{name}" for name in wrong)
        elif isinstance(node, ast.Import) and any(alias.name == "math" for alias in node.names):
            yield f"line {node.lineno}: imports math as a whole"


def impure(tree: ast.AST, libraries: Collection[str] = ()) -> Iterator[str]:
    """Return imports beyond the list and `libraries`, and built-ins that read or write."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "."]
        for name in names:
            if name.partition(".")[0] not in {*CALCULATIONS, *libraries, "outcry"}:
                yield f"line {node.lineno}: imports {name}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORLDLY:
            yield f"line {node.lineno}: {node.func.id}()"


@pytest.mark.parametrize("path", EXACT, ids=lambda path: path.stem)
def test_core_counts_in_whole_numbers(path: Path) -> None:
    assert list(inexact(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize("path", [path for path in PURE if path not in KERNELS], ids=lambda path: path.stem)
def test_core_and_accounts_only_calculate(path: Path) -> None:
    assert list(impure(ast.parse(path.read_text()), CALCULATING_LIBRARIES.get(path.stem, ()))) == []


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_the_kernels_import_numpy_and_nothing_else_beyond_the_list(path: Path) -> None:
    found = {line.partition("imports ")[2].partition(".")[0] for line in impure(ast.parse(path.read_text()))}
    assert found == {"numpy"}


@pytest.mark.parametrize(
    ("sample", "findings"),
    [
        ("target = 0.7 * total", "line 1: the float 0.7"),
        ("def half(a):\n    return a / 2", "line 2: a true division"),
        ("a /= 2", "line 1: a true division"),
        ("a = float(b)", "line 1: float()"),
        ("a = round(b)", "line 1: round()"),
        ("a = -1e9", "line 1: the float 1000000000.0"),
    ],
)
def test_what_is_not_exact_is_seen(sample: str, findings: str) -> None:
    assert list(inexact(ast.parse(sample))) == [findings]


def test_floor_division_and_remainders_are_exact() -> None:
    assert list(inexact(ast.parse("a = b // 2 + divmod(b, 3)[1]\nc //= 2"))) == []


@pytest.mark.parametrize(
    ("sample", "findings"),
    [
        ("import sys", "line 1: imports sys"),
        ("from importlib import import_module", "line 1: imports importlib"),
        ("def f():\n    import concurrent.futures", "line 2: imports concurrent.futures"),
        ("open('x')", "line 1: open()"),
        ("__import__('time')", "line 1: __import__()"),
    ],
)
def test_what_is_not_pure_is_seen(sample: str, findings: str) -> None:
    assert list(impure(ast.parse(sample))) == [findings]


def ruff(sample: str, name: str) -> str:
    """Return ruff's findings for a file of that name, with the project's configuration."""
    done = subprocess.run(
        [RUFF, "check", "--no-cache", "--output-format", "concise", "--stdin-filename", name, "-"],
        cwd=ROOT, input=sample, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


CLOCKS = {
    "from datetime import datetime\n\nAT = datetime.now()\n": "datetime.datetime.now",
    "import datetime as dt\n\nAT = dt.datetime.now(dt.UTC)\n": "datetime.datetime.now",
    "from datetime import datetime\n\nAT = datetime.utcnow()\n": "datetime.datetime.utcnow",
    "from datetime import datetime\n\nAT = datetime.today()\n": "datetime.datetime.today",
    "from datetime import date\n\nAT = date.today()\n": "datetime.date.today",
    "import time\n\nAT = time.time()\n": "time.time",
    "from time import time_ns\n\nAT = time_ns()\n": "time.time_ns",
    "import requests\n": "requests",
    "import httpx\n": "httpx",
}


@pytest.mark.parametrize(("sample", "banned"), CLOCKS.items(), ids=lambda value: value.splitlines()[-1])
@pytest.mark.parametrize("name", ["src/outcry/market/x.py", "src/outcry/live/x.py"])
def test_ruff_refuses_what_reads_the_present(sample: str, banned: str, name: str) -> None:
    findings = ruff(f'"""X."""\n\n{sample}', name)
    assert "TID251" in findings
    assert f"`{banned}` is banned" in findings


def test_ruff_refuses_naive_times() -> None:
    assert "DTZ001" in ruff(
        '"""X."""\n\nimport datetime as d\n\nA = d.datetime(2024, 1, 2)\n', "src/outcry/market/x.py"
    )


def test_the_present_is_read_in_one_place() -> None:
    escapes = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line in path.read_text().splitlines()
        if "TID251" in line
    ]
    assert [line.partition(":")[0] for line in escapes] == ["base/clock.py"], escapes


def test_every_client_names_how_it_resolves_hosts() -> None:
    """aiohttp would choose a resolver by the installed packages: see `outcry.base.http_client`."""
    clients = [
        (path.relative_to(SOURCES), rest.partition(")")[0])
        for path in sorted(SOURCES.rglob("*.py"))
        for rest in path.read_text().split("aiohttp.ClientSession(")[1:]
    ]
    assert len(clients) >= 6
    assert [str(path) for path, given in clients if "connector=" not in given] == []
