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
from sim.stage import Company
from sim.telling import Teller


def main() -> int:
    """Run one simulation."""
    given = _parser().parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    company = Company(given.engines, given.feeds, given.apis, given.deliver)
    plan = Plan(seed, Pace(given.kills, given.every, given.stall), company, given.round)
    folder = Path(tempfile.mkdtemp(prefix="outcry-sim-"))
    print(f"seed {seed}; data and logs in {folder}", file=sys.stderr, flush=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)

    async def run() -> int:
        verdict = await Campaign(plan, folder, Teller()).run()
        print("\n".join(verdict.report))
        for fault in verdict.faults:
            print(f"FAULT: {fault}")
        print(f"{len(verdict.faults)} faults" if verdict.faults else "nothing lost, nothing doubled")
        return 1 if verdict.faults else 0

    status = uvloop.run(run())
    if status:
        print(f"repeat with --seed {seed}; what the processes said is in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    said = "how many processes are killed in all; stops, restarts and stalls come beside them (default %(default)s)"
    parser.add_argument("--kills", type=int, default=200, help=said)
    parser.add_argument("--seed", type=int, help="what everything is made of; by chance if not given")
    for role, count in (("engines", 3), ("feeds", 2), ("apis", 3), ("deliver", 2)):
        parser.add_argument(f"--{role}", type=int, default=count, help=f"how many of them (default {count})")
    parser.add_argument(
        "--every", type=float, default=1.5, help="seconds between two faults, on average (default 1.5)"
    )
    parser.add_argument(
        "--stall", type=float, default=30, help="how long a stall lasts at most, in seconds (default 30)"
    )
    parser.add_argument(
        "--round", type=float, default=40, help="how long recordings are played (default 40 s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
