"""Contract of stores, and the database alone: migrations and error messages."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, inspect, select, text
from tests.contract.databases import SCRIPTS, Place, upgrade

from outcry.access.model import GrantEvent, GrantRow
from outcry.database import migrate as migration
from outcry.database.database import Database, open_engine, sqlite_url
from outcry.database.errors import StoreBusy
from outcry.database.schema import metadata
from outcry.delivery.fan_out import OutboxEntries
from outcry.live.store import LiveStore
from outcry.market.calendar import SessionKind
from outcry.people.store import SqlIdentityStore
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import (
    Contribution,
    FileRead,
    ImportRow,
    ReadAs,
    RecordingRow,
    SessionRow,
)
from outcry.trades.records import Quality

DAY = date(2024, 7, 2)
RECORDING = RecordingRow(
    0, "ESU2024", DAY, "lean", Quality.TICKS, "operator/ES/a.dbn.zst", 10, 55, 1, 2, 100, 200, 300,
    ((90, 250), (400, 500)),
)  # fmt: skip
SESSION = SessionRow(
    owner=0, root="ES", contract="ESU2024", trade_date=DAY, kind=SessionKind.RTH, open_ns=100, close_ns=200,
    source="lean", quality=Quality.TICKS, complete=True, short=False, rows=10, volume=2**40, off_tick=1,
    out_of_order=2, first_ns=100, last_ns=199, received_ns=300, profile=b"\x00profile\xff",
)  # fmt: skip


@pytest.fixture
def store(place: Place) -> SqlStore:
    return SqlStore(place.open())


def test_what_is_committed_is_read_back_whole(store: SqlStore) -> None:
    store.commit_import(0, "digest", "file.zip", [RECORDING], [SESSION], 7)
    assert store.all_recordings() == [RECORDING]
    assert store.sessions([0], "ES") == [SESSION]
    assert store.recordings(0, "ESU2024", DAY, DAY) == [RECORDING]
    assert store.sessions_of(0, "ESU2024", DAY, DAY) == [SESSION]
    assert store.roots([0]) == ["ES"]
    assert store.tape_paths() == {"operator/ES/a.dbn.zst"}
    assert store.tape_named(["operator/ES/b", "operator/ES/a.dbn.zst"]) == {"operator/ES/a.dbn.zst"}
    assert store.tape_named([]) == frozenset()
    assert store.imports_named(0, "file.zip") == {"digest"}


def test_owners_are_kept_apart(store: SqlStore) -> None:
    store.commit_import(0, "digest", "a", [], [SESSION], 7)
    store.commit_import(3, "other", "a", [], [replace(SESSION, owner=3, volume=9)], 7)
    assert [row.volume for row in store.sessions([3], "ES")] == [9]
    assert [row.volume for row in store.sessions([0], "ES")] == [2**40]
    assert store.imports_named(3, "a") == {"other"}
    assert store.roots([4]) == []


def test_the_same_identity_is_replaced_and_another_is_added(store: SqlStore) -> None:
    store.commit_import(0, "1", "a", [RECORDING], [SESSION], 7)
    grown = replace(RECORDING, path="operator/ES/b.dbn.zst", rows=20)
    overnight = replace(SESSION, kind=SessionKind.ETH, open_ns=50)
    store.commit_import(0, "2", "b", [grown], [replace(SESSION, complete=False), overnight], 8)
    assert store.all_recordings() == [grown]
    assert [(row.kind, row.complete) for row in store.sessions([0], "ES")] == [("eth", True), ("rth", False)]


def test_hundreds_of_rows_in_one_transaction(store: SqlStore) -> None:
    rows = [replace(SESSION, trade_date=date.fromordinal(730_000 + n), open_ns=n) for n in range(350)]
    store.commit_import(0, "1", "a", [], rows, 7)
    store.commit_import(0, "2", "a", [], rows[:150], 7)
    assert store.sessions([0], "ES") == rows


def test_replacing_sessions_leaves_other_contracts_alone(store: SqlStore) -> None:
    other = replace(SESSION, contract="ESZ2024")
    store.commit_import(0, "1", "a", [], [SESSION, other], 7)
    store.replace_sessions(0, "ESU2024", [])
    assert store.sessions([0], "ES") == [other]


def test_every_write_moves_the_revision_and_no_read_does(store: SqlStore) -> None:
    seen = [store.revision()]
    user = store.ensure_user("A@Example.com ", 1)
    seen.append(store.revision())
    key = store.add_key(user, "pro", "outcry_abcdefgh", b"digest", 2)
    assert key is not None
    seen.append(store.revision())
    listed = store.keys()
    assert len(listed) == len(store.grants()) == 1
    assert store.revision() == seen[-1]
    store.revoke_key_of(user, key, 3)
    seen.append(store.revision())
    assert seen == sorted(set(seen))


def test_users_are_told_apart_by_address_in_lower_case(store: SqlStore) -> None:
    assert (
        store.ensure_user("A@Example.com", 1)
        == store.ensure_user(" a@example.COM", 2)
        == store.find_user("A@example.com")
    )
    assert store.find_user("b@example.com") is None


def test_keys_are_found_by_the_beginning_of_their_prefix(store: SqlStore) -> None:
    user = store.ensure_user("a@example.com", 1)
    first = store.add_key(user, "free", "outcry_aaaa1111", b"1", 2)
    store.add_key(user, "free", "outcry_aaaa2222", b"2", 2)
    assert first is not None
    store.revoke_key_of(user, first, 3)
    digests = {
        text: [row.digest for row in store.keys_named(text)]
        for text in (
            "outcry_aaaa",
            "outcry_aaaa1",
            "outcry_aaaa1111",
            "outcry_AAAA",
            "outcry\\_aaaa1%",
            "aaaa",
        )
    }
    assert digests == {
        "outcry_aaaa": [b"1", b"2"], "outcry_aaaa1": [b"1"], "outcry_aaaa1111": [b"1"], "outcry_AAAA": [],
        "outcry\\_aaaa1%": [], "aaaa": [],
    }  # fmt: skip


def test_a_key_is_revoked_once_and_by_its_own_user_only(store: SqlStore) -> None:
    user, other = store.ensure_user("a@example.com", 1), store.ensure_user("b@example.com", 1)
    key = store.add_key(user, "free", "outcry_aaaa1111", b"1", 2)
    store.add_key(user, "free", "outcry_aaaa2222", b"2", 2)
    assert key is not None
    assert store.revoke_key_of(other, key, 3) is None
    revoked = store.revoke_key_of(user, key, 3)
    assert revoked is not None
    assert (revoked.revoked_ns, revoked.email) == (3, "a@example.com")
    assert store.revoke_key_of(user, key, 4) is None
    listed = store.keys()
    assert [row.revoked_ns for row in listed] == [3, None]


def test_a_key_has_one_role_and_reads_unless_said_otherwise(store: SqlStore) -> None:
    user = store.ensure_user("a@example.com", 1)
    store.add_key(user, "free", "outcry_aaaa1111", b"1", 2)
    key = store.add_key(user, "free", "outcry_aaaa2222", b"2", 2, role="ingest")
    assert key is not None
    listed = store.keys()
    assert [row.role for row in listed] == ["read", "ingest"]
    revoked = store.revoke_key_of(user, key, 3)
    assert revoked is not None
    assert revoked.role == "ingest"


def test_a_key_has_a_name_and_an_end_and_a_use_of_it_is_no_change(store: SqlStore) -> None:
    ann, bob = store.ensure_user("a@example.com", 1), store.ensure_user("b@example.com", 1)
    number = store.add_key(ann, "free", "outcry_a", b"1", 2, label="Büro", expires_ns=2**62)
    other = store.add_key(bob, "free", "outcry_b", b"2", 2)
    assert number is not None
    assert other is not None
    assert [(row.label, row.expires_ns, row.last_used_ns) for row in store.keys(ann)] == [
        ("Büro", 2**62, None)
    ]
    before = store.revision()
    store.used_keys({number: 9, other: 8, 99: 1})
    store.used_keys({number: 7})
    store.used_keys({})
    assert store.name_key(ann, number, "Küche")
    assert not store.name_key(bob, number, "mine")
    assert store.revision() == before
    assert [(row.label, row.last_used_ns) for row in store.keys(None)] == [("Küche", 9), ("", 8)]


def test_a_user_has_so_many_live_keys_and_no_more_however_many_ask_at_once(
    store: SqlStore, place: Place
) -> None:
    """Revoked and expired keys, and those of other users, do not count."""
    ann, bob = store.ensure_user("a@example.com", 1), store.ensure_user("b@example.com", 1)
    store.add_key(bob, "free", "outcry_b", b"b", 2)
    ended = store.add_key(ann, "free", "outcry_r", b"r", 2)
    assert ended is not None
    store.revoke_key_of(ann, ended, 2)
    store.add_key(ann, "free", "outcry_e", b"e", 2, expires_ns=5)
    elsewhere = place.open()
    stores = [store, SqlStore(elsewhere)]
    made: list[int | None] = []

    def add(n: int) -> None:
        made.append(stores[n % 2].add_key(ann, "free", f"outcry_{n}", b"%d" % n, 5, most=3))

    threads = [threading.Thread(target=add, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(made) == 6
    assert sum(number is not None for number in made) == 3


def test_a_key_is_replaced_with_what_was_granted_to_it(store: SqlStore, place: Place) -> None:
    user = store.ensure_user("a@example.com", 1)
    old = store.add_key(user, "pro", "outcry_a", b"1", 100, role="ingest", label="bot", expires_ns=150)
    assert old is not None
    grant = GrantRow(0, f"key:{old}", "completed", ("ES",), DAY, None, 5, None)
    taken_back = store.add_grant(replace(grant, roots=("NQ",)), 9)
    store.revoke_grant(taken_back, 9)
    store.add_grant(grant, 9)
    assert store.replace_key(user + 1, old, "outcry_b", b"2", 30, 110, most=9) is None
    assert store.replace_key(user, old, "outcry_b", b"2", 30, 110, most=1) is None
    assert store.replace_key(user, old, "outcry_b", b"2", 30, 150, most=9) is None, "its time is over"
    new = store.replace_key(user, old, "outcry_b", b"2", 30, 110, most=9)
    assert new is not None
    before, after = store.keys(user)
    assert (before.expires_ns, before.replaced_by, before.revoked_ns) == (140, new, None)
    assert (after.tier, after.role, after.label, after.created_ns, after.expires_ns) == (
        "pro", "ingest", "bot", 110, 160
    )  # fmt: skip
    granted = [replace(row, id=0) for row in store.grants() if row.grantee.startswith("key:")]
    assert granted == [grant, replace(grant, grantee=f"key:{new}")]
    assert store.replace_key(user, old, "outcry_c", b"3", 30, 111, most=9) is None, "it was replaced already"
    assert store.replace_key(user, new, "outcry_c", b"3", 99, 111, most=9) is not None
    assert [row.expires_ns for row in store.keys(user)] == [140, 160, 161], "no grace makes a key last longer"


def test_keys_are_asked_for_by_the_revision_since_which_what_they_may_do_changed(
    store: SqlStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New, replaced and revoked keys are returned, and those of a user whose tier or status changed.

    Keys that were only used or renamed are not. The test reads two at a time.
    """
    monkeypatch.setattr("outcry.access.key_store._AT_ONCE", 2)
    people = SqlIdentityStore(place.open())
    ann, bob = store.ensure_user("a@example.com", 1), store.ensure_user("b@example.com", 1)

    def changed_by(work: Callable[[], object]) -> list[int]:
        before = store.revision()
        work()
        return sorted(row.id for row in store.keys_since(before))

    for n in range(5):
        user = ann if n < 3 else bob
        assert changed_by(
            lambda n=n, user=user: store.add_key(user, "free", f"outcry_{n}", b"%d" % n, 2)
        ) == [n + 1]
    assert sorted(store.keys_since(None), key=lambda row: row.id) == list(store.keys(None))
    assert changed_by(lambda: store.replace_key(bob, 5, "outcry_5", b"5", 30, 9, most=9)) == [5, 6]
    assert changed_by(lambda: store.revoke_key_of(ann, 2, 9)) == [2]
    assert changed_by(lambda: store.used_keys({1: 9})) == []
    assert changed_by(lambda: store.name_key(ann, 1, "Küche")) == []
    assert changed_by(lambda: store.commit_import(0, "1", "a", [], [SESSION], 7)) == []
    assert changed_by(lambda: people.change_user(bob, disabled_ns=9)) == [4, 5, 6]
    assert changed_by(lambda: people.change_user(ann, tier="pro")) == [1, 2, 3]
    assert {row.tier for row in store.keys(ann)} == {"pro", "free"}
    assert {row.id for row in store.keys_since(None) if row.disabled_ns == 9} == {4, 5, 6}
    assert (store.has_prefix("outcry_1"), store.has_prefix("outcry_")) == (True, False)


