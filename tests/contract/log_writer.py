"""A process that appends to a log until it is killed, and prints each position once `append` has returned.

Frame `n` has `count(n)` entries and contains `blob(n)`, so that a reader knows what to expect.
"""

import hashlib
import sys
from pathlib import Path

from outcry.live.file_log import FileLog

KEY = "0/demo/ESZ2026"


def count(n: int) -> int:
    return 1 + n * 7919 % 300


def blob(n: int) -> bytes:
    return hashlib.sha256(str(n).encode()).digest() * (n * 104729 % 600)


def main(folder: str, frames: int) -> None:
    log = FileLog(Path(folder), segment_bytes=1 << 20)
    with log.exclusively():
        n = first = 0
        while first < log.last(KEY):  # continue at the end of the log, as after any crash
            first, n = first + count(n), n + 1
        for n in range(n, n + frames):  # noqa: B020 - from there on
            log.append(KEY, first, count(n), blob(n))
            first += count(n)
            sys.stdout.write(f"{first}\n")
            sys.stdout.flush()
            if n % 97 == 0:
                log.cut(KEY)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
