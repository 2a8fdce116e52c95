"""When keys and browsers were last used: written down twice a minute, from what is in memory anyway.

Rule kept: asking costs nothing more. The limiter knows who passed within its window, the hub whose streams are open; a
use is known to within a minute, and one of the last half minute before a crash may be missing.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from outcry.access.keys import SUBJECT, ApiKeys
from outcry.access.limiter import Limiter
from outcry.database.errors import StoreBusy
from outcry.people.browser_sessions import BrowserSessions

#: Well within the limiter's window, so that no use falls between two looks.
EVERY_S = 30.0
_PATIENCE_S = 2.0


class Uses:
    """Writes uses down. `streaming`: the limiter's names of those with a stream open."""

    def __init__(
        self,
        limiter: Limiter,
        streaming: Callable[[], Iterable[str]],
        keys: ApiKeys,
        browser_sessions: BrowserSessions | None,
    ) -> None:
        self._limiter, self._streaming = limiter, streaming
        self._keys, self._browser_sessions = keys, browser_sessions
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Write down the last ones, unless the store takes long."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task, asyncio.ensure_future(self.write())], timeout=_PATIENCE_S)

    async def write(self) -> None:
        """Write down all there are. A store that is busy is given them the next time: whoever watches it tells."""
        ages_ns = dict(self._limiter.recent(SUBJECT))
        ages_ns |= {name: 0 for name in self._streaming() if name.startswith(SUBJECT)}
        await asyncio.to_thread(self._keep, ages_ns)

    def _keep(self, ages_ns: Mapping[str, int]) -> None:
        try:
            self._keys.note_used(ages_ns)
            if self._browser_sessions is not None:
                self._browser_sessions.write_seen()
        except StoreBusy:
            pass

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.write()
