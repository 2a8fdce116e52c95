"""How often something may be tried.

Rules kept: within any minute five tries for one account and twenty from one client, whatever is tried; an account that
does not exist is counted like one that does.
"""

from threading import Lock

from outcry.access.client_address import network
from outcry.access.limiter import PromptLimiter
from outcry.people.browser_sessions import Origin
from outcry.people.refusals import Reason, Refused

FOR_ONE_ACCOUNT = 5
FROM_ONE_CLIENT = 20
#: Mails to one address: enough for somebody whose first one is slow, too few to fill a mailbox with.
MAILS_TO_ONE_ADDRESS = 2


class AttemptLimiter:
    """Counts tries. `limiter`: this object's own, for it may serve one thread at a time only."""

    def __init__(self, limiter: PromptLimiter) -> None:
        self._limiter = limiter
        self._lock = Lock()

    def take(self, origin: Origin, kind: str = "", whom: str = "", limit: int = FOR_ONE_ACCOUNT) -> None:
        """Count one try of `kind` from there, for `whom` if anybody is named. Raises `Refused`."""
        if origin.address:
            self._count(f"ip:try:{network(origin.address)}", FROM_ONE_CLIENT)
        if whom:
            self._count(f"try:{kind}:{whom}", limit)

    def _count(self, subject: str, limit: int) -> None:
        with self._lock:
            verdict = self._limiter.take(subject, limit)
        if not verdict.allowed:
            raise Refused(Reason.TOO_OFTEN, retry_after_s=-(-verdict.retry_after_ms // 1000))
