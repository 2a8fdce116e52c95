import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.harness import SECOND, SERVER_SECRET, START_NS, HandClock, MemoryAccounts

from outcry.access import key_format as form
from outcry.access.keys import GRACES_NS, ApiKeys, KeyFault, KeyRefusal, KeyRefused
from outcry.access.licences import Licences
from outcry.access.model import GrantRow, KeyRow, Role
from outcry.database.errors import StoreBusy
from outcry.market.units import NANOS_PER_DAY

ROLES: list[dict[str, Role]] = [{}, {"role": "read"}, {"role": "ingest"}]
EVERYONE = GrantRow(0, "everyone", "completed", (), None, None, 0, None)


def test_a_key_is_found_until_it_is_revoked() -> None:
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
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
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    rows = [ring.find(ring.create("ann@example.com", "pro", START_NS, **role), START_NS) for role in ROLES]
    assert [row.role for row in rows if isinstance(row, KeyRow)] == ["read", "read", "ingest"]


def test_nothing_kept_contains_the_key_or_finds_it_under_another_secret() -> None:
    accounts = MemoryAccounts()
    key = ApiKeys(accounts, SERVER_SECRET, HandClock()).create("ann@example.com", "free", START_NS)
    assert re.fullmatch(r"outcry_[0-9A-Za-z]{49}", key)
    assert key[15:] not in repr(accounts.rows)
    assert (
        ApiKeys(accounts, b"another secret, as long", HandClock()).find(key, START_NS) is KeyRefusal.UNKNOWN
    )


@pytest.mark.parametrize("length", [9, 15, 16, 40, 55, 56])
def test_a_key_is_revoked_by_any_beginning_up_to_the_whole_key(length: int) -> None:
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    first, second = (ring.create(f"{name}@example.com", "free", START_NS) for name in ("ann", "bob"))
    while first[:9] == second[:9]:
        second = ring.create("bob@example.com", "free", START_NS)
    revoked = ring.revoke(second[:length], START_NS)
    assert revoked is not None
    assert (revoked.email, revoked.prefix) == ("bob@example.com", second[:15])
    assert isinstance(ring.known(first), KeyRow)


def test_a_beginning_of_several_keys_revokes_none_of_them() -> None:
    """Two keys have the same first eight characters, which 63 keys always do: 62 characters may follow `outcry_`."""
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    by_beginning: dict[str, str] = {}
    while True:
        second = ring.create("ann@example.com", "free", START_NS)
        first = by_beginning.setdefault(second[:8], second)
        if first != second:
            break
    for text in (second[:8], "outcry_", "out", ""):
        assert ring.revoke(text, START_NS) is None
    assert [row.prefix for row in ring.named(second[:8])] == [first[:15], second[:15]]
    # Once the first is revoked, the prefix is unique among the other keys.
    ring.revoke(first, START_NS)
    revoked = ring.revoke(second[:8], START_NS)
    assert revoked is not None
    assert revoked.prefix == second[:15]


def test_what_all_keys_begin_with_revokes_none_even_of_one() -> None:
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "free", START_NS)
    assert ring.revoke("outcry_", START_NS) is None
    assert isinstance(ring.known(key), KeyRow)


def test_a_whole_key_of_the_same_beginning_is_another_key() -> None:
    """A well-formed key with the first 15 characters of an existing key has another digest."""
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "free", START_NS)
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    start = sum(digits.index(sign) * 62 ** (42 - place) for place, sign in enumerate(key[7:15]))
    forged = form.compose(start)
    assert (forged[:15], forged != key) == (key[:15], True)
    for text in (forged, key[:-1] + ("0" if key[-1] != "0" else "1"), key + "0", key[:20] + "é", f" {key}"):
        assert not ring.named(text)
        assert ring.revoke(text, START_NS) is None
    assert isinstance(ring.known(key), KeyRow)


@pytest.mark.parametrize("secret", [b"", b"fifteen bytes!!", b"x" * 65])
def test_a_secret_too_short_or_long_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="16 to 64"):
        ApiKeys(MemoryAccounts(), secret, HandClock())


def test_a_malformed_key_is_refused_without_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "free", START_NS)
    monkeypatch.setattr(ring, "digest", lambda _key: pytest.fail("looked up"))
    assert ring.known(key[:-1] + ("0" if key[-1] != "0" else "1")) is KeyRefusal.MALFORMED
    assert ring.known("") is KeyRefusal.MISSING


