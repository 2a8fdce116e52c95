"""The server's secret: what digests are keyed with and seals derived from. In the settings, or in a file
made at the first start.

Rule kept: a secret that is lost is never replaced by a new one, for nothing made with the old could be recognised.
"""

import os
import secrets
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from outcry.ports.identity import IdentityStore
from outcry.settings import Settings

SECRET_FILE = "secret.key"  # noqa: S105 - a file's name
SECRET_BYTES = 32


class MissingSecret(Exception):
    """There are people here, but the secret is gone that their keys are recognised and what they keep sealed is opened
    with."""


def server_secret(settings: Settings, people: IdentityStore) -> bytes:
    """The server's secret: from the settings, or from its file, made at the first start."""
    if settings.secret:
        return settings.secret.encode()
    path = settings.folder / SECRET_FILE
    if not path.exists():
        if people.users():  # whose everything is: keys, second factors, webhook addresses, browsers signed in
            raise MissingSecret(
                f"{path} is gone, and with it the means to recognise keys and to open second factors and webhook "
                "addresses: restore it from a backup, or set OUTCRY_SECRET to the secret there was. If it is lost for "
                "good, set OUTCRY_SECRET to a new one: keys and webhooks then have to be made anew, and second factors "
                "turned off in the database"
            )
        _new_secret(path)
    try:
        secret = bytes.fromhex(path.read_text().strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise MissingSecret(
            f"{path} is not a secret of {SECRET_BYTES} bytes in hexadecimal: restore it from a backup"
        )
    return secret


def _new_secret(path: Path) -> None:
    """Make the secret under another name and link it whole: neither a crash nor a second process sees half of it."""
    draft = path.with_name(f".{SECRET_FILE}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_bytes(SECRET_BYTES).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):  # another process was quicker: its secret it is
        path.hardlink_to(draft)
    draft.unlink()


def derived(secret: bytes, purpose: str) -> bytes:
    """A key for one purpose, which tells nothing of the secret or of another purpose's key."""
    return blake2b(purpose.encode(), digest_size=32, key=secret, person=b"outcry").digest()
