"""One signed-in session with a vendor, shared by all streams of a connection.

Concurrent requests cause one login. After a failure the next login waits for a growing, randomised pause. A login
refused twice in a row is not retried, because some vendors block an account after repeated failures.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from outcry.base.backoff import Backoff
from outcry.trades.feed import FeedLost, FeedRefused, LoginRefused

#: Refused logins in a row after which login is not retried.
MAX_REFUSALS = 2
#: After a session of this length the backoff starts again at its first pause.
GOOD_SESSION_S = 60.0


class VendorSession(Protocol):
    """A signed-in session with a vendor."""

    @property
    def open(self) -> bool:
        """Return whether the session is usable."""
        ...

    async def close(self) -> None:
        """Close the session; may be called again."""
        ...


class CredentialsRejected(Exception):
    """The vendor rejected the credentials, at login or later.

    `code` is stable: `login_refused` (wrong credentials) or `login_expired` (they were valid before).
    """

    def __init__(self, code: str = "login_refused", text: str = "") -> None:
        super().__init__(text or code)
        self.code = code


S = TypeVar("S", bound=VendorSession)


class SharedSession(Generic[S]):
    """Provides the current session with a vendor, and signs in if there is none.

    sign_in: creates a session. It may raise `CredentialsRejected`, `FeedLost` and `FeedRefused`; `OSError` and
    `TimeoutError` become `FeedLost("unreachable")`. speedup: pauses are divided by this factor.
    """

    def __init__(self, sign_in: Callable[[], Awaitable[S]], *, speedup: float = 1.0) -> None:
        self._sign_in, self._speedup = sign_in, speedup
        self._session: S | None = None
        self._lock = asyncio.Lock()
        self._refusals = 0
        self._backoff = Backoff(speedup)
        self._again_s = self._began_s = 0.0
        self._over: FeedRefused | None = None
        #: Whether the vendor rejected the credentials of the current session.
        self._disowned = False
        self._closed = False

    async def session(self) -> S:
        """Return the session, after waiting for a login in progress and for the pause after a failure.

        Raises `FeedLost`, `FeedRefused`, and `LoginRefused` from the second rejection on.
        """
        async with self._lock:
            self._check()
            if self._session is not None and self._session.open and not self._disowned:
                return self._session
            loop = asyncio.get_running_loop()
            if self._session is not None:
                await self._let_go(loop.time())
            await asyncio.sleep(max(0.0, self._again_s - loop.time()))
            self._check()  # the feed may have been closed during the pause
            self._began_s = loop.time()
            session = await self._signed_in()
            if self._closed:
                await session.close()
                raise FeedLost("closed")
            self._session, self._disowned = session, False
            return session

    def _check(self) -> None:
        if self._over is not None:
            raise _again(self._over)
        if self._closed:
            raise FeedLost("closed")

    async def _signed_in(self) -> S:
        try:
            return await self._sign_in()
        except CredentialsRejected as problem:
            raise self._rejected(problem) from problem
        except FeedRefused as problem:
            self._over = problem
            raise
        except (OSError, TimeoutError) as problem:
            self._failed()
            raise FeedLost("unreachable", str(problem) or type(problem).__name__) from problem
        except Exception:
            self._failed()
            raise

    def worked(self) -> None:
        """Note that the session delivered data, which resets the count of rejected logins."""
        self._refusals = 0

    def rejected(self, problem: CredentialsRejected) -> FeedLost:
        """Note that the vendor rejected a session's credentials, and return the error to raise.

        The error is `LoginRefused` from the second rejection on. If several streams of one session report a rejection,
        it counts once. The next call of `session` signs in again.
        """
        if self._over is not None:
            return _again(self._over)
        if self._disowned:
            return FeedLost(problem.code, str(problem))
        self._disowned = True
        return self._rejected(problem)

    def _rejected(self, problem: CredentialsRejected) -> FeedLost:
        self._refusals += 1
        self._failed()
        if self._refusals < MAX_REFUSALS:
            return FeedLost(problem.code, str(problem))
        self._over = LoginRefused(problem.code, str(problem))
        return self._over

    def _failed(self) -> None:
        self._again_s = asyncio.get_running_loop().time() + self._backoff.next_s()

    async def _let_go(self, now_s: float) -> None:
        """Close a broken session. If the session lasted long, reset the pause before the next login."""
        session, self._session = self._session, None
        if now_s - self._began_s > GOOD_SESSION_S / self._speedup:
            self._backoff.reset()
        self._failed()
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """Close the session for good."""
        self._closed = True
        if self._session is not None:
            await self._session.close()


def _again(problem: FeedRefused) -> FeedRefused:
    """Return a copy of an error for another caller, because an exception carries one traceback."""
    return type(problem)(problem.code, str(problem))