def test_a_change_by_another_process_is_seen_when_the_store_is_asked_again_200_ms_later() -> None:
    accounts = MemoryAccounts()
    here, elsewhere = (
        ApiKeys(accounts, SERVER_SECRET, HandClock()),
        ApiKeys(accounts, SERVER_SECRET, HandClock()),
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
    ring = ApiKeys(accounts, SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "free", START_NS)
    ApiKeys(accounts, SERVER_SECRET, HandClock()).revoke(key[:15], START_NS)
    assert ring.find(key, START_NS - 3600 * SECOND) is KeyRefusal.REVOKED


def test_a_store_that_failed_once_is_asked_again() -> None:
    accounts = MemoryAccounts(busy=True)
    ring = ApiKeys(accounts, SERVER_SECRET, HandClock())
    with pytest.raises(StoreBusy):
        ring.refresh(START_NS)
    accounts.busy = False
    ring.refresh(START_NS)
    assert accounts.asked == 2


def test_an_import_does_not_look_like_a_change_of_keys() -> None:
    accounts = MemoryAccounts()
    ring = ApiKeys(accounts, SERVER_SECRET, HandClock())
    ring.create("ann@example.com", "free", START_NS)
    before = ring.generation
    accounts.moves += 1
    ring.refresh(START_NS + SECOND)
    assert ring.generation == before


def fault(refused: pytest.ExceptionInfo[KeyRefused]) -> KeyFault:
    return refused.value.fault


def ids(ring: ApiKeys, user_id: int = 1) -> list[int]:
    return [row.id for row in ring.of(user_id)]


def test_a_keys_time_is_over_by_this_machines_clock_and_no_other() -> None:
    """The given times are from a market long ago: they control the polls of the store, not the expiry."""
    clock = HandClock()
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, clock)
    key = ring.create("ann@example.com", "pro", START_NS, expires_ns=START_NS + SECOND)
    lasting = ring.create("ann@example.com", "pro", START_NS)
    before = ring.generation
    clock.at_ns = START_NS + SECOND - 1
    assert isinstance(ring.find(key, 7), KeyRow)
    assert (ring.generation, ring.live_count) == (before, 2)
    clock.at_ns = START_NS + SECOND
    assert ring.find(key, 7) is KeyRefusal.EXPIRED
    assert (ring.generation, ring.live_count) == (before + 1, 1)
    assert ring.live(key[:15]) is None
    assert isinstance(ring.find(lasting, 8), KeyRow)
    assert ring.generation == before + 1, "once for each end"


def test_the_end_of_a_key_is_noticed_while_the_store_does_not_answer() -> None:
    clock, accounts = HandClock(), MemoryAccounts()
    ring = ApiKeys(accounts, SERVER_SECRET, clock)
    ring.create("ann@example.com", "pro", START_NS, expires_ns=START_NS + SECOND)
    before = ring.generation
    accounts.busy = True
    clock.at_ns += SECOND
    with pytest.raises(StoreBusy):
        ring.refresh(clock.at_ns, force=True)
    assert ring.generation == before + 1


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.none(), st.integers(1, 50)), min_size=1, max_size=6),
    st.lists(st.integers(0, 12), max_size=12),
)
def test_a_key_is_good_until_its_end_and_every_end_is_told(ends: list[int | None], steps: list[int]) -> None:
    """The generation changes at a poll if and only if a key expired since the last one."""
    clock = HandClock()
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, clock)
    made = [
        (ring.create("ann@example.com", "pro", START_NS, expires_ns=end and START_NS + end), end)
        for end in ends
    ]
    at = 0
    for step in steps:
        before, was, at = ring.generation, at, at + step
        clock.at_ns = START_NS + at
        ring.refresh(START_NS + SECOND)
        assert ring.generation - before == any(end is not None and was < end <= at for _, end in made)
        assert ring.live_count == sum(end is None or at < end for _, end in made)
        for key, end in made:
            assert isinstance(ring.known(key), KeyRow) == (end is None or at < end)


def test_a_key_cannot_be_over_when_it_is_made() -> None:
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    with pytest.raises(KeyRefused) as refused:
        ring.create("ann@example.com", "pro", START_NS, expires_ns=START_NS)
    assert fault(refused) is KeyFault.EXPIRY