def test_a_key_is_revoked_by_its_user_alone(store: SqlStore) -> None:
    ann, bob = store.ensure_user("a@example.com", 1), store.ensure_user("b@example.com", 1)
    key = store.add_key(ann, "free", "outcry_a", b"1", 2)
    assert key is not None
    assert store.revoke_key_of(bob, key, 3) is None
    revoked = store.revoke_key_of(ann, key, 3)
    assert revoked is not None
    assert (revoked.id, revoked.revoked_ns) == (key, 3)
    assert store.revoke_key_of(ann, key, 4) is None


def contribution(digest: str, path: str | None, position: int, day: date = DAY) -> Contribution:
    return Contribution(
        0, digest, "ESU2024", day, "lean", Quality.TICKS, position, path, "f" * 64 if path else "", 10, 2**40, 100, 200,
        ((90, 250),), set_aside=((100, 1, 2),),
    )  # fmt: skip


def test_contributions_are_read_back_in_the_order_of_merging(store: SqlStore) -> None:
    first, second = (
        contribution("1", "operator/ES/b.dbn.zst", 1),
        contribution("2", "operator/ES/a.dbn.zst", 2),
    )
    base = contribution("", None, 0)
    file = FileRead("e" * 64, 123, 10, ReadAs("csv", "csv", None, "UTC", "open", "0.01"))
    store.commit_import(0, "2", "a", [RECORDING], [], 7, contributions=[second])
    store.commit_import(0, "1", "b", [], [], 8, file=file, contributions=[first, base])
    assert store.contributions(0, "ESU2024", DAY, DAY) == [base, first, second]
    assert store.contributions_of(0, "1") == [first]
    assert store.contributions(3, "ESU2024", DAY, DAY) == []
    assert store.imports(0) == [ImportRow(0, "2", "a", 7), ImportRow(0, "1", "b", 8, file)]
    assert {one.path for one in store.contribution_files()} == {first.path, second.path} == store.tape_paths()


