"""One signed-in session with a vendor, shared by all the streams of a connection.

Rules kept: however many streams ask at once, the vendor is asked to sign in once; after a failure nobody asks again
before a pause has passed, which grows and is never the same for two; a login that was refused twice running is not
tried again, for some vendors lock out whoever insists.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from outcry.base.backoff import Backoff
from outcry.trades.feed import FeedLost, FeedRefused, LoginRefused

#: Logins refused running after which nobody tries again.
MAX_REFUSALS = 2
#: A session that lasted this long was a good one: the next pause is the first again.
GOOD_SESSION_S = 60.0


class VendorSession(Protocol):
    """What a sign-in gives. `open`: whether it can still be used."""

    @property
    def open(self) -> bool:
        """Whether it can still be used."""
        ...

    async def close(self) -> None:
        """Hang up; may be called again."""
        ...


class CredentialsRejected(Exception):
    """The vendor did not accept the login: raised by `sign_in`, and by whoever finds out later. `code` is stable:
    `login_refused` (wrong entries), `login_expired` (right ones that have ended)."""

    def __init__(self, code: str = "login_refused", text: str = "") -> None:
        super().__init__(text or code)
        self.code = code


S = TypeVar("S", bound=VendorSession)


class SharedSession(Generic[S]):
    """Gives the session to whoever asks, signing in where there is none.

    sign_in: makes a session; raises `Rejected`, `FeedLost` and `FeedRefused`, and `OSError` or `TimeoutError` of the
    network, which become `FeedLost("unreachable")`. rush: pauses are this many times shorter.
    """

    def __init__(self, sign_in: Callable[[], Awaitable[S]], *, rush: float = 1.0) -> None:
        self._sign_in, self._rush = sign_in, rush
        self._session: S | None = None
        self._lock = asyncio.Lock()
        self._refusals = 0
        self._backoff = Backoff(rush)
        self._again_s = self._began_s = 0.0
        self._over: FeedRefused | None = None
        #: Whether the session that there is, if there is one, has found its login refused.
        self._disowned = False
        self._closed = False

    async def session(self) -> S:
        """The session. Waits while another signs in, and until the pause after a failure is over. Raises `FeedLost`,
        `FeedRefused`, and `LoginRefused` from the second refusal on."""
        async with self._lock:
            self._check()
            if self._session is not None and self._session.open and not self._disowned:
                return self._session
            loop = asyncio.get_running_loop()
            if self._session is not None:
                await self._let_go(loop.time())
            await asyncio.sleep(max(0.0, self._again_s - loop.time()))
            self._check()  # a pause is long enough for the feed to be closed
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
        """The session has brought something: the login holds, and refusals are counted anew."""
        self._refusals = 0

    def rejected(self, problem: CredentialsRejected) -> FeedLost:
        """A session found its login refused after all: what to raise. `LoginRefused` from the second time on. However
        many streams of a session find it, it is one refusal, and who asks for a session next has it signed in anew."""
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
        """End a session that broke; one that was good for long is begun anew soon."""
        session, self._session = self._session, None
        if now_s - self._began_s > GOOD_SESSION_S / self._rush:
            self._backoff.reset()
        self._failed()
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """Hang up; nobody signs in again."""
        self._closed = True
        if self._session is not None:
            await self._session.close()


def _again(problem: FeedRefused) -> FeedRefused:
    """The same for another who asks: an exception has one way it was raised."""
    return type(problem)(problem.code, str(problem))
