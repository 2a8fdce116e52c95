"""Modules load lazily: large parts are imported on first use, and only the listed modules decide when.

Decision 0060. A process's memory and the time of its start are mostly imports, so the tests name what must be missing.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outcry.app.installation import open_installation
from outcry.app.settings import read_settings

SOURCES = Path(__file__).parents[2] / "src" / "outcry"

#: Modules with imports inside functions, by reason.
PLACES = {
    "a part that loads when it is first used": {
        "app/delivery.py", "app/installation.py", "app/live.py", "app/people.py", "base/encryption.py",
        "people/email_address.py", "people/passkeys.py", "api/probes.py",
    },
    "chosen by a setting": {"app/application.py", "app/outside.py", "database/database.py", "live/store.py"},
    "needed until a database is up to date": {"database/migrate.py"},
    "only a checkout compiles catalogues": {"base/translations.py"},
    "a command's options and failures": {
        "cli/__init__.py", "cli/agent.py", "cli/agent_feeds.py", "cli/demo.py", "cli/fetching.py", "cli/market.py",
        "cli/serving.py",
    },
    "a broker's feed, with a library that may be missing": {
        f"feeds/{broker}/adapter.py"
        for broker in (
            "databento", "hyperliquid", "ibkr", "massive", "projectx", "tastytrade", "tradovate",
        )
    },
    "needs private parts of a library, which another version may lack": {"http/server.py"},
    "an extra": {
        "__main__.py", "library/__init__.py", "library/files.py", "library/plot.py",
        "recordings/formats/file_library.py", "trades/own_tables.py",
    },
}  # fmt: skip

#: Not needed to list commands.
HEAVY = {
    "aiohttp",
    "numpy",
    "pyarrow",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "webauthn",
    "outcry.app",
    "outcry.market",
}
#: Not needed to serve answers.
DEFERRED = {
    "aiohttp", "alembic", "argon2", "cryptography", "databento_dbn", "email_validator", "jinja2", "joserfc", "OpenSSL",
    "prometheus_client", "pyarrow", "pyotp", "rich", "segno", "sqlalchemy.dialects.postgresql", "webauthn", "zstandard",
    "outcry.cluster", "outcry.delivery.egress",
    "outcry.feeds.simulator", "outcry.people.service", "outcry.recordings.formats.file_library", "outcry.web",
}  # fmt: skip
#: Not needed to compute a profile.
SERVER = {
    "aiohttp", "cyclopts", "msgspec", "pandas", "polars", "pyarrow", "sqlalchemy", "starlette", "outcry.app",
    "outcry.database", "outcry.http", "outcry.live",
}  # fmt: skip

HELP = """
from outcry.cli import app
app("--help", result_action="return_value")
"""
PROFILE = """
import outcry
outcry.profile
"""
SERVE = """
import asyncio, sys
import outcry.cli.serving
from outcry.app.application import build_application
from outcry.app.installation import open_installation
from outcry.app.settings import read_settings

async def ask(application):
    sent = []
    async def send(message):
        sent.append(message)
    scope = {
        "type": "http", "method": "GET", "path": "/api/levels", "raw_path": b"/api/levels",
        "query_string": b"symbol=ES", "headers": [], "client": ("127.0.0.1", 1), "scheme": "http",
        "server": ("127.0.0.1", 80), "http_version": "1.1",
    }
    await application.start()
    await application.asgi(scope, None, send)
    await application.stop()
    return sent[0]["status"]

settings = read_settings({}, data=sys.argv[1])
with open_installation(settings) as installation, installation.log.exclusively():
    assert asyncio.run(ask(build_application(installation).application)) == 401
"""


def loaded(script: str, *arguments: str) -> set[str]:
    """Run a script; return the modules it loaded, and all packages that contain one."""
    printing = "\nimport json, sys\nprint(json.dumps(list(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script + printing, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stderr.splitlines()[-1])
    return {name.rsplit(".", cut)[0] for name in names for cut in range(name.count(".") + 1)}


def deferred_imports(tree: ast.AST) -> Iterator[ast.stmt]:
    """Return the imports inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (node for node in ast.walk(function) if isinstance(node, (ast.Import, ast.ImportFrom)))


def test_only_the_listed_modules_import_inside_functions() -> None:
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if "versions" not in path.parts and any(deferred_imports(ast.parse(path.read_text())))
    }
    assert found == set[str]().union(*PLACES.values())


@pytest.mark.parametrize("script", ["import outcry", HELP], ids=["import", "help"])
def test_the_list_of_commands_loads_no_command(script: str) -> None:
    modules = loaded(script)
    assert modules & HEAVY == set()
    assert not [name for name in modules if name.startswith("outcry.cli.")]


def test_a_profile_loads_no_server() -> None:
    assert loaded(PROFILE) & SERVER == set()


def test_answers_load_no_page_no_channel_and_no_file_format(tmp_path: Path) -> None:
    with open_installation(read_settings({}, data=str(tmp_path))) as installation:
        assert installation.vault  # creates the database and the vault's key, which only the first start does
    assert loaded(SERVE, str(tmp_path)) & DEFERRED == set()
