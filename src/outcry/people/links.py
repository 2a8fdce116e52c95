"""One-time links: a token of 256 random bits in a URL. Only its keyed digest is stored.

A link is valid once, only for its purpose and for a limited time. Requesting a link never revokes one that another
browser requested or an operator created.
"""

import hashlib
import secrets
from collections.abc import Mapping

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE
from outcry.people.model import OF_A_USER, Purpose, TokenRow
from outcry.people.refusals import Reason, Refused
from outcry.people.store import SqlIdentityStore

_TOKEN_BYTES = 32
_LONGEST = 100
LASTING_NS: Mapping[Purpose, int] = {
    "setup": 24 * NANOS_PER_HOUR,
    "invite": 7 * 24 * NANOS_PER_HOUR,
    "reset": 30 * NANOS_PER_MINUTE,
    "sign_in": 10 * NANOS_PER_MINUTE,
    "email": 30 * NANOS_PER_MINUTE,
}
#: Page of each link. The page requires a click before it spends the token, because email servers follow links too.
PAGES: Mapping[Purpose, str] = {
    "invite": "/invite",
    "reset": "/reset/new",
    "sign_in": "/link",
    "email": "/email",
}


class Links:
    """Creates and uses up one-time links. `public_url`: start of all links; if empty, links are paths."""

    def __init__(self, store: SqlIdentityStore, clock: Clock, secret: bytes, public_url: str) -> None:
        self._store, self._clock, self._secret = store, clock, secret
        self._public_url = public_url.rstrip("/")

    def digest(self, token: str) -> bytes:
        """Return the keyed digest of a token, or of the value that identifies the browser which requested it."""
        text = token.encode("utf-8", "replace")
        return hashlib.blake2b(text, digest_size=32, key=self._secret, person=b"token").digest()

    def make(
        self, purpose: Purpose, *, user_id: int | None = None, email: str = "", browser: str = "",
        details: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """Store the digest of a new one-time token, and return the token. The token cannot be read again."""
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
        """Return the URL that contains a token."""
        return f"{self._public_url}{PAGES[purpose]}?token={token}"

    def find(self, purpose: Purpose, token: str, browser: str = "") -> TokenRow | None:
        """Return the stored row of a token; None if it is invalid, or bound to another browser."""
        if not token or len(token) > _LONGEST:
            return None
        row = self._store.token(purpose, self.digest(token))
        if row is None or row.spent_ns is not None or self._clock.now_ns() >= row.expires_ns:
            return None
        if row.browser is not None and not secrets.compare_digest(row.browser, self.digest(browser)):
            return None
        return row

    def need(self, purpose: Purpose, token: str, browser: str = "") -> TokenRow:
        """Return the stored row of a valid token, like `find`. Raises `Refused` if it is invalid."""
        row = self.find(purpose, token, browser)
        if row is None:
            raise Refused(Reason.LINK)
        return row

    def spend(self, row: TokenRow) -> None:
        """Mark a token as used. Raises `Refused` if another request used it first."""
        if not self._store.spend(row.id, self._clock.now_ns()):
            raise Refused(Reason.LINK)

    def once(self, purpose: Purpose, what: str, lasting_ns: int) -> bool:
        """Record that a browser sent back a value that may be used once; return False if the value was used before.

        The record lasts until the value expires. Values are stored only when used, so that requesting them does not
        fill the database.
        """
        digest, now_ns = self.digest(f"{purpose}:{what}"), self._clock.now_ns()
        if self._store.token(purpose, digest) is not None:
            return False
        # Of two concurrent calls one fails in the store, where digests are unique.
        self._store.add_token(
            TokenRow(0, purpose, digest, None, "", {}, None, now_ns, now_ns + lasting_ns, now_ns)
        )
        return True

    def open(self, purpose: Purpose) -> list[TokenRow]:
        """Return the valid tokens of a purpose, newest first."""
        now_ns = self._clock.now_ns()
        return [row for row in self._store.tokens(purpose) if row.expires_ns > now_ns]

    def void(self, purpose: Purpose, user_id: int | None = None, browser: str | None = None) -> None:
        """Revoke the unused tokens of a purpose: all, or only those of one user and of one browser."""
        browser_digest = None if browser is None else self.digest(browser)
        for row in self._store.tokens(purpose):
            if user_id in (None, row.user_id) and browser_digest in (None, row.browser):
                self._store.revoke_token(row.id, self._clock.now_ns())

    def void_all_of(self, user_id: int) -> None:
        """Revoke every link with which a user could sign in or change the account."""
        for purpose in OF_A_USER:
            self.void(purpose, user_id)