def test_a_forgotten_import_leaves_what_others_brought(store: SqlStore) -> None:
    """The transaction deletes the import, a recording, the rest of another and a session, and replaces a session."""
    next_day = date(2024, 7, 3)
    gone = replace(RECORDING, trade_date=next_day, path="operator/ES/c.dbn.zst")
    mine = [
        contribution("1", "operator/ES/b.dbn.zst", 1),
        contribution("1", "operator/ES/c.dbn.zst", 1, next_day),
    ]
    other, base = contribution("2", "operator/ES/a.dbn.zst", 2), contribution("", "operator/ES/d.dbn.zst", 0)
    night = replace(SESSION, kind=SessionKind.ETH)
    store.commit_import(0, "1", "a", [RECORDING, gone], [SESSION, night], 7, contributions=[*mine, base])
    store.commit_import(0, "2", "b", [], [], 7, contributions=[other])
    left, before = replace(RECORDING, rows=4), store.revision()
    store.forget_imports(
        0, ["1"], removed=[gone.id], without_base=[RECORDING.id], recordings=[left],
        sessions=[replace(SESSION, rows=4)], removed_sessions=[night],
    )  # fmt: skip
    assert store.revision() == before + 1
    assert store.all_recordings() == [left]
    assert store.sessions([0], "ES") == [replace(SESSION, rows=4)]
    assert store.contributions(0, "ESU2024", DAY, next_day) == [other]
    assert [row.digest for row in store.imports(0)] == ["2"]
    assert store.tape_paths() == {"operator/ES/a.dbn.zst"}


