"""Cancel asynchronous work when the operating system asks the process to end."""

import asyncio
import signal
from collections.abc import Iterable
from typing import Any

#: Signals that ask a process to end. Windows sends SIGBREAK for Ctrl-Break and when a console or a session closes.
TERMINATION: tuple[signal.Signals, ...] = tuple(
    signal.Signals[name] for name in ("SIGTERM", "SIGBREAK") if hasattr(signal, name)
)


def cancel_on(task: asyncio.Future[Any], signs: Iterable[signal.Signals]) -> None:
    """Cancel a task of the running event loop when one of these signals arrives. Call it in the main thread."""
    loop = asyncio.get_running_loop()

    def cancel(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(task.cancel)

    for sign in signs:
        try:
            loop.add_signal_handler(sign, task.cancel)
        except (
            NotImplementedError
        ):  # event loops of Windows; they wake up for handlers of the module `signal`
            signal.signal(sign, cancel)
