import re
from dataclasses import replace

import pytest
from stage import SECOND, SERVER_SECRET, START_NS, HandClock, MemoryAccounts

from outcry.ports.store import GrantRow, KeyRow, Role, StoreBusy
from outcry.services.accounts import KeyRefusal, KeyRing, Licences

ROLES: list[dict[str, Role]] = [{}, {"role": "read"}, {"role": "ingest"}]
EVERYONE = GrantRow(0, "everyone", "completed", (), None, None, 0, None)


def test_a_key_is_found_until_it_is_revoked() -> None:
    ring = KeyRing(MemoryAccounts(), SERVER_SECRET, HandClock())
    key = ring.create("Ann@example.com", "pro", START_NS)
    row = ring.find(key, START_NS)
    assert isinstance(row, KeyRow)
    assert (row.email, row.tier, row.user_id) == ("ann@example.com", "pro", 1)
    assert ring.live_count == 1
    revoked = ring.revoke(row.prefix, START_NS + 1)
    assert revoked is not None
    assert ring.find(key, START_NS + 1) is KeyRefusal.REVOKED
    assert ring.live_count == 0
    assert ring.revoke(row.prefix, START_NS + 2) is None


def test_a_key_is_made_for_reading_unless_said_otherwise() -> None:
    ring = KeyRing(MemoryAccounts(), SERVER_SECRET, HandClock())
    rows = [ring.find(ring.create("ann@example.com", "pro", START_NS, **role), START_NS) for role in ROLES]
    assert [row.role for row in rows if isinstance(row, KeyRow)] == ["read", "read", "ingest"]


def test_nothing_kept_contains_the_key_or_finds_it_under_another_secret() -> None:
    accounts = MemoryAccounts()
    key = KeyRing(accounts, SERVER_SECRET, HandClock()).create("ann@example.com", "free", START_NS)
    assert re.fullmatch(r"outcry_[0-9A-Za-z]{49}", key)
    assert key[15:] not in repr(accounts.rows)
    assert (
        KeyRing(accounts, b"another secret, as long", HandClock()).find(key, START_NS) is KeyRefusal.UNKNOWN
    )


@pytest.mark.parametrize("secret", [b"", b"fifteen bytes!!", b"x" * 65])
def test_a_secret_too_short_or_long_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="16 to 64"):
        KeyRing(MemoryAccounts(), secret, HandClock())


def test_a_malformed_key_is_refused_without_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(MemoryAccounts(), SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "free", START_NS)
    monkeypatch.setattr(ring, "digest", lambda _key: pytest.fail("looked up"))
    assert ring.known(key[:-1] + ("0" if key[-1] != "0" else "1")) is KeyRefusal.MALFORMED
    assert ring.known("") is KeyRefusal.MISSING


def test_a_change_by_another_process_is_seen_when_the_store_is_asked_again_200_ms_later() -> None:
    accounts = MemoryAccounts()
    here, elsewhere = (
        KeyRing(accounts, SERVER_SECRET, HandClock()),
        KeyRing(accounts, SERVER_SECRET, HandClock()),
    )
    key = here.create("ann@example.com", "free", START_NS)
    elsewhere.revoke(key[:15], START_NS)
    asked = accounts.asked
    assert isinstance(here.find(key, START_NS + SECOND // 5 - 1), KeyRow)
    assert accounts.asked == asked
    assert here.find(key, START_NS + SECOND // 5) is KeyRefusal.REVOKED
    assert accounts.asked == asked + 1


def test_a_clock_set_back_does_not_stop_the_asking() -> None:
    accounts = MemoryAccounts()
    ring = KeyRing(accounts, SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "free", START_NS)
    KeyRing(accounts, SERVER_SECRET, HandClock()).revoke(key[:15], START_NS)
    assert ring.find(key, START_NS - 3600 * SECOND) is KeyRefusal.REVOKED


def test_a_store_that_failed_once_is_asked_again() -> None:
    accounts = MemoryAccounts(busy=True)
    ring = KeyRing(accounts, SERVER_SECRET, HandClock())
    with pytest.raises(StoreBusy):
        ring.refresh(START_NS)
    accounts.busy = False
    ring.refresh(START_NS)
    assert accounts.asked == 2


def test_an_import_does_not_look_like_a_change_of_keys() -> None:
    accounts = MemoryAccounts()
    ring = KeyRing(accounts, SERVER_SECRET, HandClock())
    ring.create("ann@example.com", "free", START_NS)
    before = ring.generation
    accounts.moves += 1
    ring.refresh(START_NS + SECOND)
    assert ring.generation == before


def test_licences_follow_grants() -> None:
    accounts = MemoryAccounts()
    licences, ring = Licences(accounts), KeyRing(accounts, SERVER_SECRET, HandClock())
    row = ring.find(ring.create("ann@example.com", "free", START_NS), START_NS)
    assert isinstance(row, KeyRow)
    licences.refresh(START_NS)
    assert licences.scope(row).owners == (1,)
    accounts.add_grant(EVERYONE, START_NS)
    licences.refresh(START_NS + SECOND)
    assert licences.scope(row).owners == (1, 0)
    assert licences.scope(row) is licences.scope(row)
    accounts.granted[0] = replace(accounts.granted[0], revoked_ns=START_NS)
    accounts.moves += 1
    licences.refresh(START_NS + 2 * SECOND)
    assert licences.scope(row).owners == (1,)


def test_a_tier_changes_no_licence_unless_the_grant_names_it() -> None:
    accounts = MemoryAccounts()
    licences = Licences(accounts)
    row = KeyRow(1, 1, "ann@example.com", "free", "outcry_00000000", b"", START_NS, None)
    licences.refresh(START_NS)
    assert licences.scope(row) == licences.scope(replace(row, tier="admin"))
    accounts.add_grant(replace(EVERYONE, grantee="tier:admin"), START_NS)
    licences.refresh(START_NS + SECOND)
    assert licences.scope(row) != licences.scope(replace(row, tier="admin"))
