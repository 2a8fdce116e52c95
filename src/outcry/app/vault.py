"""The vault's keys, which encrypt broker credentials; they come from the settings or a file made at the first start.

A lost key is never replaced by another of the same name, because credentials encrypted with it could not be decrypted.
The file is replaced atomically and lists the newest key first.
"""

import os
import re
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from outcry.app.checked_keys import CheckedKeys
from outcry.app.settings import Settings
from outcry.base.clock import Clock
from outcry.base.encryption import KEY_BYTES
from outcry.base.file_lock import exclusive_lock
from outcry.base.portable_files import is_open_to_others, replace, sync_folder, write_private
from outcry.connections.model import VaultKeyRow
from outcry.connections.vault import Vault, VaultBroken, VaultKeys
from outcry.connections.vault_store import SqlVaultStore

VAULT_FILE = "vault.key"
#: Hashes of the keys that a start has checked.
CHECKED_FILE = "vault.checked"
VARIABLE = "OUTCRY_VAULT_KEYS"
_KID = re.compile("[a-z0-9-]{1,32}")
_ADVICE = (
    "Restore the key from a backup. If it is lost, run `outcry vault forget`: it deletes the credentials encrypted "
    "with the key, and the owners of those connections must enter them again."
)


class BadVaultKeys(VaultBroken):
    """The keys that encrypt stored credentials are missing, unreadable or not the right ones."""


def vault_of(settings: Settings, store: SqlVaultStore, clock: Clock) -> Vault:
    """Open the vault and check its keys against the database. Raises `BadVaultKeys`."""
    if not settings.vault_keys and not (settings.folder / VAULT_FILE).exists() and not store.uses():
        _make_first(settings, store, clock.now_ns())
    vault = Vault(lambda: VaultKeys(read_keys(settings)))
    keys, newest = vault.keys, vault.keys.newest
    if newest not in {row.kid for row in store.vault_keys()}:
        store.add_vault_key(newest, keys.canary(newest), clock.now_ns())
    checked = CheckedKeys(settings.folder / CHECKED_FILE, keys)
    if said := faults(settings, store, keys, checked.recognises):
        raise BadVaultKeys(said[0])
    checked.save()
    return vault


def _make_first(settings: Settings, store: SqlVaultStore, now_ns: int) -> None:
    """Create the key file if no credentials are encrypted yet. Lost keys that encrypt nothing are retired."""
    lost, path = lost_keys(store, None), settings.folder / VAULT_FILE
    draft = _draft(path, {new_name(store): secrets.token_bytes(KEY_BYTES)})
    with suppress(FileExistsError):  # another process created it first: use that one
        path.hardlink_to(draft)  # atomic: no crash or second process sees a partial file
        for kid in lost:
            store.retire(kid, now_ns)
    draft.unlink()


