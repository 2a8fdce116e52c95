"""Killed at any moment, two hundred times: what came of it in the end is what an undisturbed run gives."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KILLS = 200


def test_two_hundred_kills_change_nothing(shared: Path, tmp_path: Path) -> None:
    """Alerts with their keys, sessions, tape, levels, the state and the position of every stream: see `kill_worker`.

    At least six types of alerts fire; kills hit starting, recovering, snapshots, the archive, and alerts on their way
    to the store.
    """
    call = [
        sys.executable,
        "-m",
        "tests.e2e.kill_worker",
        str(shared),
        str(tmp_path / "folder"),
        str(KILLS),
        "1",
    ]
    done = subprocess.run(call, cwd=ROOT, timeout=600, check=False, capture_output=True, text=True)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    summary = re.search(r"^200 kills in \d+ rounds, \d+ s; during: (.*)$", done.stdout, re.MULTILINE)
    assert summary
    hits = dict(part.rsplit(" ", 1) for part in summary[1].split(", "))
    assert {"opening", "recovery", "snapshot", "archive", "alerts", "references"} <= set(hits)
    undisturbed = re.search(r"^made: .* undisturbed, (.*)$", done.stdout, re.MULTILINE)
    assert undisturbed
    assert undisturbed[1].count(":") >= 6