def test_a_forgotten_source_leaves_what_others_brought(store: SqlStore) -> None:
    """Recordings and sessions of `demo` are deleted for every owner; those of `lean` for the same day remain."""
    mine = replace(RECORDING, owner=3, source="demo", path="user-3/ES/c.dbn.zst")
    theirs = replace(RECORDING, source="demo", path="operator/ES/b.dbn.zst")
    invented = replace(SESSION, source="demo", kind=SessionKind.ETH)
    store.commit_import(0, "1", "a", [RECORDING, theirs], [SESSION, invented], 7)
    store.commit_import(3, "2", "a", [mine], [replace(invented, owner=3)], 7)
    before = store.revision()
    assert sorted(store.forget_source("demo", lambda *_: None)) == [
        "operator/ES/b.dbn.zst",
        "user-3/ES/c.dbn.zst",
    ]
    assert store.revision() == before + 1
    assert store.all_recordings() == [RECORDING]
    assert store.sessions([0, 3], "ES") == [SESSION]
    assert store.forget_source("demo", lambda *_: None) == []


def test_grants_are_in_force_until_revoked(store: SqlStore) -> None:
    (first,) = store.grants()
    assert (first.grantee, first.scope, first.roots, first.embargo_ns) == (
        "everyone",
        "completed",
        (),
        86_400 * 10**9,
    )
    wanted = GrantRow(0, "user:3", "completed", ("ES", "NQ"), DAY, None, 5, None)
    number = store.add_grant(wanted, 9)
    assert store.grants()[1] == replace(wanted, id=number)
    assert store.revoke_grant(number, 10)
    assert not store.revoke_grant(number, 11)
    assert store.grants() == [first]


