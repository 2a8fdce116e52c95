"""The two ceremonies of WebAuthn, registration and sign-in: options for the browser, and checks of its answers.

`people.passkeys` imports this module only when a passkey is used, because its library loads OpenSSL, which takes 0.1 s.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
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

from outcry.people.model import UserRow
from outcry.people.refusals import Reason, Refused

NAME = "Outcry"
_TIMEOUT_MS = 300_000
#: Exceptions that the library raises for a malformed answer.
_UNREADABLE = (WebAuthnException, ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """A passkey that a browser has made."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    transports: Sequence[str]


def sign_in_options(host: str, challenge: bytes) -> str:
    """Return the browser's options for a sign-in, as JSON."""
    options = generate_authentication_options(
        rp_id=host, challenge=challenge, timeout=_TIMEOUT_MS,
        user_verification=UserVerificationRequirement.REQUIRED,
    )  # fmt: skip
    return options_to_json(options)


def registration_options(user: UserRow, host: str, challenge: bytes, registered: Sequence[bytes]) -> str:
    """Return the browser's options for registering a passkey, as JSON. registered: ids of the user's passkeys."""
    options = generate_registration_options(
        rp_id=host, rp_name=NAME, user_name=user.email, user_id=user.handle, challenge=challenge,
        timeout=_TIMEOUT_MS,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, require_resident_key=True,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=each) for each in registered],
    )  # fmt: skip
    return options_to_json(options)


def new_passkey(answer: str, challenge: bytes, host: str, origin_url: str) -> NewPasskey:
    """Validate the answer to a registration. Raises `Refused`."""
    with _refusing():
        credential = parse_registration_credential_json(answer)
        _refuse_cross_origin(credential.response.client_data_json)
        made = verify_registration_response(
            credential=credential, expected_challenge=challenge, expected_rp_id=host,
            expected_origin=origin_url, require_user_verification=True,
        )  # fmt: skip
    transports = [way.value for way in credential.response.transports or ()]
    return NewPasskey(made.credential_id, made.credential_public_key, made.sign_count, transports)


class SignInAnswer:
    """A browser's answer to a sign-in challenge. Raises `Refused` if it is malformed."""

    def __init__(self, answer: str) -> None:
        with _refusing():
            self._credential = parse_authentication_credential_json(answer)
            _refuse_cross_origin(self._credential.response.client_data_json)

    @property
    def credential_id(self) -> bytes:
        """The id of the passkey."""
        return self._credential.raw_id

    @property
    def user_handle(self) -> bytes | None:
        """The user's handle that the passkey stores, if the browser sent it."""
        return self._credential.response.user_handle

    def verify(self, challenge: bytes, host: str, origin_url: str, public_key: bytes) -> int:
        """Check the answer; return the passkey's new counter, which the caller must compare with the stored one.

        Raises `Refused` if the answer is invalid.
        """
        with _refusing():
            return verify_authentication_response(
                credential=self._credential, expected_challenge=challenge, expected_rp_id=host,
                expected_origin=origin_url, credential_public_key=public_key, credential_current_sign_count=0,
                require_user_verification=True,
            ).new_sign_count  # fmt: skip


@contextmanager
def _refusing() -> Generator[None]:
    """Refuse an answer that the library rejects, with the same reason for every fault."""
    try:
        yield
    except _UNREADABLE:
        raise Refused(Reason.PASSKEY) from None


def _refuse_cross_origin(client_data: bytes) -> None:
    """Raise `Refused` if the browser made the answer in a frame of another site's page.

    WebAuthn Level 3, 7.1 and 7.2, require this check, and the library leaves it to its caller. Our pages allow no such
    frame.
    """
    client_data_fields = msgspec.json.decode(client_data)
    if client_data_fields.get("crossOrigin", False) is not False or "topOrigin" in client_data_fields:
        raise Refused(Reason.PASSKEY)
