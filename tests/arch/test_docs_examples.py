"""Every code block of the documentation is run, or checked as far as it can be without what it needs.

Python runs here, or in `tests/e2e/test_docs_with_a_service.py` if it asks a service; commands that read from a service
run there too. All other commands are parsed by the program's own parser.
"""

import json
import re
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from standardwebhooks import Webhook
from tests.arch.docs_blocks import ROOT, Block, blocks, commands, outcry_arguments
from tools.docs_picture import simulated_day

from outcry.access.key_format import compose
from outcry.app.settings import read_settings
from outcry.base.clock import SystemClock
from outcry.cli import app
from outcry.cli.agent_config import read_plan
from outcry.cli.agent_feeds import Means
from outcry.feeds.adapters import adapters
from outcry.trades.reference_tables import load_reference

#: Languages that are not code: pictures, output, or a synopsis.
TEXT = {"text"}
#: Languages whose blocks have a check of their own elsewhere.
CHECKED_ELSEWHERE = {
    "csv": "read by tests/market/test_reference_data.py and tests/trades/test_instrument_tables.py",
    "http": "an exchange of the stream ticket: tests/api/test_api_stream.py",
    "ini": "a unit of systemd, which tests cannot start; its command is parsed here",
}
PYTHON = sorted({block.page for block in blocks("python") if not block.asks_a_service})


def run(page: str) -> dict[str, Any]:
    """Run the Python blocks of a page in order, as one program, and return its names."""
    names: dict[str, Any] = {"__name__": "__example__"}
    for block in blocks("python"):
        if block.page == page and not block.asks_a_service:
            source = "\n" * (block.line - 1) + block.code
            exec(compile(source, f"{page}.md", "exec"), names)
    return names


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "README":  # its reader has a file
        pd.DataFrame(simulated_day()).to_parquet("es.parquet")
    assert run(page)


def test_examples_of_the_library_state_their_results() -> None:
    checked = [block for block in blocks("python") if "outcry.profile(" in block.code]
    assert len(checked) >= 15
    assert [block.name for block in checked if "assert" not in block.code and "plot" not in block.code] == []


def test_every_block_has_a_language_that_is_checked() -> None:
    known = {"python", "sh", "toml", "json"} | TEXT | set(CHECKED_ELSEWHERE)
    assert [block.name for block in blocks() if block.language not in known] == []
    assert {block.language for block in blocks()} >= set(CHECKED_ELSEWHERE)


def test_text_contains_no_command() -> None:
    """A synopsis in capitals or with brackets is text; a command that can be run is `sh`."""
    command = re.compile(r"^(?:outcry|curl|pip|make|uvx?|pipx) (?![^\n]*(?:\[-|[A-Z]{4}))", re.MULTILINE)
    assert [block.name for block in blocks("text") if command.search(block.code)] == []


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.name)
def test_commands_are_well_formed(block: Block) -> None:
    done = subprocess.run(
        ["bash", "-n"], input=block.code, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_of_outcry_are_accepted_by_its_parser() -> None:
    found = [
        (block.name, arguments)
        for block in blocks("sh")
        for words in commands(block.code)
        if (arguments := outcry_arguments(words))
    ]
    assert len(found) > 25
    for name, words in found:
        arguments = ["1" if word.startswith("$") else word for word in words]
        try:
            app.parse_args(arguments, print_error=False, exit_on_error=False)
        except Exception as error:
            raise AssertionError(f"{name}: outcry {' '.join(words)}: {error}") from error


def test_urls_of_curl_are_endpoints_of_the_service() -> None:
    paths = {
        *json.loads((ROOT / "tests" / "api" / "openapi.json").read_text())["paths"],
        "/readyz",
        "/healthz",
    }
    found = [
        (block.name, re.sub(r"^(?:https?://)?[^/]*|\?.*", "", word))
        for block in blocks("sh")
        for words in commands(block.code)
        if words[0] == "curl"
        for word in words[1:]
        if "/" in word
    ]
    assert len(found) >= 3
    assert [each for each in found if each[1] not in paths] == []


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {words[1] for block in blocks("sh") for words in commands(block.code) if words[0] == "make"}
    assert named
    assert named <= targets


@pytest.mark.parametrize("block", blocks("toml"), ids=lambda block: block.name)
def test_settings_are_accepted(block: Block, tmp_path: Path) -> None:
    """A file of settings is read by the service or by the agent."""
    assert tomllib.loads(block.code)
    path = tmp_path / "outcry.toml"
    path.write_text(block.code)
    path.chmod(0o600)
    if "[[feed]]" in block.code:
        (tmp_path / "agent.key").write_text(compose(1))
        (tmp_path / "agent.key").chmod(0o600)
        means = Means(load_reference().universe, SystemClock(), adapters)
        assert read_plan(path, {}, means).feeds
    else:
        assert read_settings({"OUTCRY_DATA": str(tmp_path)})


def test_the_unit_of_the_agent_starts_a_command_that_exists() -> None:
    (block,) = blocks("ini")
    (command,) = re.findall(r"^ExecStart=\S+/outcry (.*)$", block.code, re.MULTILINE)
    app.parse_args(command, print_error=False, exit_on_error=False)


def test_the_receiver_of_webhooks_accepts_a_signed_message_only() -> None:
    verified, secret, body = (
        run("guides/webhooks")["verified"],
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        '{"a":1}',
    )
    now = datetime.fromtimestamp(SystemClock().now_ns() // 10**9, UTC)
    headers = {
        "webhook-id": "m1", "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("m1", now, body),
    }  # fmt: skip
    assert verified(secret, body.encode(), headers) == {"a": 1}
    with pytest.raises(Exception, match="No matching signature"):
        verified(secret, b'{"a":2}', headers)
