"""Contract of the store of users' own presets: one user's presets are invisible to another, names and limit hold."""

import threading
from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.contract.databases import Place

from outcry.database.database import Database
from outcry.market.methods import DALTON
from outcry.market.saved_setting import SavedSetting, setting_of
from outcry.people.preset_store import MOST, PresetRefused, SqlPresets, free_name
from outcry.sessions.store import SqlStore


@pytest.fixture
def database(place: Place) -> Database:
    return place.open()


@pytest.fixture
def store(database: Database) -> SqlPresets:
    return SqlPresets(database)


@pytest.fixture
def users(database: Database) -> tuple[int, int]:
    accounts = SqlStore(database)
    return accounts.ensure_user("ann@example.com", 1), accounts.ensure_user("bob@example.com", 2)


def setting(name: str, percent: int = 68) -> SavedSetting:
    values = {"basis": "volume", "bars": 5, "row": 4, "label": "edges", "percent": percent, "hours": "full"}
    return setting_of(name, values)


def refused(store: SqlPresets, user: int, name: str) -> str:
    with pytest.raises(PresetRefused) as found:
        store.add(user, name, setting(name), 7)
    return found.value.reason


def test_a_setting_is_read_back_whole(store: SqlPresets, users: tuple[int, int]) -> None:
    number = store.add(users[0], "my-desk_2", setting("my-desk_2"), 7)
    (row,) = store.of(users[0])
    assert (row.id, row.name, row.created_ns, row.setting) == (number, "my-desk_2", 7, setting("my-desk_2"))
    found = store.named(users[0], "my-desk_2")
    assert found is not None
    assert (found.method, found.bar_minutes, found.bracket_minutes, found.row_ticks, found.label, found.hours) == (
        replace(DALTON, name="my-desk_2", basis="volume", percent=68), 5, 30, 4, "edges", "full",
    )  # fmt: skip


def test_users_see_and_change_only_their_own(store: SqlPresets, users: tuple[int, int]) -> None:
    ann, bob = users
    number = store.add(ann, "desk", setting("desk"), 7)
    store.add(bob, "desk", setting("desk", 80), 8)
    assert store.named(bob, "desk") == setting("desk", 80)
    assert [store.rename(bob, number, "taken-over"), store.delete(bob, number)] == [False, False]
    assert store.of(bob + 1000) == []
    assert store.named(ann, "desk") == setting("desk", 68)
    assert store.delete(ann, number)
    assert not store.delete(ann, number)
    assert store.named(ann, "desk") is None
    assert store.named(bob, "desk") is not None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "form"), ("Desk", "form"), ("a b", "form"), ("a" * 33, "form"), ("-a", "form"), ("desk\n", "form"),
        ("dёsk", "form"), ("٣", "form"), ("a/../b", "form"), ("' OR 1=1 --", "form"), ("<b>", "form"), ("a%00", "form"),
        ("dalton", "reserved"), ("lean", "reserved"), ("cbot-1row", "reserved"), ("py-market-profile", "reserved"),
        ("tradingview", "reserved"), ("sierrachart", "reserved"), ("ninja_trader", "reserved"),
    ],
)  # fmt: skip
def test_names_that_are_refused(store: SqlPresets, users: tuple[int, int], name: str, reason: str) -> None:
    assert refused(store, users[0], name) == reason
    number = store.add(users[0], "desk", setting("desk"), 7)
    with pytest.raises(PresetRefused) as found:
        store.rename(users[0], number, name)
    assert found.value.reason == reason


def test_a_name_is_given_once(store: SqlPresets, users: tuple[int, int]) -> None:
    first, second = (store.add(users[0], name, setting(name), 7) for name in ("desk", "home"))
    assert refused(store, users[0], "desk") == "taken"
    with pytest.raises(PresetRefused):
        store.rename(users[0], second, "desk")
    assert store.rename(users[0], first, "desk")  # its own name
    assert store.rename(users[0], first, "office")
    found = store.named(users[0], "office")
    assert found is not None
    assert found.method.name == "office"
    assert [free_name(store.of(users[0]), wished) for wished in ("desk", "home", "office")] == [
        "desk", "home-2", "office-2",
    ]  # fmt: skip


def test_the_number_of_presets_is_limited(store: SqlPresets, users: tuple[int, int]) -> None:
    """Of several requests at once, only as many are saved as fit."""
    for n in range(MOST - 2):
        store.add(users[0], f"n{n}", setting(f"n{n}"), 7)
    reasons: list[str] = []

    def save(n: int) -> None:
        try:
            store.add(users[0], f"late{n}", setting(f"late{n}"), 7)
        except PresetRefused as refusal:
            reasons.append(refusal.reason)

    threads = [threading.Thread(target=save, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reasons == ["full"] * 3
    assert len(store.of(users[0])) == MOST
    store.add(users[1], "desk", setting("desk"), 7)


def test_every_change_is_noticed_by_caches_of_answers(
    store: SqlPresets, database: Database, users: tuple[int, int]
) -> None:
    revisions = [database.revision()]
    number = store.add(users[0], "desk", setting("desk"), 7)
    revisions.append(database.revision())
    store.rename(users[0], number, "home")
    revisions.append(database.revision())
    store.delete(users[0], number)
    revisions.append(database.revision())
    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize(
    "stored", ['{"percent": 700}', '{"pocTie": "by_the_moon"}', "not json", '{"row": [1]}']
)
def test_a_setting_of_a_newer_version_is_not_used(
    store: SqlPresets, database: Database, users: tuple[int, int], stored: str
) -> None:
    number = store.add(users[0], "desk", setting("desk"), 7)
    with database.write() as connection:
        connection.execute(text("UPDATE presets SET setting = :stored"), {"stored": stored})
    assert store.named(users[0], "desk") is None
    assert [row.setting for row in store.of(users[0])] == [None]
    assert store.delete(users[0], number)


def test_presets_are_deleted_with_their_user(
    store: SqlPresets, database: Database, users: tuple[int, int]
) -> None:
    store.add(users[0], "desk", setting("desk"), 7)
    with database.write() as connection:
        connection.execute(text("DELETE FROM users WHERE id = :id"), {"id": users[0]})
    assert store.of(users[0]) == []
