"""The same tape gives the same bytes, whatever the hash seed, the time zone and the batch size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUR_NS = 3_600_000_000_000
#: Hash seed, time zone, and maximum rows of a batch; a batch ends with the hour at the latest.
WAYS = [("0", "Asia/Tokyo", 4096), ("1", "America/Chicago", 97), ("2", "Asia/Tokyo", 1)]


@pytest.fixture(scope="module")
def dumps(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Return the result's lines for each of these settings."""
    home = tmp_path_factory.mktemp("determinism")
    found: list[list[str]] = []
    for hash_seed, zone, batch in WAYS:
        folder, target = home / str(batch), home / f"{batch}.txt"
        call = [sys.executable, "-m", "tests.e2e.replay_runs", str(shared), str(folder), str(target), str(batch),
                str(HOUR_NS)]  # fmt: skip
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone}
        done = subprocess.run(
            call, cwd=ROOT, env=env, timeout=600, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found.append(target.read_text().split("\n"))
    return found


def test_the_same_tape_gives_the_same_bytes(dumps: list[list[str]]) -> None:
    """Alerts, sessions, tape, stream states and hourly answers are equal."""
    first, *others = dumps
    for other in others:
        assert len(other) == len(first)
        for line, same in zip(first, other, strict=True):
            if line != same:  # the lines are long: show where they differ
                at = next(i for i, (a, b) in enumerate(zip(line, same, strict=False)) if a != b)
                pytest.fail(f"{line[:40]} at {at}: {line[at - 200 : at + 100]} | {same[at - 200 : at + 100]}")


def test_it_is_about_something(dumps: list[list[str]]) -> None:
    """The result has six streams, at least six types of alerts, and live answers with alerts."""
    text = "\n".join(dumps[0])
    assert sum(line.startswith("stream ") for line in dumps[0]) == 6
    assert text.count('\\"live\\":true') > 100
    assert text.count('\\"ref\\":\\"VAH\\"') > 0
    alerts = next(line for line in dumps[0] if line.startswith("alerts "))
    for kind in (
        "ib-break-up", "ib-break-down", "va-test-low", "va-reject-low", "va-accept-below", "naked-poc"
    ):  # fmt: skip
        assert f'"type": "{kind}"' in alerts
