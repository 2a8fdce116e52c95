"""Prints progress on standard error, with the time since the start."""

import sys
import time


class Teller:
    """Prints lines, each with its time."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def line(self, said: str) -> None:
        """Print a line."""
        print(f"[{time.monotonic() - self._began_s:6.1f} s] {said}", file=sys.stderr, flush=True)
