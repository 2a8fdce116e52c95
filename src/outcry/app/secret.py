"""The server's secret. It is the key of stored hashes, such as those of API keys; encryption keys are derived from it.

It comes from the settings, or from a file created at the first start. If the secret is lost, the service refuses to
start instead of creating a new one, because existing API keys and encrypted values would stop working.
"""

import os
import secrets
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from outcry.app.settings import Settings
from outcry.base.portable_files import write_private
from outcry.people.store import SqlIdentityStore

SECRET_FILE = "secret.key"  # noqa: S105 - a file's name
SECRET_BYTES = 32


class MissingSecret(Exception):
    """Accounts exist, but the secret for their API keys and encrypted values is missing or invalid."""


def server_secret(settings: Settings, people: SqlIdentityStore) -> bytes:
    """Return the server's secret from the settings or its file. The first start creates the file."""
    if settings.secret:
        return settings.secret.encode()
    path = settings.folder / SECRET_FILE
    if not path.exists():
        if people.users():
            raise MissingSecret(
                f"The secret {path} is missing, but accounts exist. Restore it from a backup, or set OUTCRY_SECRET to "
                "the previous secret. If it is lost, set OUTCRY_SECRET to a new secret: then all API keys and webhooks "
                "must be created again, and second factors must be removed in the database."
            )
        _new_secret(path)
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise MissingSecret(
            f"The secret {path} is invalid: it must be {SECRET_BYTES} bytes in hexadecimal. Restore it from a backup."
        )
    return secret


def _new_secret(path: Path) -> None:
    """Write a new secret to a temporary file and link it at `path`, so that no process ever reads a partial file."""
    draft = path.with_name(f".{SECRET_FILE}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    write_private(draft, secrets.token_bytes(SECRET_BYTES).hex() + "\n")
    with suppress(FileExistsError):  # another process created it first: use that one
        path.hardlink_to(draft)
    draft.unlink()


def derived(secret: bytes, purpose: str) -> bytes:
    """Derive a key for one purpose. It reveals neither the secret nor the keys of other purposes."""
    return blake2b(purpose.encode(), digest_size=32, key=secret, person=b"outcry").digest()