def read_keys(settings: Settings) -> Mapping[str, bytes]:
    """Return the keys by name, newest first. Raises `BadVaultKeys`."""
    if settings.vault_keys:
        return _parsed(settings.vault_keys.replace(":", " ").split(","), VARIABLE)
    path = settings.folder / VAULT_FILE
    try:
        return _parsed(path.read_text(encoding="ascii").splitlines(), str(path))
    except FileNotFoundError:
        raise BadVaultKeys(
            f"The vault key {path} is missing, but it is needed to decrypt stored broker credentials. {_ADVICE}"
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise BadVaultKeys(
            f"The vault key {path} cannot be read ({type(problem).__name__}). {_ADVICE}"
        ) from None


def faults(
    settings: Settings, store: SqlVaultStore, keys: VaultKeys, recognises: Callable[[VaultKeyRow], bool]
) -> list[str]:
    """Return the problems of the vault's keys (which encrypt stored credentials), as messages for the operator.

    recognises: returns whether a configured key is the same that was used before.
    """
    where = VARIABLE if settings.vault_keys else str(settings.folder / VAULT_FILE)
    uses = store.uses()
    problems: list[str] = []
    for row in store.vault_keys():
        present = keys.cipher(row.kid) is not None
        if present and not recognises(row):
            problems.append(
                f"{where}: The key {row.kid} is not the one that this database was used with. {_ADVICE}"
            )
        elif row.kid == keys.newest and row.retired_ns is not None:
            problems.append(
                f"{where}: The first key, {row.kid}, is retired. Put the key that replaced it in front."
            )
        elif not present and row.kid in uses:
            problems.append(
                f"{where}: The key {row.kid} is missing, but it encrypts stored credentials. {_ADVICE}"
            )
    return problems


def lost_keys(store: SqlVaultStore, keys: VaultKeys | None) -> list[str]:
    """Return the names of keys that may still be needed and are missing or wrong. keys: None if none can be read.

    Retired keys are not needed.
    """
    unretired = [row for row in store.vault_keys() if row.retired_ns is None]
    return [row.kid for row in unretired if keys is None or not keys.recognises(row)]


@contextmanager
def exchanging(settings: Settings) -> Generator[None]:
    """Lock the key file while keys are changed. Raises `BadVaultKeys` if another process has locked the file."""
    in_use = BadVaultKeys("Another `outcry vault` command is running. Wait until it has finished.")
    with exclusive_lock(settings.folder / f".{VAULT_FILE}.lock", in_use):
        yield


def put_first(settings: Settings, store: SqlVaultStore, kept: Mapping[str, bytes], now_ns: int) -> None:
    """Add a new key before the existing ones, in the database and the key file.

    The database comes first, because a running service may encrypt with the new key as soon as the file contains it.
    """
    kid, key = new_name(store, kept), secrets.token_bytes(KEY_BYTES)
    store.add_vault_key(kid, VaultKeys({kid: key}).canary(kid), now_ns)
    write_keys(settings, {kid: key, **kept})


def write_keys(settings: Settings, keys: Mapping[str, bytes]) -> None:
    """Replace the key file atomically."""
    path = settings.folder / VAULT_FILE
    replace(_draft(path, keys), path)
    sync_folder(path.parent)  # a crash must not undo the new key file once something is encrypted with it


def set_aside(settings: Settings) -> None:
    """Rename an unusable key file instead of deleting it, so that an operator can still recover it."""
    path = settings.folder / VAULT_FILE
    with suppress(FileNotFoundError):
        replace(path, path.with_name(f"{VAULT_FILE}.unusable"))


def readable_by_others(settings: Settings) -> Path | None:
    """Return the key file if other users can access it, else None."""
    path = settings.folder / VAULT_FILE
    return path if path.exists() and is_open_to_others(path) else None


def new_name(store: SqlVaultStore, kept: Iterable[str] = ()) -> str:
    """Return a name for a new key that no key had before."""
    taken = {row.kid for row in store.vault_keys()} | set(kept)
    return next(name for number in range(1, len(taken) + 2) if (name := f"k{number}") not in taken)


def _parsed(lines: Iterable[str], where: str) -> Mapping[str, bytes]:
    """Parse the lines of a key file. Errors name the line, never its content."""
    found: dict[str, bytes] = {}
    for number, line in enumerate((line.strip() for line in lines), 1):
        kid, _, digits = line.partition(" ")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES or not _KID.fullmatch(kid) or kid in found:
            raise BadVaultKeys(
                f"{where}: Entry {number} is invalid. It needs a unique name and {KEY_BYTES} bytes in hexadecimal. "
                f"{_ADVICE}"
            )
        found[kid] = key
    if not found:
        raise BadVaultKeys(f"{where} contains no key. {_ADVICE}")
    return found


def _draft(path: Path, keys: Mapping[str, bytes]) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    write_private(draft, "".join(f"{kid} {key.hex()}\n" for kid, key in keys.items()))
    return draft
