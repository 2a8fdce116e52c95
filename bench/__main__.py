"""Run benches, all unless some are named (`kernel`, `fold`, …): `python -m bench [NAME…] [--quick | --smoke]`.

The exit status is 1 if a bench could not run. A missed target is printed as missed and is no failure.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

from bench import (
    cluster,
    connections,
    delivery,
    fan_out,
    fold,
    frames,
    importing,
    kernel,
    live,
    paint,
    serving,
    streams,
)
from bench.measurement import Figure, Size, Unavailable, machine

BENCHES: dict[str, Callable[[Size], Iterator[Figure]]] = {
    "kernel": kernel.run,
    "fold": fold.run,
    "import": importing.run,
    "http": serving.run,
    "live": live.run,
    "stream": streams.run,
    "delivery": delivery.run,
    "fan_out": fan_out.run,
    "connections": connections.run,
    "cluster": cluster.run,
    "frames": frames.run,
    "pages": paint.run,
}


def main() -> int:
    """Run the named benches, or all if none is named."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(BENCHES)}; all if none is given"
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quick", action="store_true", help="smaller inputs and one round")
    amount.add_argument(
        "--smoke",
        action="store_true",
        help="the smallest inputs: shows that it runs, its figures mean nothing",
    )
    given = parser.parse_args()
    size = Size.SMOKE if given.smoke else Size.QUICK if given.quick else Size.WHOLE
    unknown = set(given.names) - set(BENCHES)
    if unknown:
        parser.error(f"no bench {sorted(unknown)[0]!r}; there are {', '.join(BENCHES)}")
    print("\n".join(machine()), flush=True)
    failed = False
    for name in given.names or BENCHES:
        print(f"\n== {name} ==", flush=True)
        try:
            for figure in BENCHES[name](size):
                print(figure, flush=True)
        except Unavailable as problem:
            failed = True
            print(f"FAILED: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
