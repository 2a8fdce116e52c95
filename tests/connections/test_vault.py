"""The vault decrypts a credential for its own record only, however records are moved, altered or exchanged."""

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.connections import vault as module
from outcry.connections.model import ConnectionPhase, ConnectionRow, SealedEntries
from outcry.connections.vault import Vault, VaultBroken, VaultKeys, rewrapped

ENTRIES = {"key": "db-SuperSecretKey0123456789abcde", "account": "Grün"}
K1, K2 = secrets.token_bytes(32), secrets.token_bytes(32)
ROW = ConnectionRow(7, 3, "databento", "Home", ConnectionPhase.CONNECTING, "", 0, ("ES",))


def vault(**keys: bytes) -> Vault:
    return Vault(lambda: VaultKeys(keys))


def sealed(made: Vault, row: ConnectionRow = ROW, version: int = 1) -> SealedEntries:
    return made.seal(row.user_id, row.broker, ENTRIES)(row.id, version)


def test_an_entry_decrypts_in_its_own_record() -> None:
    made = vault(k1=K1)
    stored = sealed(made)
    assert (stored.kid, stored.version, stored.connection_id) == ("k1", 1, 7)
    assert made.open(ROW, stored) == ENTRIES
    assert vault(k1=K1).open(ROW, stored) == ENTRIES  # encrypted by another process
    for part in (stored.sealed, stored.wrapped):
        assert b"SuperSecret" not in part


@pytest.mark.parametrize(
    "row",
    [replace(ROW, user_id=4), replace(ROW, id=8), replace(ROW, broker="tastytrade")],
    ids=["another user", "another connection", "another broker"],
)
def test_a_moved_row_does_not_decrypt(row: ConnectionRow) -> None:
    made = vault(k1=K1)
    stored = sealed(made)
    with pytest.raises(VaultBroken):
        made.open(row, stored)
    with pytest.raises(VaultBroken):
        made.open(row, replace(stored, connection_id=row.id))
    with pytest.raises(VaultBroken):
        made.rewrap(row, replace(stored, connection_id=row.id))


def test_older_entries_do_not_decrypt_as_newer_ones_nor_with_another_key() -> None:
    made = vault(k1=K1)
    old, new = sealed(made, version=1), sealed(made, version=2)
    with pytest.raises(VaultBroken):
        made.open(ROW, replace(old, version=2))
    with pytest.raises(VaultBroken):
        made.open(ROW, replace(new, sealed=old.sealed))
    with pytest.raises(VaultBroken):
        made.open(ROW, replace(new, wrapped=old.wrapped))


@given(st.sampled_from(["sealed", "wrapped"]), st.data())
def test_altered_entries_do_not_decrypt(part: str, data: st.DataObject) -> None:
    made = vault(k1=K1)
    stored = sealed(made)
    whole = bytearray(getattr(stored, part))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(VaultBroken):
        made.open(ROW, replace(stored, **{part: bytes(whole)}))
    with pytest.raises(VaultBroken):
        made.open(ROW, replace(stored, **{part: bytes(whole[:at])}))


def test_another_key_of_the_same_name_decrypts_nothing() -> None:
    stored = sealed(vault(k1=K1))
    for other in (vault(k1=K2), vault(k2=K1)):
        with pytest.raises(VaultBroken):
            other.open(ROW, stored)


def test_a_wrapped_key_does_not_open_under_the_name_of_another_key() -> None:
    both = vault(k1=K1, k2=K1)
    with pytest.raises(VaultBroken):
        both.open(ROW, replace(sealed(both), kid="k2"))


def test_each_encryption_has_its_own_key_and_nonce() -> None:
    made = vault(k1=K1)
    first, second = sealed(made), sealed(made)
    assert first.sealed[13:] != second.sealed[13:]
    assert first.wrapped != second.wrapped


def test_keys_and_entries_are_in_no_representation_and_no_error() -> None:
    made = vault(k1=K1)
    seal = made.seal(3, "databento", ENTRIES)
    stored = seal(7, 1)
    texts = [repr(made), repr(made.keys), repr(seal), repr(stored), repr(VaultKeys({"k1": K1}))]
    with pytest.raises(VaultBroken) as refusal:
        vault(k1=K2).open(ROW, stored)
    texts.append(repr(refusal.value) + str(refusal.value))
    with pytest.raises(ValueError, match="32 bytes") as fault:
        VaultKeys({"k1": K1[:-1]})
    texts.append(str(fault.value))
    for text in texts:
        assert "SuperSecret" not in text
        assert K1.hex()[:8] not in text
        assert repr(K1)[2:-1] not in text  # any ciphertext contains a few of its bytes by chance


