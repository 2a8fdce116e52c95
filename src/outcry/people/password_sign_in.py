"""Set-up, sign-in with a password, confirmation of identity, and sign-out.

There is no default password. The first operator is created once, with a token that only the machine's owner can read. A
wrong email address and a wrong password give the same response after the same time.
"""

import secrets

from outcry.access.account_store import HANDLE_BYTES
from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.email_address import spellings
from outcry.people.identity_base import IdentityBase, SecondFactorRequired, address_of
from outcry.people.model import BrowserSession
from outcry.people.refusals import Reason, Refused


class PasswordSignIn(IdentityBase):
    """Set-up, and sign-in with a password."""

    # -- first run

    def set_up(self, token: str, email: str, password: str, origin: Origin) -> SignedIn:
        """Create the first operator's account. Of two concurrent calls one succeeds."""
        self._attempts.take(origin)
        if not self.first_run.is_pending():
            raise Refused(Reason.SET_UP)
        row = self.first_run.find(token)
        if row is None:
            raise Refused(Reason.LINK, "token")
        email = address_of(email)
        self._passwords.accept(password, email)
        known = self._named(email)
        if known is not None and (self._has_way_in(known) or known.disabled_ns is not None):
            raise Refused(Reason.EMAIL_TAKEN, "email")
        hashed = self._passwords.hashed(password)
        self._links.spend(row)
        user = known or self._store.add_user(
            email, "member", "free", secrets.token_bytes(HANDLE_BYTES), self._clock.now_ns()
        )
        if user is None:
            raise Refused(Reason.EMAIL_TAKEN, "email")
        operator = self._store.first_operator(user.id, hashed)
        if operator is None:
            raise Refused(Reason.SET_UP)
        self.note(operator, Event.SET_UP, origin)
        self._soon(self.first_run.afterwards)
        return self._enter(operator, origin, way="set_up")

    # -- signing in and out

    def sign_in(self, email: str, password: str, origin: Origin) -> SignedIn | SecondFactorRequired:
        """Sign in with a password."""
        self._attempts.take(origin, "password", spellings(email)[-1])
        user = self._named(email)
        if not self._passwords.match(user.password_hash if user else None, password) or user is None:
            if user is not None:
                self._note_later(user, Event.SIGN_IN_FAILED, origin, way="password")
            raise Refused(Reason.WRONG)
        assert user.password_hash is not None
        if self._passwords.needs_rehash(user.password_hash):
            self._store.rehash_password(user.id, user.password_hash, self._passwords.hashed(password))
        return self._arrive(user, "password", origin)

    def sign_out(self, session: BrowserSession, origin: Origin) -> None:
        """End this browser's session."""
        user = self._store.user(session.user_id)
        if (
            self._browser_sessions.end(session.user_id, self._clock.now_ns(), only=session.id)
            and user is not None
        ):
            self.note(user, Event.SIGN_OUT, origin)

    def confirm(self, session: BrowserSession, password: str, code: str, origin: Origin) -> str:
        """Confirm the user's identity; return the browser's new token.

        The password is required, and a code if there is a second factor.
        """
        self._attempts.take(origin, "confirm", str(session.user_id))
        in_force = self._browser_sessions.active_user(session.id, self._clock.now_ns()) is not None
        # from the store, because memory may be a second old
        user = self._store.user(session.user_id) if in_force else None
        if not self._passwords.match(user.password_hash if user else None, password) or user is None:
            if user is not None:
                self._note_later(user, Event.CONFIRM_FAILED, origin, way="password")
            raise Refused(Reason.WRONG, "password")
        if user.totp_sealed is not None:
            self._code_or_refuse(user, code, origin, Event.CONFIRM_FAILED)
        return self._browser_sessions.confirm(session, user, origin, self._clock.now_ns())
