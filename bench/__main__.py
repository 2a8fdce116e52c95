"""Run benches, all unless some are named (`http`, `live`, …): `python -m bench [NAME…] [--table] [--quick | --smoke]`.

Each bench yields the rows of the table of goals, and then other figures. The exit status is 1 if a bench failed;
a missed goal is printed as `MISSED` and is no failure. With the folder of a compiled wheel in `PYTHONPATH`, everything
runs in that form. The header states the form.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench import (
    cluster,
    composite,
    connections,
    delivery,
    failover,
    fan_out,
    fold,
    frames,
    importing,
    install,
    kernel,
    library,
    live,
    match,
    page_cost,
    paint,
    recovery,
    replica,
    serving,
    start,
    streams,
)
from bench.figures import Figure
from bench.measurement import ROUNDS, Scale, Size, Unavailable, machine
from bench.report import Run

Measure = Callable[[Size], Iterator[Figure]]


class Bench(NamedTuple):
    """A bench: its rows of the table of goals, and its other figures."""

    goals: Measure | None
    more: Measure | None = None


BENCHES = {
    "http": Bench(serving.goals, serving.more),
    "live": Bench(live.goals, live.more),
    "fold": Bench(fold.goals),
    "kernel": Bench(kernel.goals, kernel.more),
    "composite": Bench(composite.goals),
    "library": Bench(library.goals),
    "match": Bench(match.goals),
    "import": Bench(importing.goals, importing.more),
    "start": Bench(start.goals),
    "install": Bench(install.goals),
    "pages": Bench(page_cost.goals, paint.more),
    "delivery": Bench(delivery.goals, delivery.more),
    "stream": Bench(streams.goals),
    "connections": Bench(connections.goals, connections.more),
    "fan_out": Bench(None, fan_out.more),
    "frames": Bench(None, frames.more),
    "replica": Bench(None, replica.more),
    "cluster": Bench(None, cluster.more),
    "recovery": Bench(None, recovery.more),
    "failover": Bench(None, failover.more),
}


def main() -> int:
    """Run the named benches, or all if none is named."""
    given = _arguments()
    scale = Scale.SMOKE if given.smoke else Scale.QUICK if given.quick else Scale.WHOLE
    size = Size(scale, given.rounds or ROUNDS[scale])
    run = Run(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", machine())  # noqa: TID251 - when the bench ran
    print("\n".join(run.machine), flush=True)
    failed = False
    for name in given.names or BENCHES:
        bench = BENCHES[name]
        measures = [(bench.goals, True), *([] if given.table else [(bench.more, False)])]
        for measure, is_listed in measures:
            if measure is not None:
                failed |= not _run(name, measure, size, run, is_listed=is_listed)
        if given.json:  # after each bench, so that an interrupted run leaves its figures
            run.save(given.json)
    missed = sum(line.figure.verdict == "MISSED" for line in run.lines)
    print(f"\n{sum(line.figure.goal is not None for line in run.lines)} goals, {missed} missed")
    return 1 if failed else 0


def _run(name: str, measure: Measure, size: Size, run: Run, *, is_listed: bool) -> bool:
    """Print and store the figures of a bench as they come; return whether it came to its end."""
    print(f"\n== {name}{'' if is_listed else ', more'} ==", flush=True)
    try:
        for figure in measure(size):
            print(figure, flush=True)
            run.add(name, figure, is_listed=is_listed)
    except (Unavailable, RuntimeError) as problem:
        print(f"FAILED: {problem}", flush=True)
        return False
    return True


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").split("\n")[0])
    names = f"one of {', '.join(BENCHES)}"
    parser.add_argument("names", nargs="*", metavar="name", choices=[*BENCHES, []], help=names)
    parser.add_argument("--table", action="store_true", help="only the table of goals")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quick", action="store_true", help="smaller inputs and fewer rounds")
    amount.add_argument("--smoke", action="store_true", help="smallest inputs: shows that it runs, no more")
    parser.add_argument("--rounds", type=int, help="rounds of each ratio")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures for bench.report")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
