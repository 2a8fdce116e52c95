"""A service with few file descriptors, in its own process: `python -m tests.api.cramped LIMIT LOOP`.

It prints its port and a key. A line `hog` on standard input makes it open files until none are left, `free` closes
them, `log` prints how many log lines there are of each event.
"""

import json
import os
import resource
import sys
from collections import Counter

from tests.api.harness import build_harness, served

from outcry.http import server


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main() -> None:
    limit, loop = int(sys.argv[1]), sys.argv[2]
    if loop == "asyncio":
        server.find_spec = lambda _name: None  # type: ignore[assignment]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    hogged: list[int] = []
    with served(build_harness()) as harness:
        say(harness.port, harness.key())
        for line in sys.stdin:
            if line == "hog\n":
                try:
                    while True:
                        hogged.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    say(len(hogged))
            elif line == "free\n":
                for descriptor in hogged:
                    os.close(descriptor)
                say(len(hogged))
            elif line == "log\n":
                events = [json.loads(text)["event"] for text in harness.log.getvalue().splitlines()]
                say(json.dumps(Counter(events)))


if __name__ == "__main__":
    main()