def test_whatever_is_granted_or_withdrawn_has_its_line_in_the_log(store: SqlStore) -> None:
    wanted = GrantRow(0, "user:3", "live", ("ES", "NQ"), None, None, 0, None, licence="internal")
    number = store.add_grant(wanted, 9, by="boss@example.com", attested="I have it.")
    assert store.revoke_grant(number, 11, by="command")
    assert not store.revoke_grant(number, 12, by="somebody")
    taken, made = store.grant_events(9)
    revoked = replace(wanted, id=number, revoked_ns=11)
    assert made == GrantEvent(made.id, revoked, 9, "granted", "boss@example.com", "I have it.")
    assert taken == GrantEvent(taken.id, revoked, 11, "withdrawn", "command", "")
    assert store.grant_events(1) == [taken]
    user = store.ensure_user("a@example.com", 1)
    old = store.add_key(user, "free", "outcry_a", b"1", 20)
    assert old is not None
    store.add_grant(replace(wanted, grantee=f"key:{old}"), 21, by="boss@example.com", attested="I have it.")
    new = store.replace_key(user, old, "outcry_b", b"2", 30, 25, most=9)
    carried = store.grant_events(1)[0]
    assert (carried.grant.grantee, carried.at_ns, carried.by, carried.attested) == (
        f"key:{new}", 25, "replaced key", "I have it.",
    )  # fmt: skip


def test_two_processes_see_each_others_writes(store: SqlStore, place: Place) -> None:
    elsewhere = place.open()
    other = SqlStore(elsewhere)
    before = other.revision()
    store.ensure_user("a@example.com", 1)
    assert other.revision() == before + 1
    assert other.find_user("a@example.com") == 1


def test_a_driver_error_leaves_as_our_own(tmp_path: Path) -> None:
    (tmp_path / "outcry.sqlite3").write_bytes(b"this is no database at all, but text " * 100)
    broken = Database(open_engine(sqlite_url(tmp_path)))
    with pytest.raises(StoreBusy, match="not a database"):
        SqlStore(broken).revision()
    broken.close()


def test_a_failed_write_keeps_nothing(store: SqlStore) -> None:
    before = store.revision()
    with pytest.raises(StoreBusy):
        store.commit_import(0, "1", "a", [RECORDING], [replace(SESSION, profile=None)], 7)  # type: ignore[arg-type]
    assert store.revision() == before
    assert store.all_recordings() == []
    assert store.imports_named(0, "a") == frozenset()


def test_the_migrations_make_the_schema_of_the_code(store: SqlStore, place: Place) -> None:
    with place.engine().connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    assert ScriptDirectory.from_config(config).get_current_head() == migration.HEAD


def test_a_database_created_at_once_is_what_the_migrations_make(empty_place: Place) -> None:
    engine = empty_place.engine()
    upgrade(engine, "head")
    migrated = whole_schema(engine)
    everything = MetaData()
    everything.reflect(engine)
    everything.drop_all(engine)
    assert migration.migrate(engine)
    created = whole_schema(engine)
    assert created.keys() == migrated.keys() == {*metadata.tables, "alembic_version"}
    for table in created:
        assert created[table] == migrated[table], table


def whole_schema(engine: Engine) -> dict[str, dict[str, Any]]:
    """Return the definition of each table of a database, in no order, and the rows."""
    found, tables = inspect(engine), MetaData()
    tables.reflect(engine)

    def rows(of: Any) -> list[str]:
        return sorted(str(sorted((name, _plain(value)) for name, value in one.items())) for one in of)

    with engine.connect() as connection:
        return {
            name: {
                "columns": rows(found.get_columns(name)),
                "primary key": found.get_pk_constraint(name),
                "unique": rows(found.get_unique_constraints(name)),
                "foreign keys": rows(found.get_foreign_keys(name)),
                "indexes": rows(found.get_indexes(name)),
                "rows": rows(connection.execute(select(table)).mappings()),
            }
            for name, table in tables.tables.items()
        }


