"""Limits on sign-in attempts: five per account and twenty per client in any minute, over all methods.

Attempts for accounts that do not exist count too.
"""

from threading import Lock

from outcry.access.client_address import network
from outcry.access.limiter import PromptLimiter
from outcry.people.browser_sessions import Origin
from outcry.people.refusals import Reason, Refused

FOR_ONE_ACCOUNT = 5
FROM_ONE_CLIENT = 20
#: Emails to one email address in any minute: enough if the first is slow, too few to flood a mailbox.
MAILS_TO_ONE_ADDRESS = 2


class AttemptLimiter:
    """Counts sign-in attempts and refuses too many. `limiter`: used by nothing else, because it is not thread-safe."""

    def __init__(self, limiter: PromptLimiter) -> None:
        self._limiter = limiter
        self._lock = Lock()

    def take(self, origin: Origin, kind: str = "", whom: str = "", limit: int = FOR_ONE_ACCOUNT) -> None:
        """Count a sign-in attempt of a client, and of an account if given. Raises `Refused` above the limit.

        `kind`, `whom`: what identifies the account (such as an email address), and its value. `limit`: attempts per
        minute for that account.
        """
        if origin.address:
            self._count(f"ip:try:{network(origin.address)}", FROM_ONE_CLIENT)
        if whom:
            self._count(f"try:{kind}:{whom}", limit)

    def _count(self, subject: str, limit: int) -> None:
        with self._lock:
            verdict = self._limiter.take(subject, limit)
        if not verdict.allowed:
            raise Refused(Reason.TOO_OFTEN, retry_after_s=-(-verdict.retry_after_ms // 1000))
