"""Fill the answer cache before the service listens, and show the progress."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from outcry.answers.warming import Warmed, warm
from outcry.app.installation import Installation
from outcry.base.log_events import EventLog, LogEvent
from outcry.database.errors import StoreBusy

#: Longest time the start spends on it.
MOST_S = 20.0


def warm_up(installation: Installation, event_log: EventLog) -> None:
    """Prepare the first answers for up to 20 seconds. If the store is unavailable, the service starts without them."""
    began_s = time.monotonic()
    with _bar() as show:
        try:
            warmed = warm(
                installation.query, installation.store, installation.market_clock.now_ns(),
                lambda: time.monotonic() - began_s < MOST_S,
                show,
            )  # fmt: skip
        except StoreBusy as problem:
            event_log.warning(LogEvent.ANSWERS_NOT_PREPARED, reason=str(problem))
            return
    took_s = time.monotonic() - began_s
    event_log.info(LogEvent.ANSWERS_PREPARED, products=warmed.done, of=warmed.of, seconds=round(took_s, 1))
    if warmed.of:
        sys.stderr.write(_line(warmed, took_s) + "\n")  # one write, because log lines share this stream
        sys.stderr.flush()


@contextmanager
def _bar() -> Generator[Callable[[int, int], object]]:
    """Show a progress bar on a terminal; yield the function that updates it."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console  # noqa: PLC0415 - a service without a terminal does without it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=Console(stderr=True),
        transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("preparing answers", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _line(warmed: Warmed, took_s: float) -> str:
    line = f"Prepared answers for {warmed.done} of {warmed.of} products in {took_s:.1f} s."
    return line if warmed.done == warmed.of else f"{line} The others are prepared on their first request."
