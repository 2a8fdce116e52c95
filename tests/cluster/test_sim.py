"""A short simulation: a disturbed cluster yields the same results as one undisturbed process.

Processes and engines are killed, stopped and stalled for half a minute. `make sim` runs the long simulation.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_cluster_that_is_killed_and_stalled_loses_and_doubles_nothing() -> None:
    call = [sys.executable, "-m", "sim", "--kills", "5", "--every", "2", "--stall", "4", "--round", "15"]
    call += ["--engines", "2", "--apis", "2", "--deliver", "1", "--seed", "7"]
    done = subprocess.run(call, cwd=ROOT, timeout=900, check=False, capture_output=True, text=True)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    assert done.stdout.endswith("no differences\n")
