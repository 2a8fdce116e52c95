"""Every bench runs with the smallest inputs. Its figures are not judged.

`make test` runs those that take seconds; those that start services, engines or a browser are part of `make soak`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import BENCHES

ROOT = Path(__file__).parents[2]
FIGURE = re.compile(r"^\S.* {2,}-?[\d.,e+]+ \S", re.MULTILINE)
SHORT = {"kernel", "fold", "http"}


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.soak) for name in BENCHES]
)
def test_a_bench_runs(name: str) -> None:
    call = [sys.executable, "-m", "bench", name, "--smoke"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert FIGURE.search(done.stdout.partition(f"== {name} ==")[2]), done.stdout
