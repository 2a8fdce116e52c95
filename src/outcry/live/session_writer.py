"""What has ended goes from a stream's log into the store.

Rules kept: what is stored was kept in the log before, and is stored whole, by who has the stream: a process that stood
still does not put less in the place of what its successor stored; a store that is busy holds a live stream up for a
moment only.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.live import entries as log
from outcry.live.archive import Archive
from outcry.live.model import LogTakenOver, TradeLog
from outcry.live.recorder import RETRY_S
from outcry.live.runner import Runner
from outcry.recordings.file_model import FileRefused
from outcry.sessions.tape_model import TapeDamaged, TapeInUse

#: A store that is busy holds a live stream up no longer than this; what has ended is then stored later.
PATIENCE_S = 5.0


class SessionWriter:
    """Stores sessions and trade dates of streams, one at a time. `report`: asked for each time, for it is set late."""

    def __init__(self, trades: TradeLog, archive: Archive, rush: float, report: Callable[[], Report]) -> None:
        self._log, self._archive, self._rush, self._report = trades, archive, rush, report
        self._thread = ThreadPoolExecutor(1, "outcry-archive")

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown()

    async def store(self, runner: Runner, what: str) -> bool:
        """Put what has ended into the store; False where that has to wait. Raises `LogTakenOver`."""
        stream = runner.stream
        position, covered, settled_ns = stream.position, stream.covered(), stream.time_ns
        days = {day for day, _ in stream.days}
        await runner.persisted()

        def work() -> None:
            frames = self._log.read(runner.name, 0)
            entries = [log.decode(frame) for frame in frames if frame.first < position]
            of_days = log.of_days(entries, days)
            self._archive.store(
                runner.key, of_days, covered, settled_ns, lambda: self._log.check_ownership(runner.name)
            )

        loop = asyncio.get_running_loop()
        began_s, told = loop.time(), False
        while True:
            try:
                await loop.run_in_executor(self._thread, work)
            except (StoreBusy, TapeInUse) as problem:
                if loop.time() - began_s > PATIENCE_S and not stream.own_clock:
                    self._say(LogEvent.SESSION_NOT_STORED_YET, runner, what, problem)
                    return False
                await asyncio.sleep(RETRY_S / self._rush)
            except LogTakenOver:
                runner.stream.close()
                raise
            except FileRefused as problem:  # nor ever will: it is let go
                self._say(LogEvent.SESSION_REJECTED, runner, what, problem)
                return True
            except (
                OSError
            ) as problem:  # a full disk: what comes next is measured against what could not be stored
                if not told:
                    self._say(LogEvent.SESSION_STORE_FAILED, runner, what, problem)
                told = True
                if loop.time() - began_s > PATIENCE_S and not stream.own_clock:
                    return False
                await asyncio.sleep(RETRY_S / self._rush)
            except TapeDamaged as problem:
                self._say(LogEvent.SESSION_STORE_FAILED, runner, what, problem)
                return False
            else:
                return True

    def _say(self, event: LogEvent, runner: Runner, what: str, problem: Exception) -> None:
        self._report()(event, stream=runner.name, what=what, problem=str(problem))
