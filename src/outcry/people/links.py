"""One-time links: 256 random bits in an address, their keyed digest here.

Rules kept: a link works once, for one purpose, for a time; asking for a new one never makes void what another browser
asked for, or an operator made.
"""

import hashlib
import secrets
from collections.abc import Mapping

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE
from outcry.people.model import OF_A_USER, IdentityStore, Purpose, TokenRow
from outcry.people.refusals import Reason, Refused

_TOKEN_BYTES = 32
_LONGEST = 100
LASTING_NS: Mapping[Purpose, int] = {
    "setup": 24 * NANOS_PER_HOUR,
    "invite": 7 * 24 * NANOS_PER_HOUR,
    "reset": 30 * NANOS_PER_MINUTE,
    "sign_in": 10 * NANOS_PER_MINUTE,
    "email": 30 * NANOS_PER_MINUTE,
}
#: Where a link leads; the page there asks once more before the token is spent, for mail servers follow links too.
PAGES: Mapping[Purpose, str] = {
    "invite": "/invite",
    "reset": "/reset/new",
    "sign_in": "/link",
    "email": "/email",
}


class Links:
    """Makes and redeems one-time tokens. `public_url`: what links begin with; empty: a path is all there is."""

    def __init__(self, store: IdentityStore, clock: Clock, secret: bytes, public_url: str) -> None:
        self._store, self._clock, self._secret = store, clock, secret
        self._public_url = public_url.rstrip("/")

    def digest(self, token: str) -> bytes:
        """What is kept of a token, or of the browser that asked for it."""
        text = token.encode("utf-8", "replace")
        return hashlib.blake2b(text, digest_size=32, key=self._secret, person=b"token").digest()

    def make(
        self, purpose: Purpose, *, user_id: int | None = None, email: str = "", browser: str = "",
        details: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """Keep a new token and return it, the only time it is seen."""
        token, now_ns = secrets.token_urlsafe(_TOKEN_BYTES), self._clock.now_ns()
        self._store.add_token(
            TokenRow(
                id=0, purpose=purpose, digest=self.digest(token), user_id=user_id, email=email,
                details=details or {}, browser=self.digest(browser) if browser else None,
                created_ns=now_ns, expires_ns=now_ns + LASTING_NS[purpose], spent_ns=None,
            )
        )  # fmt: skip
        return token

    def address(self, purpose: Purpose, token: str) -> str:
        """The link a token is sent as."""
        return f"{self._public_url}{PAGES[purpose]}?token={token}"

    def find(self, purpose: Purpose, token: str, browser: str = "") -> TokenRow | None:
        """The token if it still holds, in that browser where it holds in one only."""
        if not token or len(token) > _LONGEST:
            return None
        row = self._store.token(purpose, self.digest(token))
        if row is None or row.spent_ns is not None or self._clock.now_ns() >= row.expires_ns:
            return None
        if row.browser is not None and not secrets.compare_digest(row.browser, self.digest(browser)):
            return None
        return row

    def need(self, purpose: Purpose, token: str, browser: str = "") -> TokenRow:
        """The same. Raises `Refused`."""
        row = self.find(purpose, token, browser)
        if row is None:
            raise Refused(Reason.LINK)
        return row

    def spend(self, row: TokenRow) -> None:
        """Use it up. Raises `Refused` where somebody was quicker."""
        if not self._store.spend(row.id, self._clock.now_ns()):
            raise Refused(Reason.LINK)

    def once(self, purpose: Purpose, what: str, lasting_ns: int) -> bool:
        """Note that something was used that a browser carries, for as long as it holds; False where it was before. Kept
        only now, so that strangers who ask for such a thing leave nothing behind."""
        digest, now_ns = self.digest(f"{purpose}:{what}"), self._clock.now_ns()
        if self._store.token(purpose, digest) is not None:
            return False
        # Of two at the same instant one fails in the store, where digests are unique.
        self._store.add_token(
            TokenRow(0, purpose, digest, None, "", {}, None, now_ns, now_ns + lasting_ns, now_ns)
        )
        return True

    def open(self, purpose: Purpose) -> list[TokenRow]:
        """All of a purpose that still hold, newest first."""
        now_ns = self._clock.now_ns()
        return [row for row in self._store.tokens(purpose) if row.expires_ns > now_ns]

    def void(self, purpose: Purpose, user_id: int | None = None, browser: str | None = None) -> None:
        """Take back all of a purpose; those of one user, and of one browser, where these are given."""
        asked_by = None if browser is None else self.digest(browser)
        for row in self._store.tokens(purpose):
            if user_id in (None, row.user_id) and asked_by in (None, row.browser):
                self._store.revoke_token(row.id, self._clock.now_ns())

    def void_all_of(self, user_id: int) -> None:
        """Take back every link a user could come in or change something with."""
        for purpose in OF_A_USER:
            self.void(purpose, user_id)
