"""Store when API keys and browser sessions were last used, twice a minute.

Requests do no extra work: the times come from the limiter's window and the open streams. A stored time is accurate to a
minute, and a crash loses at most the last 30 seconds.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from outcry.access.keys import SUBJECT, ApiKeys
from outcry.access.limiter import Limiter
from outcry.base.log_events import Report, discard
from outcry.base.tasks import BackgroundTasks
from outcry.database.errors import StoreBusy
from outcry.people.browser_sessions import BrowserSessions

#: Shorter than the limiter's window of 60 s, so that no use is missed.
INTERVAL_S = 30.0
_STOP_TIMEOUT_S = 2.0


class LastUsedWriter:
    """Stores times of last use. `streaming`: returns the limiter's subjects that have a stream open."""

    def __init__(
        self,
        limiter: Limiter,
        streaming: Callable[[], Iterable[str]],
        keys: ApiKeys,
        browser_sessions: BrowserSessions | None,
        report: Report = discard,
    ) -> None:
        self._limiter, self._streaming = limiter, streaming
        self._keys, self._browser_sessions = keys, browser_sessions
        self._tasks = BackgroundTasks(report)

    def start(self) -> None:
        """Start on the running loop."""
        self._tasks.every(INTERVAL_S, "last use", self.write)

    async def stop(self) -> None:
        """Stop, and store the last times unless the database is slow."""
        if self._tasks:
            await self._tasks.stop()
            last = self._tasks.start("last use", self.write())
            await asyncio.wait([last], timeout=_STOP_TIMEOUT_S)

    async def write(self) -> None:
        """Store all times. If the database is busy, the next run stores them."""
        ages_ns = dict(self._limiter.recent(SUBJECT))
        ages_ns |= {name: 0 for name in self._streaming() if name.startswith(SUBJECT)}
        await asyncio.to_thread(self._save, ages_ns)

    def _save(self, ages_ns: Mapping[str, int]) -> None:
        try:
            self._keys.note_used(ages_ns)
            if self._browser_sessions is not None:
                self._browser_sessions.write_seen()
        except StoreBusy:
            pass
