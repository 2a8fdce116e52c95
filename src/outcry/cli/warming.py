"""Fill the answer cache before the service listens, and show the progress."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from outcry.answers.warming import Warmed, warm
from outcry.app.installation import Installation
from outcry.base.log_events import EventLog, LogEvent
from outcry.database.errors import StoreBusy

#: Longest time the start spends on it.
MOST_S = 20.0


def warm_up(installation: Installation, event_log: EventLog) -> None:
    """Prepare the first answers for up to 20 seconds. If the store is unavailable, the service starts without them."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console,
        disable=not console.is_terminal, transient=True,
    )  # fmt: skip
    began_s = time.monotonic()
    with bar:
        task = bar.add_task("preparing answers", total=None)
        try:
            warmed = warm(
                installation.query, installation.store, installation.market_clock.now_ns(),
                lambda: time.monotonic() - began_s < MOST_S,
                lambda done, of: bar.update(task, completed=done, total=of),
            )  # fmt: skip
        except StoreBusy as problem:
            event_log.warning(LogEvent.ANSWERS_NOT_PREPARED, reason=str(problem))
            return
    took_s = time.monotonic() - began_s
    event_log.info(LogEvent.ANSWERS_PREPARED, products=warmed.done, of=warmed.of, seconds=round(took_s, 1))
    if warmed.of:
        sys.stderr.write(_line(warmed, took_s) + "\n")  # one write, because log lines share this stream
        sys.stderr.flush()


def _line(warmed: Warmed, took_s: float) -> str:
    line = f"Prepared answers for {warmed.done} of {warmed.of} products in {took_s:.1f} s."
    return line if warmed.done == warmed.of else f"{line} The others are prepared on their first request."
