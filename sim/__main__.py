"""`python -m sim`: disturbs a cluster on this machine at random, and compares its results with one process.

It starts three JetStream nodes and PostgreSQL, each behind a proxy that can stall, and one process per Outcry role.
Recordings generated from the seed are pushed through all API replicas, and files grow as Sierra Chart's do. Keys are
created and revoked, webhooks received, and answers read all the time.

At the end every alert, session and tape file, answer, key and delivery is compared with the same recordings folded in
one undisturbed process. Progress goes to standard error, the report to standard output. The exit status is 1 if
anything differs. The same seed yields the same recordings and plan of faults, but not the same timing.
"""

import argparse
import logging
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop
from sim.campaign import Campaign, Plan
from sim.faults import Pace
from sim.processes import ProcessCounts
from sim.progress import Progress


def main() -> int:
    """Run one simulation."""
    given = _parser().parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    counts = ProcessCounts(given.engines, given.feeds, given.apis, given.deliver)
    plan = Plan(seed, Pace(given.kills, given.every, given.stall), counts, given.round)
    folder = Path(tempfile.mkdtemp(prefix="outcry-sim-"))
    print(f"seed {seed}; data and logs in {folder}", file=sys.stderr, flush=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)

    async def run() -> int:
        verdict = await Campaign(plan, folder, Progress()).run()
        print("\n".join(verdict.report))
        for fault in verdict.faults:
            print(f"FAULT: {fault}")
        print(f"{len(verdict.faults)} faults" if verdict.faults else "no differences")
        return 1 if verdict.faults else 0

    status = uvloop.run(run())
    if status:
        print(f"repeat with --seed {seed}; the output of the processes is in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kills = "number of processes to kill; stops, restarts and stalls are additional (default %(default)s)"
    parser.add_argument("--kills", type=int, default=200, help=kills)
    parser.add_argument("--seed", type=int, help="seed of the recordings and faults (default: random)")
    for role, count in (("engines", 3), ("feeds", 2), ("apis", 3), ("deliver", 2)):
        parser.add_argument(
            f"--{role}", type=int, default=count, help=f"number of these processes (default {count})"
        )
    parser.add_argument(
        "--every", type=float, default=1.5, help="average seconds between two faults (default 1.5)"
    )
    parser.add_argument(
        "--stall", type=float, default=30, help="maximum length of a stall in seconds (default 30)"
    )
    parser.add_argument(
        "--round", type=float, default=40, help="seconds to replay a round of recordings (default 40)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
