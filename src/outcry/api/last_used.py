"""Twice a minute, store when API keys and browser sessions were last used.

The times come from the rate limiter and the open streams, so that requests do no extra work. A stored time is accurate
to a minute. A crash loses at most the last 30 seconds.
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
    """Stores when API keys and browser sessions were last used. `streaming`: returns those with an open stream."""

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
        """Start to store the times twice a minute, on the running event loop."""
        self._tasks.every(INTERVAL_S, "last use", self.write)

    async def stop(self) -> None:
        """Stop, after storing the newest times unless the database is slow."""
        if self._tasks:
            await self._tasks.stop()
            last = self._tasks.start("last use", self.write())
            await asyncio.wait([last], timeout=_STOP_TIMEOUT_S)

    async def write(self) -> None:
        """Store when keys and sessions were last used. If the database is busy, the next call stores these times."""
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
