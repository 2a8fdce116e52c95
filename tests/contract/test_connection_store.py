"""Contract of connection stores: moves from the expected state only, newest versions only, complete removal."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy.dialects import postgresql
from tests.contract.databases import Place, Places

from outcry.connections.model import (
    ConnectionPhase,
    ConnectionRefused,
    ConnectionRow,
    EntrySealer,
    SealedEntries,
    VaultKeyRow,
)
from outcry.connections.store import SqlConnectionStore
from outcry.connections.vault_store import SqlVaultStore
from outcry.database import schema
from outcry.database.database import DATABASE_FILE
from outcry.database.errors import StoreBusy
from outcry.people.store import SqlIdentityStore

NOW = 1_767_366_245_123_456_789
ANN, BOB = 1, 2
CONNECTING, LIVE, FAILED = ConnectionPhase.CONNECTING, ConnectionPhase.LIVE, ConnectionPhase.FAILED
ROW = ConnectionRow(
    id=0, user_id=ANN, broker="databento", label="Büro", phase=CONNECTING, code="", since_ns=NOW,
    symbols=("ES", "NQ"), hint="…wxyz",
)  # fmt: skip


@dataclass
class Stores:
    """Both stores as opened by two processes."""

    store: SqlConnectionStore
    people: SqlIdentityStore
    vault: SqlVaultStore
    elsewhere: SqlConnectionStore


@pytest.fixture
def stores(place: Place) -> Stores:
    return open_stores(place)


def open_stores(place: Place) -> Stores:
    database = place.open()
    people = SqlIdentityStore(database)
    for email in ("ann@example.com", "bob@example.com"):
        people.add_user(email, "member", "free", email.encode(), NOW)
    vault = SqlVaultStore(database)
    vault.add_vault_key("k1", b"canary", NOW)
    return Stores(SqlConnectionStore(database), people, vault, SqlConnectionStore(place.open()))


@pytest.fixture
def store(stores: Stores) -> SqlConnectionStore:
    return stores.store


def sealing(mark: str = "a", kid: str = "k1") -> EntrySealer:
    def sealed(connection_id: int, version: int) -> SealedEntries:
        place = f"{mark}{connection_id}.{version}".encode()
        return SealedEntries(connection_id, kid, b"wrapped " + place, b"sealed " + place, version)

    return sealed


def test_a_connection_is_kept_as_it_was_given_under_a_number_of_its_own(store: SqlConnectionStore) -> None:
    first = store.add(ROW, sealing(), NOW)
    second = store.add(replace(ROW, user_id=BOB, symbols=()), sealing(), NOW)
    third = store.add(replace(ROW, broker="tastytrade"), sealing(), NOW)
    assert store.rows(ANN) == [replace(ROW, id=first), replace(ROW, id=third, broker="tastytrade")]
    assert [row.id for row in store.rows()] == [first, second, third]
    assert store.entries(second) == SealedEntries(2, "k1", b"wrapped a2.1", b"sealed a2.1", 1)


def test_connections_of_a_disabled_account_are_not_among_everybodys_until_it_is_enabled(
    stores: Stores,
) -> None:
    anns = stores.store.add(ROW, sealing(), NOW)
    bobs = stores.store.add(replace(ROW, user_id=BOB), sealing(), NOW)
    stores.people.change_user(BOB, disabled_ns=NOW + 1)
    assert [row.id for row in stores.store.rows()] == [anns]
    assert [row.id for row in stores.store.rows(BOB)] == [bobs]
    stores.people.change_user(BOB, disabled_ns=0)
    assert [row.id for row in stores.store.rows()] == [anns, bobs]


def test_a_user_has_one_connection_of_a_broker(stores: Stores) -> None:
    stores.store.add(ROW, sealing(), NOW)
    with pytest.raises(ConnectionRefused, match="already_connected"):
        stores.elsewhere.add(replace(ROW, label="other"), sealing(), NOW)
    assert [row.label for row in stores.store.rows()] == ["Büro"]


def test_a_connection_moves_only_from_where_it_stands(stores: Stores) -> None:
    number = stores.store.add(ROW, sealing(), NOW)
    assert stores.store.move(number, CONNECTING, LIVE, "", NOW + 5)
    assert not stores.elsewhere.move(number, CONNECTING, FAILED, "not_entitled", NOW + 6)
    assert stores.store.rows() == [replace(ROW, id=number, phase=LIVE, since_ns=NOW + 5)]
    assert not stores.store.move(99, CONNECTING, LIVE, "", NOW)


def test_since_when_it_stands_so_moves_with_phase_or_code_and_with_nothing_else(
    store: SqlConnectionStore,
) -> None:
    number = store.add(ROW, sealing(), NOW)
    assert store.move(number, CONNECTING, CONNECTING, "", NOW + 1)
    assert store.rows()[0].since_ns == NOW
    assert store.move(number, CONNECTING, CONNECTING, "unreachable", NOW + 2)
    assert (store.rows()[0].since_ns, store.rows()[0].code) == (NOW + 2, "unreachable")
    assert store.change(number, ["GC"], "Home")
    assert store.rows() == [
        replace(ROW, id=number, code="unreachable", since_ns=NOW + 2, symbols=("GC",), label="Home")
    ]
    assert not store.change(99, ["GC"], "Home")


def test_of_two_that_move_it_at_once_one_does(stores: Stores) -> None:
    number = stores.store.add(ROW, sealing(), NOW)
    moved: list[bool] = []
    together = threading.Barrier(2)

    def move(store: SqlConnectionStore, to: ConnectionPhase) -> None:
        together.wait()
        moved.append(store.move(number, CONNECTING, to, "", NOW + 1))

    threads = [
        threading.Thread(target=move, args=(store, to))
        for store, to in ((stores.store, LIVE), (stores.elsewhere, FAILED))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(moved) == [False, True]


def test_renewed_entries_take_the_place_of_those_before_under_the_next_version(
    store: SqlConnectionStore,
) -> None:
    number = store.add(ROW, sealing("a"), NOW)
    assert store.renew(number, "…1234", sealing("b"))
    assert store.entries(number) == SealedEntries(number, "k1", b"wrapped b1.2", b"sealed b1.2", 2)
    assert store.rows()[0].hint == "…1234"
    assert not store.renew(99, "", sealing("c"))
    assert store.entries(99) is None


def test_a_removed_connection_is_gone_and_its_number_is_not_used_again(store: SqlConnectionStore) -> None:
    number = store.add(ROW, sealing(), NOW)
    assert store.remove(number)
    assert not store.remove(number)
    assert store.entries(number) is None
    assert store.rows() == []
    assert store.add(ROW, sealing(), NOW) > number


def test_nothing_is_left_of_entries_that_were_replaced_or_removed(places: Places, tmp_path: Path) -> None:
    """SQLite's file contains no replaced or removed credentials.

    PostgreSQL keeps old rows until it vacuums, and a log of them: there the operator must encrypt the disk.
    """

    def secret(connection_id: int, version: int) -> SealedEntries:
        mark = f"SECRET{version}".encode() * 8
        return SealedEntries(connection_id, "k1", b"W" + mark, b"S" + mark, version)

    def found(mark: bytes) -> bool:
        return any(mark in path.read_bytes() for path in tmp_path.glob(DATABASE_FILE + "*"))

    with places.place("sqlite", tmp_path) as place:
        replace_and_remove(open_stores(place), secret, found)


def replace_and_remove(stores: Stores, secret: EntrySealer, found: Callable[[bytes], bool]) -> None:
    number = stores.store.add(ROW, secret, NOW)
    assert found(b"SECRET1")
    assert stores.store.renew(number, "", secret)
    assert not found(b"SECRET1")
    assert found(b"SECRET2")
    assert stores.store.remove(number)
    assert not found(b"SECRET")


def test_nothing_is_kept_of_a_connection_whose_entries_could_not_be_sealed(stores: Stores) -> None:
    def broken(connection_id: int, version: int) -> SealedEntries:
        raise ValueError("the key file is gone")

    with pytest.raises(ValueError, match="the key file is gone"):
        stores.store.add(ROW, broken, NOW)
    with pytest.raises(StoreBusy, match="k9 was exchanged"):
        stores.store.add(ROW, sealing(kid="k9"), NOW)
    assert stores.store.rows() == []


def test_a_retired_key_takes_nothing_new(stores: Stores) -> None:
    number = stores.store.add(ROW, sealing(), NOW)
    assert not stores.vault.retire("k1", NOW)  # while rows are encrypted with it
    old = stores.store.entries(number)
    assert old is not None
    stores.vault.add_vault_key("k2", b"other", NOW + 1)
    assert stores.vault.rewrap(old, replace(old, kid="k2", wrapped=b"new"))
    assert not stores.vault.rewrap(old, replace(old, kid="k2", wrapped=b"again"))
    assert stores.store.entries(number) == replace(old, kid="k2", wrapped=b"new")
    assert stores.vault.retire("k1", NOW + 2)
    with pytest.raises(StoreBusy, match="k1 was exchanged"):
        stores.store.renew(number, "", sealing("b", "k1"))
    assert stores.store.entries(number) == replace(old, kid="k2", wrapped=b"new")
    assert stores.vault.vault_keys() == [
        VaultKeyRow("k1", b"canary", NOW, NOW + 2),
        VaultKeyRow("k2", b"other", NOW + 1, None),
    ]
    assert stores.vault.uses() == {"k2": 1}


def test_a_keys_name_is_taken_once(stores: Stores) -> None:
    assert not stores.vault.add_vault_key("k1", b"another", NOW)
    assert [row.canary for row in stores.vault.vault_keys()] == [b"canary"]


def test_what_is_not_under_a_key_is_listed_by_number_a_few_at_a_time(stores: Stores) -> None:
    numbers = [stores.store.add(replace(ROW, broker=f"b{n}"), sealing(), NOW) for n in range(5)]
    assert stores.vault.not_under("k1", 0, 9) == []
    batch = stores.vault.not_under("k2", numbers[0], 3)
    assert [(row.id, row.broker, entries.connection_id) for row, entries in batch] == [
        (number, f"b{n}", number) for n, number in list(enumerate(numbers))[1:4]
    ]


def test_what_was_under_a_lost_key_is_destroyed_and_its_owner_signs_in_again(stores: Stores) -> None:
    stores.vault.add_vault_key("k2", b"other", NOW)
    lost = stores.store.add(ROW, sealing(), NOW)
    fine = stores.store.add(replace(ROW, user_id=BOB), sealing(kid="k2"), NOW)
    assert stores.vault.forget_under(["k1"], "entries_lost", NOW + 7) == 1
    assert stores.store.entries(lost) is None
    assert stores.store.entries(fine) is not None
    phases = [(row.phase, row.code, row.since_ns) for row in stores.store.rows()]
    assert phases == [(ConnectionPhase.NEEDS_SIGN_IN, "entries_lost", NOW + 7), (CONNECTING, "", NOW)]
    assert [row.retired_ns for row in stores.vault.vault_keys()] == [NOW + 7, None]
    assert stores.store.renew(lost, "", sealing("n", "k2"))
    assert stores.store.entries(lost) == SealedEntries(lost, "k2", b"wrapped n1.1", b"sealed n1.1", 1)


def test_the_tables_can_be_made_in_postgresql() -> None:
    from sqlalchemy.schema import CreateTable

    for table in (schema.connections, schema.vault_keys, schema.credentials):
        statement = str(CreateTable(table).compile(dialect=postgresql.dialect()))
        assert f"CREATE TABLE {table.name}" in statement
