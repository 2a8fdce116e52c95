"""Stores completed sessions and trade dates from the log of their stream.

Their rows must be persisted in the log first. Only the process that owns the stream stores them, so that a process that
was paused does not overwrite what the new owner has stored. A busy database delays a live stream only briefly.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.live import entries as log
from outcry.live.archive import Archive
from outcry.live.database_calls import RETRY_S
from outcry.live.live_stream import LiveStream
from outcry.live.model import LogTakenOver
from outcry.live.trade_log import TradeLog
from outcry.recordings.file_model import FileRefused
from outcry.recordings.tape_errors import TapeDamaged, TapeInUse

#: A busy store delays a live stream no longer than this. After it the session is stored in the background.
PATIENCE_S = 5.0


class SessionWriter:
    """Stores completed sessions and trade dates, one at a time."""

    def __init__(self, trades: TradeLog, archive: Archive, speedup: float, report: Report) -> None:
        self._log, self._archive, self._speedup, self._report = trades, archive, speedup, report
        self._thread = ThreadPoolExecutor(1, "outcry-archive")

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()

    async def store(self, live: LiveStream, what: str) -> bool:
        """Store every session and trade date of a stream that has ended; return False if the call must be repeated.

        what: the session or trade date to name in reports of problems. Raises `LogTakenOver`.
        """
        stream = live.stream
        position, covered, settled_ns = stream.position, stream.covered(), stream.time_ns
        days = {day for day, _ in stream.days}
        await live.stream.persisted()

        def work() -> None:
            entries = log.entries_between(self._log.read(live.name, 0), 0, position)
            of_days = log.of_days([entry for _, entry in entries], days)
            self._archive.store(
                live.key, of_days, covered, settled_ns, lambda: self._log.check_ownership(live.name)
            )

        loop = asyncio.get_running_loop()
        began_s, reported = loop.time(), False
        while True:
            try:
                await loop.run_in_executor(self._thread, work)
            except (StoreBusy, TapeInUse) as problem:
                if loop.time() - began_s > PATIENCE_S and not stream.own_clock:
                    self._report_problem(LogEvent.SESSION_NOT_STORED_YET, live, what, problem)
                    return False
                await asyncio.sleep(RETRY_S / self._speedup)
            except LogTakenOver:
                live.stream.close()
                raise
            except FileRefused as problem:  # it will never be accepted, so it is not retried
                self._report_problem(LogEvent.SESSION_REJECTED, live, what, problem)
                return True
            except OSError as problem:  # a full disk: retry, because the next session refers to this one
                if not reported:
                    self._report_problem(LogEvent.SESSION_STORE_FAILED, live, what, problem)
                reported = True
                if loop.time() - began_s > PATIENCE_S and not stream.own_clock:
                    return False
                await asyncio.sleep(RETRY_S / self._speedup)
            except TapeDamaged as problem:
                self._report_problem(LogEvent.SESSION_STORE_FAILED, live, what, problem)
                return False
            else:
                return True

    def _report_problem(self, event: LogEvent, live: LiveStream, what: str, problem: Exception) -> None:
        self._report(event, stream=live.name, what=what, problem=str(problem))
