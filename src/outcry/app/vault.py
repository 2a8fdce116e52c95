"""The key-encryption keys of the vault, from the settings or from a file created at the first start.

A lost key is never replaced by another of the same name, because credentials encrypted with it could not be decrypted.
The file is replaced atomically and lists the newest key first.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from outcry.app.settings import Settings
from outcry.base.clock import Clock
from outcry.connections.vault import KEY_BYTES, Vault, VaultBroken, VaultKeys
from outcry.connections.vault_store import SqlVaultStore

VAULT_FILE = "vault.key"
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
    newest = vault.keys.newest
    store.add_vault_key(newest, vault.keys.canary(newest), clock.now_ns())
    if said := faults(settings, store, vault.keys):
        raise BadVaultKeys(said[0])
    return vault


def _make_first(settings: Settings, store: SqlVaultStore, now_ns: int) -> None:
    """Create the key file while nothing is encrypted yet. Lost keys that encrypt nothing are retired."""
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


def faults(settings: Settings, store: SqlVaultStore, keys: VaultKeys) -> list[str]:
    """Return the problems of the vault's keys (which encrypt stored credentials), as messages for the operator."""
    where = VARIABLE if settings.vault_keys else str(settings.folder / VAULT_FILE)
    uses = store.uses()
    problems: list[str] = []
    for row in store.vault_keys():
        present = keys.cipher(row.kid) is not None
        if present and not keys.recognises(row):
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
    with (settings.folder / f".{VAULT_FILE}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadVaultKeys(
                "Another `outcry vault` command is running. Wait until it has finished."
            ) from None
        yield


def put_first(settings: Settings, store: SqlVaultStore, kept: Mapping[str, bytes], now_ns: int) -> None:
    """Add a new key before the existing ones, in the database and the key file.

    The key is stored in the database first, because a running service may encrypt with it as soon as it is in the file.
    """
    kid, key = new_name(store, kept), secrets.token_bytes(KEY_BYTES)
    store.add_vault_key(kid, VaultKeys({kid: key}).canary(kid), now_ns)
    write_keys(settings, {kid: key, **kept})


def write_keys(settings: Settings, keys: Mapping[str, bytes]) -> None:
    """Replace the key file atomically."""
    path = settings.folder / VAULT_FILE
    _draft(path, keys).replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # a crash must not undo the new key file once something is encrypted with it
    finally:
        os.close(folder)


def set_aside(settings: Settings) -> None:
    """Rename an unusable key file, so that it can still be recovered."""
    path = settings.folder / VAULT_FILE
    with suppress(FileNotFoundError):
        path.replace(path.with_name(f"{VAULT_FILE}.unusable"))


def readable_by_others(settings: Settings) -> Path | None:
    """Return the key file if other users can access it, else None."""
    path = settings.folder / VAULT_FILE
    return path if path.exists() and path.stat().st_mode & 0o077 else None


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
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.writelines(f"{kid} {key.hex()}\n" for kid, key in keys.items())
        file.flush()
        os.fsync(file.fileno())
    return draft