@pytest.mark.parametrize("label", ["x" * 61, "two\nlines", "tab\tbed", "\u202e", "\x00"])
def test_a_name_that_cannot_be_shown_in_a_line_is_refused(label: str) -> None:
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    ring.create("ann@example.com", "pro", START_NS, label=" Größe <b>  ")
    with pytest.raises(KeyRefused) as refused:
        ring.create("ann@example.com", "pro", START_NS, label=label)
    assert fault(refused) is KeyFault.LABEL
    with pytest.raises(KeyRefused):
        ring.change_own(1, 1, label)
    (row,) = ring.of(1)
    assert row.label == "Größe <b>"
    assert ring.change_own(1, 1, "") is True
    assert ring.change_own(2, 1, "theirs") is False
    assert [row.label for row in ring.of(1)] == [""]


def test_a_new_name_or_a_use_lets_nothing_be_concluded_anew() -> None:
    accounts = MemoryAccounts()
    ring = ApiKeys(accounts, SERVER_SECRET, HandClock())
    ring.create("ann@example.com", "pro", START_NS)
    before = ring.generation
    ring.change_own(1, 1, "notebook")
    ring.note_used({"key:1": 5 * SECOND})
    ring.refresh(START_NS + SECOND)
    assert ring.generation == before
    (row,) = ring.of(1)
    assert (row.label, row.last_used_ns) == ("notebook", START_NS - 5 * SECOND)


def test_of_the_keys_a_user_asked_for_twenty_are_good_at_a_time() -> None:
    clock = HandClock()
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, clock)
    ring.create_own("ann@example.com", "pro", START_NS, expires_ns=START_NS + 1)
    for _ in range(19):
        ring.create_own("ann@example.com", "pro", START_NS)
    with pytest.raises(KeyRefused) as refused:
        ring.create_own("ann@example.com", "pro", START_NS)
    assert fault(refused) is KeyFault.TOO_MANY
    ring.create_own("bob@example.com", "pro", START_NS)
    clock.at_ns += 1
    ring.create_own("ann@example.com", "pro", clock.at_ns)
    with pytest.raises(KeyRefused):
        ring.create_own("ann@example.com", "pro", clock.at_ns)
    assert ring.revoke_own(1, 2, clock.at_ns) is not None
    ring.create_own("ann@example.com", "pro", clock.at_ns)
    ring.create("ann@example.com", "pro", clock.at_ns)  # an attacker creates as many as needed


@pytest.mark.parametrize("grace_ns", GRACES_NS)
def test_a_key_that_is_replaced_is_good_until_the_grace_is_over(grace_ns: int) -> None:
    clock = HandClock()
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, clock)
    lasts_ns = 30 * NANOS_PER_DAY
    old = ring.create(
        "ann@example.com", "pro", START_NS, role="ingest", label="bot", expires_ns=START_NS + lasts_ns
    )
    clock.at_ns = at_ns = START_NS + NANOS_PER_DAY
    new = ring.rotate(1, 1, grace_ns, at_ns)
    row = ring.known(new)
    assert isinstance(row, KeyRow)
    assert (row.tier, row.role, row.label, row.expires_ns) == ("pro", "ingest", "bot", at_ns + lasts_ns)
    if grace_ns:
        clock.at_ns = at_ns + grace_ns - 1
        found = ring.find(old, clock.at_ns)
        assert isinstance(found, KeyRow)
        assert found.replaced_by == row.id
    clock.at_ns = at_ns + grace_ns
    assert ring.find(old, clock.at_ns) is KeyRefusal.EXPIRED
    assert isinstance(ring.known(new), KeyRow)


def test_a_grace_does_not_make_a_key_last_longer_and_one_without_end_has_none() -> None:
    clock = HandClock()
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, clock)
    ring.create("ann@example.com", "pro", START_NS, expires_ns=START_NS + SECOND)
    ring.create("ann@example.com", "pro", START_NS)
    ring.rotate(1, 1, NANOS_PER_DAY, START_NS)
    ring.rotate(1, 2, NANOS_PER_DAY, START_NS)
    ends = {row.id: row.expires_ns for row in ring.of(1)}
    assert ends == {
        4: None, 3: START_NS + SECOND, 2: START_NS + NANOS_PER_DAY, 1: START_NS + SECOND
    }  # fmt: skip


