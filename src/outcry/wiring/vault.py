"""The vault's key-encryption keys: in the settings, or in a file beside the database, made at the first start.

Rules kept: a key that is lost is never replaced by another of its name, for what is sealed under it would not open; the
file is only ever exchanged whole, and lists the newest key first.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from outcry.ports.clock import Clock
from outcry.ports.vault import VaultStore
from outcry.services.vault import KEY_BYTES, Vault, VaultBroken, VaultKeys
from outcry.settings import Settings

VAULT_FILE = "vault.key"
VARIABLE = "OUTCRY_VAULT_KEYS"
_KID = re.compile("[a-z0-9-]{1,32}")
_ADVICE = (
    "restore it from a backup. If it is lost for good, `outcry vault forget` destroys what is sealed under it, and the "
    "owners of those connections enter it again"
)


class BadVaultKeys(VaultBroken):
    """The keys that the entries of connections are sealed under are not here, not readable, or not the right ones."""


def vault_of(settings: Settings, store: VaultStore, clock: Clock) -> Vault:
    """The vault, its keys tried on what the database knows of them. Raises `BadVaultKeys`."""
    if not settings.vault_keys and not (settings.folder / VAULT_FILE).exists() and not store.uses():
        _make_first(settings, store, clock.now_ns())
    vault = Vault(lambda: VaultKeys(read_keys(settings)))
    newest = vault.keys.newest
    store.add_vault_key(newest, vault.keys.canary(newest), clock.now_ns())
    if said := faults(settings, store, vault.keys):
        raise BadVaultKeys(said[0])
    return vault


def _make_first(settings: Settings, store: VaultStore, now_ns: int) -> None:
    """Make the file, where nothing is sealed: keys that were lost before anything was go out of use."""
    lost, path = lost_keys(store, None), settings.folder / VAULT_FILE
    draft = _draft(path, {new_name(store): secrets.token_bytes(KEY_BYTES)})
    with suppress(FileExistsError):  # another process was quicker: its key it is
        path.hardlink_to(draft)  # whole: neither a crash nor a second process sees half of it
        for kid in lost:
            store.retire(kid, now_ns)
    draft.unlink()


def read_keys(settings: Settings) -> Mapping[str, bytes]:
    """The keys there are now, by name, the newest first. Raises `BadVaultKeys`."""
    if settings.vault_keys:
        return _parsed(settings.vault_keys.replace(":", " ").split(","), VARIABLE)
    path = settings.folder / VAULT_FILE
    try:
        return _parsed(path.read_text(encoding="ascii").splitlines(), str(path))
    except FileNotFoundError:
        raise BadVaultKeys(
            f"{path} is gone, and with it the key that the entries of connections are sealed under: {_ADVICE}"
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise BadVaultKeys(f"{path} cannot be read ({type(problem).__name__}): {_ADVICE}") from None


def faults(settings: Settings, store: VaultStore, keys: VaultKeys) -> list[str]:
    """What is wrong with the keys, each in words for whoever runs the service; empty where all is well."""
    where = VARIABLE if settings.vault_keys else str(settings.folder / VAULT_FILE)
    uses = store.uses()
    said: list[str] = []
    for row in store.vault_keys():
        here = keys.cipher(row.kid) is not None
        if here and not keys.recognises(row):
            said.append(f"{where}: {row.kid} is not the key of that name that this database knows: {_ADVICE}")
        elif row.kid == keys.newest and row.retired_ns is not None:
            said.append(
                f"{where} names {row.kid} first, a key that was exchanged for a newer one: put that before it"
            )
        elif not here and row.kid in uses:
            said.append(
                f"{where} lacks the key {row.kid}, which entries of connections are sealed under: {_ADVICE}"
            )
    return said


def lost_keys(store: VaultStore, keys: VaultKeys | None) -> list[str]:
    """Names of keys that were not retired, and are not here or not the right ones. `keys`: None where none can be
    read."""
    unretired = [row for row in store.vault_keys() if row.retired_ns is None]
    return [row.kid for row in unretired if keys is None or not keys.recognises(row)]


@contextmanager
def exchanging(settings: Settings) -> Generator[None]:
    """The turn to exchange keys. Raises `BadVaultKeys` where another process has it."""
    with (settings.folder / f".{VAULT_FILE}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadVaultKeys("another `outcry vault` is at work: wait for it to end") from None
        yield


def put_first(settings: Settings, store: VaultStore, kept: Mapping[str, bytes], now_ns: int) -> None:
    """Write a new key, and after it those that are kept. The database knows it first: a running service that finds it
    in the file may seal under it at once."""
    kid, key = new_name(store, kept), secrets.token_bytes(KEY_BYTES)
    store.add_vault_key(kid, VaultKeys({kid: key}).canary(kid), now_ns)
    write_keys(settings, {kid: key, **kept})


def write_keys(settings: Settings, keys: Mapping[str, bytes]) -> None:
    """Exchange the file for one of these keys."""
    path = settings.folder / VAULT_FILE
    _draft(path, keys).replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # nothing may go under a key whose file a crash could take back
    finally:
        os.close(folder)


def set_aside(settings: Settings) -> None:
    """Keep a file that is of no use under another name, for whoever can still make something of it."""
    path = settings.folder / VAULT_FILE
    with suppress(FileNotFoundError):
        path.replace(path.with_name(f"{VAULT_FILE}.unusable"))


def readable_by_others(settings: Settings) -> Path | None:
    """The file, where others than its owner may read it."""
    path = settings.folder / VAULT_FILE
    return path if path.exists() and path.stat().st_mode & 0o077 else None


def new_name(store: VaultStore, kept: Iterable[str] = ()) -> str:
    """A key's name that no key ever had."""
    taken = {row.kid for row in store.vault_keys()} | set(kept)
    return next(name for number in range(1, len(taken) + 2) if (name := f"k{number}") not in taken)


def _parsed(lines: Iterable[str], where: str) -> Mapping[str, bytes]:
    """What the lines say; a complaint names the place and not what is there."""
    found: dict[str, bytes] = {}
    for number, line in enumerate((line.strip() for line in lines), 1):
        kid, _, digits = line.partition(" ")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES or not _KID.fullmatch(kid) or kid in found:
            raise BadVaultKeys(
                f"{where}: number {number} is not a name of its own and {KEY_BYTES} bytes in hexadecimal: {_ADVICE}"
            )
        found[kid] = key
    if not found:
        raise BadVaultKeys(f"{where} holds no key: {_ADVICE}")
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
