"""Sign-in with passkeys (WebAuthn): discoverable, and with user verification.

The browser must answer a challenge (random data to sign) once, within five minutes, and on a page of this site that is
not in a frame of another site. A passkey whose counter did not increase may be a copy and is refused. A passkey counts
as both factors: the device, and the PIN or fingerprint that unlocks it.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.identity_base import IdentityBase
from outcry.people.model import BrowserSession, PasskeyRow, UserRow
from outcry.people.refusals import Reason, Refused
from outcry.people.tickets import LASTING_NS

MOST_PASSKEYS = 20
LONGEST_LABEL = 60
_SIGN_IN, _REGISTRATION = "passkey", "new passkey"


@dataclass(frozen=True, slots=True)
class _Proof:
    """A passkey whose answer to the challenge was valid, and its new counter."""

    passkey: PasskeyRow
    user: UserRow
    sign_count: int


class Passkeys(IdentityBase):
    """Sign-in with passkeys, and their management."""

    def passkey_options(self, host: str) -> tuple[str, str]:
        """Return the browser's options for a sign-in and the ticket of its challenge, valid for five minutes."""
        from outcry.people.passkey_ceremonies import sign_in_options  # noqa: PLC0415 - imports webauthn

        challenge = secrets.token_bytes(32)
        ticket = self._tickets.give(_SIGN_IN, challenge=_text(challenge))
        return sign_in_options(host, challenge), ticket

    def passkey_sign_in(
        self, ticket: str, answer: str, host: str, origin_url: str, origin: Origin
    ) -> SignedIn:
        """Sign in with a passkey."""
        self._attempts.take(origin)
        proof = self._answered(ticket, answer, host, origin_url, origin)
        if proof.user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        self._record_use(proof)
        return self._enter(proof.user, origin, way="passkey")

    def passkey_confirm(
        self, session: BrowserSession, ticket: str, answer: str, host: str, origin_url: str, origin: Origin
    ) -> str:
        """Confirm the identity of a session's user with a passkey; return the browser's new token."""
        self._attempts.take(origin)
        proof = self._answered(ticket, answer, host, origin_url, origin)
        now_ns = self._clock.now_ns()
        if proof.user.id != session.user_id or self._browser_sessions.active_user(session.id, now_ns) is None:
            raise Refused(Reason.PASSKEY)
        self._record_use(proof)
        return self._browser_sessions.confirm(session, proof.user, origin, now_ns)

    def new_passkey_options(self, user: UserRow, host: str) -> tuple[str, str]:
        """Return the browser's options for registering a passkey, and the ticket of the challenge."""
        from outcry.people.passkey_ceremonies import registration_options  # noqa: PLC0415 - imports webauthn

        challenge = secrets.token_bytes(32)
        registered = [row.credential_id for row in self._store.passkeys(user.id)]
        ticket = self._tickets.give(_REGISTRATION, challenge=_text(challenge), user=str(user.id))
        return registration_options(user, host, challenge, registered), ticket

    def add_passkey(
        self, user: UserRow, ticket: str, answer: str, label: str, host: str, origin_url: str, origin: Origin
    ) -> None:
        """Store a new passkey."""
        from outcry.people.passkey_ceremonies import new_passkey  # noqa: PLC0415 - imports webauthn

        facts = self._tickets.read(_REGISTRATION, ticket)
        if facts is None or facts["user"] != str(user.id):
            raise Refused(Reason.PASSKEY)
        made = new_passkey(answer, base64.b64decode(facts["challenge"]), host, origin_url)
        self._spend_challenge(facts["challenge"])
        label = "".join(sign for sign in label if sign.isprintable()).strip()[:LONGEST_LABEL] or "Passkey"
        if not self._store.add_passkey(
            user.id, made.credential_id, made.public_key, made.sign_count, made.transports, label,
            self._clock.now_ns(), most=MOST_PASSKEYS,
        ):  # fmt: skip
            raise Refused(Reason.PASSKEY)
        self.note(user, Event.PASSKEY_ADDED, origin, label=label)

    def passkeys(self, user: UserRow) -> Sequence[PasskeyRow]:
        """Return a user's passkeys."""
        return self._store.passkeys(user.id)

    def remove_passkey(self, user: UserRow, passkey_id: int, origin: Origin) -> None:
        """Remove a passkey. Raises `Refused` if the user could not sign in without it."""
        mine = {row.id: row for row in self._store.passkeys(user.id)}
        if passkey_id not in mine:
            return
        if self._store.remove_passkey(user.id, passkey_id, leaving=self._ways):
            self.note(user, Event.PASSKEY_REMOVED, origin, label=mine[passkey_id].label)
        elif any(row.id == passkey_id for row in self._store.passkeys(user.id)):
            raise Refused(Reason.LAST_WAY_IN)

    # -- checking an answer

    def _answered(self, ticket: str, answer: str, host: str, origin_url: str, origin: Origin) -> _Proof:
        """Validate the answer to a challenge. Raises `Refused` with the same reason for every fault."""
        from outcry.people.passkey_ceremonies import SignInAnswer  # noqa: PLC0415 - imports webauthn

        facts = self._tickets.read(_SIGN_IN, ticket)
        if facts is None:
            raise Refused(Reason.PASSKEY)
        given = SignInAnswer(answer)
        passkey = self._store.passkey(given.credential_id)
        user = self._store.user(passkey.user_id) if passkey else None
        if passkey is None or user is None:
            raise Refused(Reason.PASSKEY)
        count = given.verify(base64.b64decode(facts["challenge"]), host, origin_url, passkey.public_key)
        if given.user_handle not in (None, user.handle):
            raise Refused(Reason.PASSKEY)
        self._spend_challenge(facts["challenge"])
        # The counter is compared here and not by the library, because only a valid answer can indicate a copy.
        if (count or passkey.sign_count) and count <= passkey.sign_count:
            self.note(user, Event.PASSKEY_COPIED, origin, label=passkey.label)
            raise Refused(Reason.PASSKEY)
        return _Proof(passkey, user, count)

    def _record_use(self, proof: _Proof) -> None:
        """Store that a passkey was used, with its new counter.

        Raises `Refused` if the passkey was removed or used elsewhere since it was read. If it is removed later, the
        version of the credentials changes, and the new session is not started.
        """
        passkey, now_ns = proof.passkey, self._clock.now_ns()
        if not self._store.used_passkey(passkey.id, proof.sign_count, now_ns, after=passkey.sign_count):
            raise Refused(Reason.PASSKEY)

    def _spend_challenge(self, challenge: str) -> None:
        """Record that a challenge was answered. Raises `Refused` if it was answered before."""
        if not self._links.once("passkey", challenge, 2 * LASTING_NS):
            raise Refused(Reason.PASSKEY)


def _text(challenge: bytes) -> str:
    return base64.b64encode(challenge).decode()
