"""Sign-in with passkeys (WebAuthn): discoverable, and with user verification.

The browser must answer a challenge (random data to sign) once, within five minutes, and on a page of this site that is
not in a frame of another site. A passkey whose counter did not increase may be a copy and is refused. A passkey counts
as both factors: the device, and the PIN or fingerprint that unlocks it.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import parse_authentication_credential_json, parse_registration_credential_json
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.identity_base import IdentityBase
from outcry.people.model import BrowserSession, PasskeyRow, UserRow
from outcry.people.refusals import Reason, Refused
from outcry.people.tickets import LASTING_NS

NAME = "Outcry"
MOST_PASSKEYS = 20
LONGEST_LABEL = 60
_SIGN_IN, _REGISTRATION = "passkey", "new passkey"
_TIMEOUT_MS = 300_000
#: Exceptions that the library raises for a malformed answer.
_UNREADABLE = (WebAuthnException, ValueError, LookupError, TypeError, AttributeError, RecursionError)


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
        challenge = secrets.token_bytes(32)
        options = generate_authentication_options(
            rp_id=host, challenge=challenge, timeout=_TIMEOUT_MS,
            user_verification=UserVerificationRequirement.REQUIRED,
        )  # fmt: skip
        return options_to_json(options), self._tickets.give(_SIGN_IN, challenge=_text(challenge))

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
        challenge = secrets.token_bytes(32)
        options = generate_registration_options(
            rp_id=host, rp_name=NAME, user_name=user.email, user_id=user.handle, challenge=challenge,
            timeout=_TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, require_resident_key=True,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=[
                PublicKeyCredentialDescriptor(id=row.credential_id) for row in self._store.passkeys(user.id)
            ],
        )  # fmt: skip
        ticket = self._tickets.give(_REGISTRATION, challenge=_text(challenge), user=str(user.id))
        return options_to_json(options), ticket

    def add_passkey(
        self, user: UserRow, ticket: str, answer: str, label: str, host: str, origin_url: str, origin: Origin
    ) -> None:
        """Store a new passkey."""
        facts = self._tickets.read(_REGISTRATION, ticket)
        if facts is None or facts["user"] != str(user.id):
            raise Refused(Reason.PASSKEY)
        challenge = base64.b64decode(facts["challenge"])
        try:
            credential = parse_registration_credential_json(answer)
            _refuse_cross_origin(credential.response.client_data_json)
            made = verify_registration_response(
                credential=credential, expected_challenge=challenge, expected_rp_id=host,
                expected_origin=origin_url, require_user_verification=True,
            )  # fmt: skip
        except _UNREADABLE:
            raise Refused(Reason.PASSKEY) from None
        self._spend_challenge(facts["challenge"])
        transports = [way.value for way in credential.response.transports or ()]
        label = "".join(sign for sign in label if sign.isprintable()).strip()[:LONGEST_LABEL] or "Passkey"
        if not self._store.add_passkey(
            user.id, made.credential_id, made.credential_public_key, made.sign_count, transports, label,
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
        facts = self._tickets.read(_SIGN_IN, ticket)
        if facts is None:
            raise Refused(Reason.PASSKEY)
        try:
            credential = parse_authentication_credential_json(answer)
            _refuse_cross_origin(credential.response.client_data_json)
            passkey = self._store.passkey(credential.raw_id)
            user = self._store.user(passkey.user_id) if passkey else None
            if passkey is None or user is None:
                raise Refused(Reason.PASSKEY)
            verified = verify_authentication_response(
                credential=credential, expected_challenge=base64.b64decode(facts["challenge"]),
                expected_rp_id=host, expected_origin=origin_url, credential_public_key=passkey.public_key,
                credential_current_sign_count=0, require_user_verification=True,
            )  # fmt: skip
        except _UNREADABLE:
            raise Refused(Reason.PASSKEY) from None
        if credential.response.user_handle not in (None, user.handle):
            raise Refused(Reason.PASSKEY)
        self._spend_challenge(facts["challenge"])
        # The counter is compared here and not by the library, because only a valid answer can indicate a copy.
        count = verified.new_sign_count
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


def _refuse_cross_origin(client_data: bytes) -> None:
    """Raise `Refused` if the browser made the answer in a frame of another site's page.

    WebAuthn Level 3, 7.1 and 7.2, require this check, and the library leaves it to its caller. Our pages allow no such
    frame.
    """
    client_data_fields = msgspec.json.decode(client_data)
    if client_data_fields.get("crossOrigin", False) is not False or "topOrigin" in client_data_fields:
        raise Refused(Reason.PASSKEY)


def _text(challenge: bytes) -> str:
    return base64.b64encode(challenge).decode()
