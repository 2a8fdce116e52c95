"""Says on standard error what goes on, with the time since the start."""

import sys
import time


class Teller:
    """Lines, each with its time."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def line(self, said: str) -> None:
        """Say something."""
        print(f"[{time.monotonic() - self._began_s:6.1f} s] {said}", file=sys.stderr, flush=True)
