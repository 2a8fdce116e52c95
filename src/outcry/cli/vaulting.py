"""`outcry vault …`: the key that the entries of connections are sealed under.

Rule kept: no key is ever printed; what is begun can be begun again, whatever interrupts it.
"""

import sys
from collections.abc import Mapping
from gettext import NullTranslations

from cyclopts import App

from outcry.services.vault import VaultKeys, rewrapped
from outcry.settings import Settings, read_settings
from outcry.store.database import Database
from outcry.store.vault import SqlVaultStore
from outcry.wiring import House, open_house
from outcry.wiring.vault import (
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

#: Why a connection whose entries were destroyed with their key needs its owner.
ENTRIES_LOST = "entries_lost"
_ENGLISH = NullTranslations()
vault = App(
    name="vault", help="Look after the key that what people entered for their connections is sealed under."
)


@vault.command
def status(*, data: str | None = None) -> int:
    """List the vault's keys, tab-separated: name, how many connections are under it, newest, older or retired. Exit
    status 1 if anything is wrong.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    with open_house(settings) as house:
        said = told(settings, house.database)
        store = SqlVaultStore(house.database)
        uses = store.uses()
        try:
            newest = next(iter(read_keys(settings)))
        except BadVaultKeys:
            newest = ""
        for row in store.vault_keys():
            state = "retired" if row.retired_ns is not None else "newest" if row.kid == newest else "older"
            print(f"{row.kid}\t{uses.get(row.kid, 0)}\t{state}")
    for fault in said:
        print(f"outcry: {fault}", file=sys.stderr)
    return 1 if said else 0


def told(settings: Settings, database: Database) -> list[str]:
    """What is wrong with the vault's keys; nothing where there is nothing to open and no key yet."""
    store = SqlVaultStore(database)
    said: list[str] = []
    if path := readable_by_others(settings):
        said.append(f"{path} can be read by others: chmod 600 {path}")
    try:
        return said + faults(settings, store, VaultKeys(read_keys(settings)))
    except BadVaultKeys as problem:
        return said + ([str(problem)] if store.uses() else [])


@vault.command
def rotate(*, data: str | None = None) -> int:
    """Bring every connection's entries under a new key, and retire those before it; services may go on running.

    Only the keys of the entries are sealed anew, not the entries. What was interrupted is finished by the next call.
    With OUTCRY_VAULT_KEYS, put the new key first there and restart the service before: `k2:…,k1:…`.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    with open_house(settings) as house, exchanging(settings):
        store = SqlVaultStore(house.database)
        vault_of(settings, store, house.clock)  # what is wrong is said before anything is begun
        kept = read_keys(settings)
        if not _older(store, kept):
            if settings.vault_keys:
                print(f"outcry: nothing to do: put a new key first in {VARIABLE}", file=sys.stderr)
                return 1
            put_first(settings, store, kept, house.clock.now_ns())
        return _finish(house, settings, store)


def _older(store: SqlVaultStore, kept: Mapping[str, bytes]) -> list[str]:
    """Keys that are neither the newest nor retired."""
    newest = next(iter(kept))
    return [row.kid for row in store.vault_keys() if row.retired_ns is None and row.kid != newest]


def _finish(house: House, settings: Settings, store: SqlVaultStore) -> int:
    newest = vault_of(settings, store, house.clock)
    broken = 0
    for brought, broken in rewrapped(newest, store):  # noqa: B007 - the last word on it is wanted below
        text = _ENGLISH.ngettext("%d connection is under %s now", "%d connections are under %s now", brought)
        print(text % (brought, newest.keys.newest), file=sys.stderr)
    kept = read_keys(settings)
    used = [kid for kid in _older(store, kept) if not store.retire(kid, house.clock.now_ns())]
    if not settings.vault_keys:
        write_keys(
            settings, {kid: key for kid, key in kept.items() if kid == newest.keys.newest or kid in used}
        )
    if used:
        why = (
            f"{broken} do not open"
            if broken
            else "a service goes on using it: restart that, and rotate again"
        )
        print(f"outcry: entries are still under {', '.join(used)}: {why}", file=sys.stderr)
        return 1
    print(f"{newest.keys.newest} is the key in use", file=sys.stderr)
    return 0


@vault.command
def forget(*, yes: bool = False, data: str | None = None) -> int:
    """Give up keys that are lost for good: destroy what is sealed under them, and have the owners enter it again.

    Parameters
    ----------
    yes
        Do it; without, only say what it would be. Stop the service before.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    with open_house(settings) as house, exchanging(settings):
        store = SqlVaultStore(house.database)
        kept: Mapping[str, bytes] = {}
        try:
            kept = read_keys(settings)
        except BadVaultKeys as problem:
            print(f"outcry: {problem}", file=sys.stderr)
            if settings.vault_keys:
                return 1
        gone = lost_keys(store, VaultKeys(kept) if kept else None)
        uses = store.uses()
        count = sum(uses.get(kid, 0) for kid in gone)
        if not yes or not gone:
            text = _ENGLISH.ngettext(
                "%d connection would lose its entries", "%d connections would lose their entries", count
            )
            print(text % count + ("; --yes does it" if gone else ""))
            return 0
        lost = store.forget_under(gone, ENTRIES_LOST, house.clock.now_ns())
        text = _ENGLISH.ngettext("%d connection lost its entries", "%d connections lost their entries", lost)
        print(text % lost)
        if not settings.vault_keys and (not kept or next(iter(kept)) in gone):
            set_aside(settings)
            good = {kid: key for kid, key in kept.items() if kid not in gone}
            put_first(settings, store, good, house.clock.now_ns())
        elif settings.vault_keys and next(iter(kept)) in gone:
            print(f"outcry: put a key of another name first in {VARIABLE}", file=sys.stderr)
    return 0