def _plain(value: Any) -> str:
    """Return a value as text; SQLAlchemy's objects have no text of their own inside a mapping."""
    return str({name: str(one) for name, one in value.items()} if isinstance(value, dict) else value)


def test_keys_made_before_there_were_roles_go_on_reading(empty_place: Place) -> None:
    engine = empty_place.engine()
    upgrade(engine, "0001")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO users (email, created_ns) VALUES ('a@example.com', 1)"))
        connection.execute(
            text(
                "INSERT INTO keys (user_id, tier, prefix, digest, created_ns) VALUES (1, 'pro', 'outcry_a', 'd', 1)"
            )
        )
    assert migration.migrate(engine)
    (key,) = SqlStore(Database(engine)).keys()
    assert (key.prefix, key.role) == ("outcry_a", "read")


def test_when_an_alert_of_before_was_recorded_is_not_known(empty_place: Place) -> None:
    engine = empty_place.engine()
    upgrade(engine, "0003")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO alerts (owner, feed, contract, symbol, type, severity, session, trade_date, key, at_ns,"
                " price_e9, ref, params, invented) VALUES (0, 'demo',"
                " 'ESH2026', 'ES', 'ib-break-up', 'critical', 'rth', '2026-01-02', 'k', 1, 2, 'IBH', '{}', 0)"
            )
        )
    assert migration.migrate(engine)
    (alert,) = LiveStore(Database(engine), OutboxEntries()).alerts([0])
    assert (alert.key, alert.recorded_ns) == ("k", None)


def test_recordings_of_before_came_by_a_file_where_only_files_have_their_format(empty_place: Place) -> None:
    engine = empty_place.engine()
    upgrade(engine, "0008")
    with engine.begin() as connection:
        for source in ("lean", "databento"):
            connection.execute(
                text(
                    "INSERT INTO recordings (owner, contract, trade_date, source, quality, path, rows, volume,"
                    " off_tick, out_of_order, first_ns, last_ns, received_ns, spans) VALUES (0, 'ESH2026',"
                    f" '2026-01-02', '{source}', 'ticks', '{source}.dbn', 1, 1, 0, 0, 1, 2, 3, '[[1, 2]]')"
                )
            )
    assert migration.migrate(engine)
    found = SqlStore(Database(engine)).all_recordings()
    assert {row.source: (row.from_feed, row.spans) for row in found} == {
        "lean": (False, ((1, 2),)),
        "databento": (True, ((1, 2),)),
    }


def test_a_row_that_was_damaged_stays_damaged_when_its_checksum_is_computed_anew(empty_place: Place) -> None:
    engine = empty_place.engine()
    upgrade(engine, "0009")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO recordings (owner, contract, trade_date, source, quality, path, rows, volume, off_tick,"
                " out_of_order, first_ns, last_ns, received_ns, spans, digest, checksum) VALUES (0, 'ESH2026',"
                " '2026-01-02', 'lean', 'ticks', 'lean.dbn', 1, 1, 0, 0, 1, 2, 3, '[[1, 2]]', '', :checksum)"
            ),
            {"checksum": b"\1" * 16},
        )
    assert migration.migrate(engine)
    store = SqlStore(Database(engine))
    assert list(store.all_recordings()) == []
    assert store.has_damaged_recordings()


def test_migrating_again_does_nothing_and_a_newer_database_is_refused(empty_place: Place) -> None:
    engine = empty_place.engine()
    assert migration.migrate(engine)
    assert not migration.migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(migration.SchemaTooNew, match="9999"):
        migration.migrate(engine)


def test_of_processes_that_start_at_once_one_migrates(empty_place: Place) -> None:
    engines = [empty_place.engine() for _ in range(10)]
    gate, did = threading.Barrier(10), list[bool]()

    def start(engine: Engine) -> None:
        gate.wait(30)
        did.append(migration.migrate(engine))

    threads = [threading.Thread(target=start, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(did) == [False] * 9 + [True]
    assert {migration.current(engine) for engine in engines} == {migration.HEAD}


def test_a_process_goes_on_with_a_schema_that_was_added_to(store: SqlStore, place: Place) -> None:
    """In a rolling upgrade a running process continues after columns and tables were added."""
    with place.engine().begin() as connection:
        connection.execute(text("ALTER TABLE users ADD COLUMN colour TEXT NOT NULL DEFAULT ''"))
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    user = store.ensure_user("a@example.com", 1)
    assert store.add_key(user, "free", "outcry_a", b"1", 2) is not None
    assert [row.email for row in store.keys(user)] == ["a@example.com"]
