"""Every bench runs with the smallest inputs, and figures are judged and printed in one form.

The smoke tests do not judge the figures. Benches with several engines or a killed owner need a quiet machine, because
leases expire while it stalls: they are part of `make soak`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import BENCHES
from bench.figures import Figure, Rounds, at_least, at_most
from bench.report import Run, table

ROOT = Path(__file__).parents[2]
LONG = {"cluster", "failover"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in LONG else name for name in BENCHES]
)
def test_a_bench_runs_and_each_row_of_the_table_has_a_goal(name: str, tmp_path: Path) -> None:
    stored = tmp_path / "run.json"
    call = [sys.executable, "-m", "bench", name, "--smoke", "--json", str(stored)]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    lines = Run.load(stored).lines
    rows = [line.figure for line in lines if line.is_listed]
    assert lines
    assert bool(rows) is (BENCHES[name].goals is not None)
    assert all(row.goal for row in rows)
    names = [line.figure.name for line in lines]
    assert len(set(names)) == len(names)


def test_a_ratio_is_the_median_of_each_round_s_ratio_and_the_best_that_of_the_best_rounds() -> None:
    # the ratios are 4, 2 and 1
    figure = Figure.ratio("share", Rounds.of([4, 2, 3]), Rounds.of([1, 1, 3]), "a peer", at_least(2), "note")
    assert (figure.value, figure.best, figure.verdict) == (2, 2, "met")
    assert str(figure).split(";", 1) == [
        f"{'share':<60} {'2 × (best 2)':<24} of a peer",
        " goal ≥ 2: met. note; 3 rounds",
    ]


@pytest.mark.parametrize(
    ("value", "goal", "verdict"),
    [(2, at_most(1), "MISSED"), (1, at_most(1), "met"), (0.9, at_least(1), "MISSED"), (5, None, "")],
)
def test_the_verdict_compares_the_value_with_the_goal(value: float, goal: object, verdict: str) -> None:
    figure = Figure("cost", value, "ms", goal=goal)  # type: ignore[arg-type]
    assert figure.verdict == verdict


def test_stored_runs_are_printed_as_one_table(tmp_path: Path) -> None:
    for name, value in (("before", 3.0), ("after", 0.5)):
        run = Run("2026-11-23 12:00 UTC", ["two processors"])
        run.add("http", Figure("cost", value, "×", "note", "a peer", at_most(1)), is_listed=True)
        run.add("http", Figure("detail", 7, "ms"), is_listed=False)
        run.save(tmp_path / f"{name}.json")
    runs = [Run.load(tmp_path / f"{name}.json") for name in ("before", "after")]
    assert list(table(runs[:1], ["before"], listed=True)) == [
        "| measure | compared with | median (best) | goal | verdict | detail |",
        "|---|---|---|---|---|---|",
        "| cost | a peer | 3 × | ≤ 1 | **missed** | note |",
    ]
    assert (
        list(table(runs, ["before", "after"], listed=True))[2]
        == "| cost | a peer | 3 × | 0.5 × | ≤ 1 | **missed**, met | note |"
    )
    assert [line.split(" | ")[0] for line in table(runs[:1], ["before"], listed=False)][2:] == ["| detail"]


def test_the_command_refuses_an_unknown_bench() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert re.search(r"invalid choice: 'nothing'", done.stderr)