def test_a_canary_tells_the_right_key_from_another_of_its_name() -> None:
    from outcry.connections.model import VaultKeyRow

    keys = VaultKeys({"k1": K1, "k2": K1})
    row = VaultKeyRow("k1", keys.canary("k1"), 0, None)
    assert keys.recognises(row)
    assert not VaultKeys({"k1": K2}).recognises(row)
    assert not VaultKeys({"k2": K1}).recognises(row)
    assert not keys.recognises(replace(row, kid="k2"))  # the same key under another name
    assert not keys.recognises(replace(row, canary=b""))


def test_a_key_that_appears_while_a_service_runs_is_found() -> None:
    now = {"k1": K1}
    running = Vault(lambda: VaultKeys(dict(now)))
    before = sealed(running)
    now = {"k2": K2, "k1": K1}
    after = sealed(running)
    assert after.kid == "k2"  # the older key encrypts no new entries
    other = Vault(lambda: VaultKeys(dict(now)))
    now = {"k3": K1, "k2": K2}
    assert other.open(ROW, after) == ENTRIES
    now = {"k2": K2, "k1": K1}
    assert other.open(ROW, before) == ENTRIES
    assert other.open(ROW, sealed(other)) == ENTRIES


@dataclass
class Shelf:
    """Entries in memory with the interface of `SqlVaultStore`. `renewing`: a row renewed in the middle."""

    stored: dict[int, tuple[ConnectionRow, SealedEntries]]
    renewing: dict[int, SealedEntries] = field(default_factory=dict)

    def not_under(self, kid: str, after_id: int, limit: int) -> Sequence[tuple[ConnectionRow, SealedEntries]]:
        rows = [pair for number, pair in sorted(self.stored.items()) if number > after_id]
        return [pair for pair in rows if pair[1].kid != kid][:limit]

    def rewrap(self, old: SealedEntries, new: SealedEntries) -> bool:
        row, now = self.stored[old.connection_id]
        if (renewed := self.renewing.pop(row.id, None)) is not None:
            now = renewed
            self.stored[row.id] = (row, now)
        if now != old:
            return False
        self.stored[row.id] = (row, new)
        return True


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "BATCH", 3)
    return


def shelf(made: Vault, count: int) -> Shelf:
    rows = [replace(ROW, id=number) for number in range(1, count + 1)]
    return Shelf({row.id: (row, sealed(made, row)) for row in rows})


@pytest.mark.usefixtures("small_batches")
def test_rewrapping_leaves_the_entries_as_they_are_and_opens_without_the_old_key() -> None:
    store = shelf(vault(k1=K1), 7)
    before = {number: entries.sealed for number, (_, entries) in store.stored.items()}
    rewrapped_ids = list(rewrapped(vault(k2=K2, k1=K1), store))  # type: ignore[arg-type]
    assert rewrapped_ids == [(3, 0), (6, 0), (7, 0)]
    for number, (row, entries) in store.stored.items():
        assert (entries.kid, entries.sealed) == ("k2", before[number])
        assert vault(k2=K2).open(row, entries) == ENTRIES


@pytest.mark.usefixtures("small_batches")
def test_interrupted_rewrapping_continues() -> None:
    store = shelf(vault(k1=K1), 7)
    both = vault(k2=K2, k1=K1)
    begun = rewrapped(both, store)  # type: ignore[arg-type]
    assert next(begun) == (3, 0)
    begun.close()
    assert [entries.kid for _, entries in store.stored.values()].count("k2") == 3
    assert list(rewrapped(both, store))[-1] == (4, 0)  # type: ignore[arg-type]
    assert {entries.kid for _, entries in store.stored.values()} == {"k2"}


def test_credentials_changed_during_a_rotation_stay_and_damaged_ones_do_not_stop_it() -> None:
    store = shelf(vault(k1=K1), 4)
    both = vault(k2=K2, k1=K1)
    renewed = sealed(both, replace(ROW, id=2), version=2)
    store.renewing[2] = renewed
    row, entries = store.stored[3]
    store.stored[3] = (row, replace(entries, wrapped=entries.wrapped[::-1]))
    assert list(rewrapped(both, store)) == [(2, 1)]  # type: ignore[arg-type]
    assert store.stored[2][1] == renewed
    assert [entries.kid for _, entries in store.stored.values()] == ["k2", "k2", "k1", "k2"]


def test_only_mappings_are_encrypted() -> None:
    made = vault(k1=K1)
    empty = made.seal(3, "databento", {})(7, 1)
    assert made.open(ROW, empty) == {}
    odd = {"quote": '"\\\n\u2028', "": "blank name"}
    assert made.open(ROW, made.seal(3, "databento", odd)(7, 1)) == odd
    assert json.loads(json.dumps(odd)) == odd
