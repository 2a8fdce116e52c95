"""Prints progress on standard error, with the time since the start."""

import sys
import time


class Progress:
    """Prints lines, each with its time."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def line(self, text: str) -> None:
        """Print a line."""
        print(f"[{time.monotonic() - self._began_s:6.1f} s] {text}", file=sys.stderr, flush=True)
