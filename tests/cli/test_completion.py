"""The scripts of `outcry completion`, run by the shells themselves."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from outcry.cli import COMMANDS
from outcry.cli.completion import completion

#: Lines that complete the words after `outcry` in `WORDS`, the last of which is incomplete; candidates are printed.
ASK = {
    "bash": """
source "$SCRIPT"
read -ra given <<< "$WORDS"
[ -n "$WORDS" ] && [ "${WORDS% }" = "$WORDS" ] || given+=("")
COMP_WORDS=(outcry "${given[@]}"); COMP_CWORD=${#given[@]}
_outcry
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "fish": """
source $SCRIPT
complete -C "outcry $WORDS"
""",
}


def program(shell: str) -> str:
    """Return the path of a shell, which the tests need."""
    found = shutil.which(shell)
    assert found, f"{shell} is not installed: run `make browser`"
    return found


def written(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return the file with the script for a shell."""
    assert completion(shell) == 0  # type: ignore[arg-type]
    file = folder / f"outcry.{shell}"
    file.write_text(capsys.readouterr().out)
    return file


def candidates(shell: str, words: str, script: Path) -> set[str]:
    done = subprocess.run(
        [program(shell), "-c", ASK[shell]], capture_output=True, text=True, check=True, timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(script.parent), "SCRIPT": str(script), "WORDS": words},
    )  # fmt: skip
    return {each.partition("\t")[0].strip() for each in done.stdout.splitlines()} - {""}


@pytest.mark.parametrize("shell", ASK)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", set(COMMANDS)),
        ("se", {"serve", "session", "sessions"}),
        ("keys ", {"create", "list", "revoke"}),
        ("keys list --form", {"--format"}),
        ("keys list --format ", {"table", "json", "csv"}),
        ("completion ", {"bash", "zsh", "fish"}),
        ("import --output ", {"table", "json", "csv"}),
    ],
)
def test_words_are_completed(
    shell: str, words: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = written(shell, tmp_path, capsys)
    found = {each for each in candidates(shell, words, script) if words.endswith("--form") or each[0] != "-"}
    assert found == expected


def test_zsh_loads_its_script_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The function has the name of the file, or else zsh would define it instead of calling it."""
    script = written("zsh", tmp_path, capsys).rename(tmp_path / "_cyclopts_outcry")
    load = 'fpath+=("$HOME"); autoload -U compinit; compinit -u -D; echo $_comps[outcry]; autoload +X $_comps[outcry]'
    done = subprocess.run(
        [program("zsh"), "-f", "-c", load + "; whence -w _cyclopts_outcry"],
        capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["_cyclopts_outcry", "_cyclopts_outcry: function"]
    text = script.read_text()
    assert all(f"'{name}:" in text for name in COMMANDS)
    assert "(table json csv)" in text or "table json csv" in text
