"""The examples of the documentation and README that ask a service run against a demo, and so do the notebooks."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient
from tests.arch.docs_blocks import DOCS, KEY, URL, Block, blocks, commands, outcry_arguments
from tests.e2e.test_portable import recorded
from tests.timeouts import wait_until

OUTCRY = Path(sys.executable).with_name("outcry")
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
#: Commands of Outcry that are run. The others change the machine or need what a test does not have; their options are
#: checked in tests/arch/test_docs_examples.py. The reason for each:
RUN = {"levels", "alerts", "session", "sessions", "doctor", "--version"}
NOT_RUN = {
    "serve": "does not end; the fixture starts it",
    "agent": "needs a broker, or Sierra Chart",
    "backup": "tests/e2e/test_doctor_and_backup.py",
    "completion": "writes into folders of shells: tests/cli/test_completion.py",
    "fetch": "downloads from a vendor: tests/feeds/test_fetch.py and tests/feeds/test_fetch_hyperliquid.py",
    "import": "needs a recording: tests/e2e/test_commands.py",
    "instruments": "writes into the data folder: tests/cli/test_instruments_command.py",
    "replay": "needs a recording: tests/e2e/test_replay_command.py",
    "endpoint": "asks name servers: tests/delivery",
    "grants": "of a cluster or of an operator: tests/e2e/test_commands.py",
    "keys": "of a cluster: tests/e2e/test_commands.py",
    "match": "needs stored trades: tests/cli/test_match.py",
}
#: Pages whose commands ask another service than the demo, with the test that runs it.
ELSEWHERE = {"guides/free-market": "tests/e2e/test_free_market.py"}
#: Streams never end: these are stopped once they have printed something.
ENDLESS = re.compile(r"\.stream\(|--follow|curl -N")
START_S, RUN_S = 240, 120


class Demo(NamedTuple):
    """A running demo: its URL, a key that reads, a key that pushes, and the environment of commands."""

    url: str
    key: str
    ingest_key: str
    environment: dict[str, str]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    data = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "HOME": str(data), "OUTCRY_DATA": str(data / "data")}
    environment["PATH"] = f"{OUTCRY.parent}{os.pathsep}{environment['PATH']}"
    call = [str(OUTCRY), "serve", "--demo", "--port", "0"]
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as serving:
        assert serving.stdout is not None
        stop = threading.Timer(START_S, serving.kill)
        stop.start()
        try:
            greeting = ""
            while "key: " not in greeting or not greeting.endswith("\n"):
                line = serving.stdout.readline()
                assert line, f"the demo ended: {greeting}"
                greeting += line
            stop.cancel()
            url, key = (
                re.findall(r"Outcry demo at (\S+)", greeting)[0],
                re.findall(r"key: (\S+)", greeting)[0],
            )
            create = [str(OUTCRY), "keys", "create", "--email", "me@example.com", "--ingest"]
            done = subprocess.run(
                create, capture_output=True, text=True, env=environment, timeout=RUN_S, check=True
            )
            yield Demo(url, key, done.stdout.strip(), {**environment, "OUTCRY_URL": url, "OUTCRY_KEY": key})
        finally:
            stop.cancel()
            serving.terminate()
            serving.wait(timeout=60)


def ended(call: list[str], folder: Path, demo: Demo, *, endless: bool) -> tuple[int, str, str]:
    """Run a program to its end, or until it has printed a line if it is endless. Return status, output and errors."""
    with subprocess.Popen(
        call, cwd=folder, env={**demo.environment, "PYTHONUNBUFFERED": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        stop = threading.Timer(RUN_S, process.kill)
        stop.start()
        try:
            if endless:
                assert process.stdout is not None
                line = process.stdout.readline()
                process.kill()
                return (0, line, "") if line else (1, "", process.communicate()[1])
            output, errors = process.communicate()
            return process.returncode, output, errors
        finally:
            stop.cancel()


PYTHON = [block for block in blocks("python") if block.asks_a_service]


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_python_runs(block: Block, demo: Demo, tmp_path: Path) -> None:
    key = demo.ingest_key if "Pusher" in block.code else demo.key
    program = tmp_path / "example.py"
    program.write_text(block.code.replace(URL, demo.url).replace(KEY, key))
    endless = ENDLESS.search(block.code) is not None
    status, output, errors = ended([sys.executable, str(program)], tmp_path, demo, endless=endless)
    assert status == 0, errors
    assert output or "print" not in block.code


def lines() -> list[tuple[str, str]]:
    """Return the commands that are run, with the block of each."""
    found: list[tuple[str, str]] = []
    for block in blocks("sh"):
        for line in block.code.splitlines() if block.page not in ELSEWHERE else ():
            words = [each for each in commands(line) if each[0] in {"outcry", "curl"}]
            reads = [each for each in words if each[0] == "curl" or (each[1:2] and each[1] in RUN)]
            if words and words == reads and "$p" not in line and "localhost:80" not in line.replace(URL, ""):
                found.append((block.name, line))
    return found


@pytest.mark.parametrize(("name", "line"), lines(), ids=[f"{name} {line[:40]}" for name, line in lines()])
def test_commands_run(name: str, line: str, demo: Demo, tmp_path: Path) -> None:
    line = line.replace(URL, demo.url).replace(URL.replace("localhost", "127.0.0.1"), demo.url)
    call = ["bash", "-c", f"set -e; {line}"]
    status, output, errors = ended(call, tmp_path, demo, endless=ENDLESS.search(line) is not None)
    assert status == 0, f"{name}: {errors}"
    assert output


def test_every_command_is_run_or_named_with_a_reason() -> None:
    ran = [outcry_arguments(words) for block in blocks("sh") for words in commands(block.code)]
    named = {arguments[0] for arguments in ran if arguments}
    assert named == {word for word in named if word in RUN or word in NOT_RUN}
    assert set(NOT_RUN) <= named
    assert len(lines()) >= 6


def test_the_answer_in_the_readme_has_the_fields_of_an_answer(demo: Demo) -> None:
    """Lists that the README shortens end with an ellipsis."""
    (block,) = (block for block in blocks("json") if block.page == "README")
    shown: dict[str, Any] = json.loads(re.sub(r"(, )?…", "", block.code))
    status, output, errors = ended([str(OUTCRY), "levels", "ES"], Path(), demo, endless=False)
    assert status == 0, errors
    answer: dict[str, Any] = json.loads(output)
    assert list(shown) == list(answer)
    for name in ("developing", "prior", "overnight", "playbook"):
        assert list(shown[name]) == list(answer[name])
    assert [set(item) for name in ("nakedPocs", "poorHighs") for item in shown[name]] == [
        {"price", "date"}
    ] * 2


def test_the_readme_s_commands_for_own_data_run(tmp_path: Path) -> None:
    """As the reader does it: a service in one terminal, the commands of the block in another."""
    (block,) = (block for block in blocks("sh") if block.page == "README" and "outcry import" in block.code)
    (tmp_path / "path" / "to").mkdir(parents=True)
    recorded(tmp_path / "path" / "to" / "recordings", 2)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTCRY_")}
    environment["PATH"] = f"{OUTCRY.parent}{os.pathsep}{environment['PATH']}"
    environment |= {"OUTCRY_DATA": str(tmp_path / "data"), "OUTCRY_DISK_RESERVE_MIB": "0"}
    address = tmp_path / "data" / "address"
    with subprocess.Popen(
        [str(OUTCRY), "serve", "--port", "0"], env=environment, stderr=subprocess.DEVNULL
    ) as serving:
        try:
            wait_until(lambda: address.exists() and address.read_text().strip())
            done = subprocess.run(
                ["bash", "-e", "-c", block.code], cwd=tmp_path, env=environment,
                capture_output=True, text=True, timeout=RUN_S, check=False,
            )  # fmt: skip
        finally:
            serving.terminate()
            serving.wait(timeout=60)
    assert done.returncode == 0, done.stderr
    assert "2024-07-02" in done.stdout
    assert '"asOf": "2024-07-02"' in done.stdout
    assert "Played 400 rows of ESU2024" in done.stdout


def test_notebooks_are_kept_without_output() -> None:
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        assert [cell.outputs for cell in cells] == [[]] * len(cells), path.name
        assert {cell.execution_count for cell in cells} == {None}, path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "simulated.py").write_text((path.parent / "simulated.py").read_text())
    for name in ("OUTCRY_URL", "OUTCRY_KEY"):
        monkeypatch.setenv(name, demo.environment[name])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook: Any = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=RUN_S, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "stream" and output.name == "stderr"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs), "no plot"