def test_what_is_not_ones_own_or_no_good_is_not_replaced_nor_replaced_twice() -> None:
    clock = HandClock()
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, clock)
    for expires_ns in (None, None, START_NS + 1, None):
        ring.create("ann@example.com", "pro", START_NS, expires_ns=expires_ns)
    ring.create("bob@example.com", "pro", START_NS)
    ring.rotate(1, 1, NANOS_PER_DAY, START_NS)
    ring.revoke_own(1, 2, START_NS)
    clock.at_ns += 1
    for user_id, key_id in ((1, 1), (1, 2), (1, 3), (1, 5), (1, 99), (3, 1)):
        with pytest.raises(KeyRefused) as refused:
            ring.rotate(user_id, key_id, 0, clock.at_ns)
        assert fault(refused) is KeyFault.UNKNOWN
    with pytest.raises(KeyRefused) as refused:
        ring.rotate(1, 4, 5, clock.at_ns)
    assert fault(refused) is KeyFault.GRACE


def test_nobody_revokes_anothers_key() -> None:
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "pro", START_NS)
    ring.create("bob@example.com", "pro", START_NS)
    assert ring.revoke_own(2, 1, START_NS) is None
    assert isinstance(ring.known(key), KeyRow)
    revoked = ring.revoke_own(1, 1, START_NS)
    assert revoked is not None
    assert (revoked.id, revoked.revoked_ns) == (1, START_NS)
    assert ring.known(key) is KeyRefusal.REVOKED
    assert ring.revoke_own(1, 1, START_NS + 1) is None


def test_a_user_is_shown_what_ended_within_thirty_days_newest_first() -> None:
    clock = HandClock()
    ring = ApiKeys(MemoryAccounts(), SERVER_SECRET, clock)
    for expires_ns in (START_NS + 1, None, None):
        ring.create("ann@example.com", "pro", START_NS, expires_ns=expires_ns)
    ring.create("bob@example.com", "pro", START_NS)
    ring.revoke_own(1, 2, START_NS + 2)
    assert ids(ring) == [3, 2, 1]
    clock.at_ns = START_NS + 1 + 30 * NANOS_PER_DAY
    assert ids(ring) == [3, 2, 1]
    clock.at_ns += 1
    assert ids(ring) == [3, 2]
    clock.at_ns += 1
    assert ids(ring) == [3]


def test_a_disabled_users_keys_are_no_good_until_the_user_is_enabled_again() -> None:
    accounts = MemoryAccounts()
    ring = ApiKeys(accounts, SERVER_SECRET, HandClock())
    key = ring.create("ann@example.com", "pro", START_NS)
    accounts.change(1, disabled_ns=START_NS)
    assert ring.find(key, START_NS + SECOND) is KeyRefusal.DISABLED
    assert (ring.live(key[:15]), ring.live_count) == (None, 0)
    accounts.change(1, disabled_ns=None)
    assert isinstance(ring.find(key, START_NS + 2 * SECOND), KeyRow)


def test_licences_follow_grants() -> None:
    accounts = MemoryAccounts()
    licences, ring = Licences(accounts), ApiKeys(accounts, SERVER_SECRET, HandClock())
    row = ring.find(ring.create("ann@example.com", "free", START_NS), START_NS)
    assert isinstance(row, KeyRow)
    licences.refresh(START_NS)
    assert licences.scope(row).owners == (1,)
    accounts.add_grant(EVERYONE, START_NS)
    licences.refresh(START_NS + SECOND)
    assert licences.scope(row).owners == (1, 0)
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


def test_a_key_whose_end_was_moved_is_good_until_the_new_one() -> None:
    """A key of 100 minutes is replaced with 60 remaining; the new key has 100 of its own."""
    accounts, clock = MemoryAccounts(), HandClock()
    ring = ApiKeys(accounts, SERVER_SECRET, clock)
    begin_ns, minute_ns = clock.now_ns(), 60_000_000_000
    old = ring.create("ann@example.com", "free", begin_ns, expires_ns=begin_ns + 100 * minute_ns)
    new = ring.rotate(1, 1, GRACES_NS[1], begin_ns)
    counted: list[int] = []
    for minutes in (59, 61, 99, 101):
        clock.at_ns = begin_ns + minutes * minute_ns
        ring.refresh(clock.now_ns())
        counted.append(ring.live_count)
    assert counted == [2, 1, 1, 0]
    assert ring.known(old) is ring.known(new) is KeyRefusal.EXPIRED
