"""A token that ends, renewed in time and once, however many need it.

Rule kept: it is renewed at four fifths of its life, so that nobody is refused for one that ended on the way.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_SECOND

#: Of a token's life, the part after which it is renewed.
RENEW_AT = 0.8


@dataclass(frozen=True, slots=True)
class Token:
    """What a vendor lets one in by, from `made_ns` for `life_s` seconds. Never printed."""

    text: str = field(repr=False)
    made_ns: int
    life_s: float

    def due(self, now_ns: int) -> bool:
        """Whether it is time to renew it."""
        return now_ns >= self.made_ns + round(self.life_s * RENEW_AT * NANOS_PER_SECOND)


class TokenSource:
    """Gives a token in force. renew: given the last one, or None at first; raises what `Link`'s `sign_in` does."""

    def __init__(self, renew: Callable[[Token | None], Awaitable[Token]], clock: Clock) -> None:
        self._renew, self._clock = renew, clock
        self._token: Token | None = None
        self._lock = asyncio.Lock()
        #: Renewals that failed, how many, and the last.
        self._failures = 0
        self._failure: Exception | None = None

    async def token(self) -> str:
        """The token in force, renewed by the first who asks once it is due. What it fails with is raised to all who
        waited for it, and tried again by who asks afterwards."""
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
        """The vendor does not take this token: the next who asks has it renewed; a newer one is left alone."""
        if self._token is not None and self._token.text == text:
            self._token = None
