"""`outcry vault …`: manage the keys that encrypt stored broker credentials.

No command prints a key. Every command can be repeated after an interruption.
"""

import sys
from collections.abc import Mapping
from gettext import NullTranslations

from cyclopts import App

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings, read_settings
from outcry.app.vault import (
    VARIABLE,
    BadVaultKeys,
    exchanging,
    faults,
    lost_keys,
    put_first,
    read_keys,
    readable_by_others,
    set_aside,
    vault_of,
    write_keys,
)
from outcry.cli.columns import VAULT
from outcry.cli.tables import Output, print_rows
from outcry.connections.vault import VaultKeys, rewrapped
from outcry.connections.vault_store import SqlVaultStore
from outcry.database.database import Database

#: State code of a connection whose credentials were deleted with their key.
ENTRIES_LOST = "entries_lost"
_ENGLISH = NullTranslations()
vault = App(name="vault", help="Manage the keys that encrypt stored broker credentials.")


@vault.command
def status(*, output: Output = None, data: str | None = None) -> int:
    """List the vault keys: name, number of connections, state (newest, older or retired).

    Problems are listed on standard error, and the exit status is 1.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    with open_installation(settings) as installation:
        lines = report(settings, installation.database)
        store = SqlVaultStore(installation.database)
        uses = store.uses()
        try:
            newest = next(iter(read_keys(settings)))
        except BadVaultKeys:
            newest = ""
        rows = [
            (
                row.kid,
                uses.get(row.kid, 0),
                "retired" if row.retired_ns is not None else "newest" if row.kid == newest else "older",
            )
            for row in store.vault_keys()
        ]
        print_rows(VAULT, rows, output)
    for fault in lines:
        print(f"outcry: {fault}", file=sys.stderr)
    return 1 if lines else 0


def report(settings: Settings, database: Database) -> list[str]:
    """Return the problems of the vault keys. A vault without keys and without credentials has no problems."""
    store = SqlVaultStore(database)
    lines: list[str] = []
    if path := readable_by_others(settings):
        lines.append(f"{path} is readable by other users. Run: chmod 600 {path}")
    try:
        keys = VaultKeys(read_keys(settings))
        return lines + faults(settings, store, keys, keys.recognises)
    except BadVaultKeys as problem:
        return lines + ([str(problem)] if store.uses() else [])


@vault.command
def rotate(*, data: str | None = None) -> int:
    """Encrypt all stored credentials with a new vault key and retire the older keys. Services can keep running.

    Each connection's credentials have a key of their own. Only these keys are encrypted again, not the credentials.
    After an interruption, run the command again. With OUTCRY_VAULT_KEYS, first put the new key at the front
    (`k2:…,k1:…`) and restart the service.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    with open_installation(settings) as installation, exchanging(settings):
        store = SqlVaultStore(installation.database)
        vault_of(settings, store, installation.clock)  # raises for invalid keys before anything changes
        known_keys = read_keys(settings)
        if not _older(store, known_keys):
            if settings.vault_keys:
                print(
                    f"outcry: {VARIABLE} has no new key. Put one at the front, restart the service and run this again.",
                    file=sys.stderr,
                )
                return 1
            put_first(settings, store, known_keys, installation.clock.now_ns())
        return _finish(installation, settings, store)


def _older(store: SqlVaultStore, known_keys: Mapping[str, bytes]) -> list[str]:
    """Return the names of the vault keys that are neither the newest nor retired."""
    newest = next(iter(known_keys))
    return [row.kid for row in store.vault_keys() if row.retired_ns is None and row.kid != newest]


def _finish(installation: Installation, settings: Settings, store: SqlVaultStore) -> int:
    newest = vault_of(settings, store, installation.clock)
    broken = 0
    for count, broken in rewrapped(newest, store):  # noqa: B007 - the last value is used below
        text = _ENGLISH.ngettext("%d connection now uses key %s.", "%d connections now use key %s.", count)
        print(text % (count, newest.keys.newest), file=sys.stderr)
    known_keys = read_keys(settings)
    used = [kid for kid in _older(store, known_keys) if not store.retire(kid, installation.clock.now_ns())]
    if not settings.vault_keys:
        write_keys(
            settings,
            {kid: key for kid, key in known_keys.items() if kid == newest.keys.newest or kid in used},
        )
    if used:
        why = (
            f"Credentials of {broken} could not be decrypted: see `outcry vault status`."
            if broken
            else "A running service still uses the older key: restart it, then run `outcry vault rotate` again."
        )
        print(f"outcry: Some connections still use {', '.join(used)}. {why}", file=sys.stderr)
        return 1
    print(f"The vault now uses key {newest.keys.newest}.", file=sys.stderr)
    return 0


@vault.command
def forget(*, yes: bool = False, data: str | None = None) -> int:
    """Delete broker credentials whose vault keys are lost. Users must enter the credentials again.

    Stop the service first. Without --yes the command only prints what it would delete.

    Parameters
    ----------
    yes
        Delete the credentials. This cannot be undone.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    with open_installation(settings) as installation, exchanging(settings):
        store = SqlVaultStore(installation.database)
        known_keys: Mapping[str, bytes] = {}
        try:
            known_keys = read_keys(settings)
        except BadVaultKeys as problem:
            print(f"outcry: {problem}", file=sys.stderr)
            if settings.vault_keys:
                return 1
        lost_names = lost_keys(store, VaultKeys(known_keys) if known_keys else None)
        uses = store.uses()
        count = sum(uses.get(kid, 0) for kid in lost_names)
        if not yes or not lost_names:
            text = _ENGLISH.ngettext(
                "%d connection would lose its credentials.",
                "%d connections would lose their credentials.",
                count,
            )
            print(text % count + (" To delete them, add --yes." if lost_names else ""))
            return 0
        lost = store.forget_under(lost_names, ENTRIES_LOST, installation.clock.now_ns())
        text = _ENGLISH.ngettext(
            "Deleted the credentials of %d connection.", "Deleted the credentials of %d connections.", lost
        )
        print(text % lost)
        if not settings.vault_keys and (not known_keys or next(iter(known_keys)) in lost_names):
            set_aside(settings)
            good = {kid: key for kid, key in known_keys.items() if kid not in lost_names}
            put_first(settings, store, good, installation.clock.now_ns())
        elif settings.vault_keys and next(iter(known_keys)) in lost_names:
            print(
                f"outcry: The first key in {VARIABLE} is one that was lost. Put a new key with a new name before it.",
                file=sys.stderr,
            )
    return 0
