"""An expiring vendor token that is renewed in time. Concurrent requests cause one renewal.

A token is renewed at four fifths of its lifetime, so that no request carries a token that expires on the way.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_SECOND

#: Fraction of a token's lifetime after which it is renewed.
RENEW_AT = 0.8


@dataclass(frozen=True, slots=True)
class Token:
    """A vendor's access token, valid from `made_ns` (ns UTC) for `life_s` seconds. Its `repr` omits the text."""

    text: str = field(repr=False)
    made_ns: int
    life_s: float

    def due(self, now_ns: int) -> bool:
        """Return whether the token should be renewed."""
        return now_ns >= self.made_ns + round(self.life_s * RENEW_AT * NANOS_PER_SECOND)


class TokenSource:
    """Provides a valid token of a vendor.

    renew: receives the last token or None, and returns a new one; raises the errors of `sign_in` in `SharedSession`.
    """

    def __init__(self, renew: Callable[[Token | None], Awaitable[Token]], clock: Clock) -> None:
        self._renew, self._clock = renew, clock
        self._token: Token | None = None
        self._lock = asyncio.Lock()
        #: Number of failed renewals, and the last error.
        self._failures = 0
        self._failure: Exception | None = None

    async def token(self) -> str:
        """Return a valid token, renewing it if needed.

        All callers that waited for a failed renewal receive its error. A later call retries.
        """
        failures = self._failures
        async with self._lock:
            if self._token is not None and not self._token.due(self._clock.now_ns()):
                return self._token.text
            if self._failures > failures and self._failure is not None:
                raise copy.copy(self._failure)
            try:
                self._token = await self._renew(self._token)
            except Exception as problem:
                self._failures, self._failure = self._failures + 1, problem
                raise
            return self._token.text

    def refused(self, text: str) -> None:
        """Discard a token that the vendor rejected, so that the next call renews it; a newer token is retained."""
        if self._token is not None and self._token.text == text:
            self._token = None
