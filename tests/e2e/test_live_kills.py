"""A stream process is killed at any moment; the result must equal that of an undisturbed run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KILLS = 200
#: Enough kills for one round of the simulated market, the workload with the most alert types.
FEW_KILLS = 15
PARTS = {"opening", "recovery", "snapshot", "archive", "alerts", "references"}


def parts_hit(shared: Path, folder: Path, kills: int, *names: str) -> set[str]:
    """Run `kill_worker`, which compares alerts with their keys, sessions, tape, levels, the state and the position of
    every stream. Return the parts of the work that were under way when a kill fell. At least six alert types fire."""
    call = [sys.executable, "-m", "tests.e2e.kill_worker", str(shared), str(folder), str(kills), "1", *names]
    done = subprocess.run(call, cwd=ROOT, timeout=600, check=False, capture_output=True, text=True)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    summary = re.search(rf"^{kills} kills in \d+ rounds, \d+ s; during: (.*)$", done.stdout, re.MULTILINE)
    assert summary
    undisturbed = re.search(r"^made: .* undisturbed, (.*)$", done.stdout, re.MULTILINE)
    assert undisturbed
    assert undisturbed[1].count(":") >= 6
    return {part.rsplit(" ", 1)[0] for part in summary[1].split(", ")}


def test_a_few_kills_change_nothing(shared: Path, tmp_path: Path) -> None:
    assert len(parts_hit(shared, tmp_path / "folder", FEW_KILLS, "made") & PARTS) >= 2


@pytest.mark.soak
def test_two_hundred_kills_change_nothing(shared: Path, tmp_path: Path) -> None:
    """Kills hit starting, recovering, snapshots, the archive, and alerts on their way to the store."""
    assert parts_hit(shared, tmp_path / "folder", KILLS) >= PARTS
