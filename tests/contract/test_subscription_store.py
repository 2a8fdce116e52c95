"""Contract of subscription stores: rows belong to one user, and removing one removes its attempts."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from tests.contract.databases import Place

from outcry.delivery.model import AttemptRow, Change, SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.subscription_store import SqlSubscriptionStore, write_attempts
from outcry.people.store import SqlIdentityStore

NOW = 1_767_366_245_123_456_789
ANN, BOB = 1, 2
SLACK = SubscriptionRow(
    id=0, user_id=ANN, target=Target.SLACK, label="Büro", sealed_address=b"\x01sealed\x00", shown="slack.com …abcd",
    symbols=("ES", "NQ"), min_severity="warn", phase=SubscriptionPhase.ACTIVE, reason="", sealed_secret=None,
    secret_last4="", sealed_old_secret=None, old_until_ns=None, created_ns=NOW,
)  # fmt: skip
HTTPS = replace(
    SLACK, target=Target.HTTPS, symbols=(), min_severity="info", phase=SubscriptionPhase.DISABLED, reason="gone",
    sealed_secret=b"secret", secret_last4="wxyz", sealed_old_secret=b"old", old_until_ns=NOW + 5,
    ordered=True, window="day", at_once=False,
)  # fmt: skip
ATTEMPT = AttemptRow(
    id=0, subscription_id=0, at_ns=NOW, alert_key="ES:ib-break-up:1", alert_type="ib-break-up", symbol="ES",
    outcome="delivered", code="ok", status=204, took_ms=31, excerpt="<b>é", next_ns=None,
    message_id="msg_1", alerts=3, number=2, phases_ms=(("dns", 3), ("connect", 12)), shown="slack.com/…abcd",
)  # fmt: skip


@dataclass
class Stores:
    """A store of subscriptions as opened by two processes.

    It includes how attempts are recorded, and the revision that changes with them.
    """

    store: SqlSubscriptionStore
    elsewhere: SqlSubscriptionStore
    attempt: Callable[[AttemptRow], None]
    revision: Callable[[], int]


@pytest.fixture
def stores(place: Place) -> Stores:
    database = place.open()
    people = SqlIdentityStore(database)
    for email in ("ann@example.com", "bob@example.com"):
        people.add_user(email, "member", "free", email.encode(), NOW)

    def attempt(row: AttemptRow) -> None:
        with database.write("nothing") as connection:
            write_attempts(connection, [row])

    there = SqlSubscriptionStore(place.open())
    return Stores(SqlSubscriptionStore(database), there, attempt, people.revision)


@pytest.fixture
def store(stores: Stores) -> SqlSubscriptionStore:
    return stores.store


def added(store: SqlSubscriptionStore, row: SubscriptionRow) -> int:
    number = store.add_subscription(row, most=99)
    assert number is not None
    return number


def test_a_subscription_is_read_back_whole(store: SqlSubscriptionStore) -> None:
    slack, https = added(store, SLACK), added(store, HTTPS)
    assert list(store.subscriptions(ANN)) == [replace(SLACK, id=slack), replace(HTTPS, id=https)]
    read = store.subscription(ANN, https)
    assert read == replace(HTTPS, id=https)
    assert isinstance(read.target, Target)
    assert isinstance(read.phase, SubscriptionPhase)


def test_nobody_has_more_than_may_be_had_however_many_are_added_at_once(stores: Stores) -> None:
    added(stores.store, replace(SLACK, user_id=BOB))
    gate, numbers = threading.Barrier(12), list[int | None]()

    def add(store: SqlSubscriptionStore) -> None:
        gate.wait(10)
        numbers.append(store.add_subscription(SLACK, most=5))

    threads = [
        threading.Thread(target=add, args=(store,))
        for store in (stores.store, stores.elsewhere)
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(stores.store.subscriptions(ANN)) == 5
    assert (len(numbers), numbers.count(None)) == (12, 7)
    assert stores.store.add_subscription(replace(SLACK, user_id=BOB), most=1) is None
    assert stores.store.add_subscription(replace(SLACK, user_id=BOB), most=2) is not None


def test_nobody_but_its_owner_reads_changes_or_removes_it(stores: Stores) -> None:
    store = stores.store
    number = added(store, SLACK)
    stores.attempt(replace(ATTEMPT, subscription_id=number))
    assert list(store.subscriptions(BOB)) == []
    assert store.subscription(BOB, number) is None
    assert list(store.attempts(BOB, number, None, 9)) == []
    assert store.change_subscription(BOB, number, lambda row: replace(row, label="mine now")) is None
    assert store.remove_subscription(BOB, number) is False
    assert store.subscription(ANN, number) == replace(SLACK, id=number)
    assert len(store.attempts(ANN, number, None, 9)) == 1


def test_a_change_replaces_what_was_kept(store: SqlSubscriptionStore) -> None:
    number, other = added(store, SLACK), added(store, SLACK)
    changed = replace(HTTPS, id=number, label="anders")
    assert store.change_subscription(ANN, number, lambda _: changed) == changed
    assert list(store.subscriptions(ANN)) == [changed, replace(SLACK, id=other)]
    assert store.change_subscription(ANN, 99, lambda _: changed) is None


def test_a_change_that_is_given_up_leaves_all_as_it_was(store: SqlSubscriptionStore) -> None:
    number = added(store, SLACK)

    def refuse(_row: SubscriptionRow) -> SubscriptionRow:
        raise LookupError

    with pytest.raises(LookupError):
        store.change_subscription(ANN, number, refuse)
    assert store.subscription(ANN, number) == replace(SLACK, id=number)


def test_of_changes_at_once_each_is_made_of_what_the_one_before_left(stores: Stores) -> None:
    """One process rotates secrets while another edits the subscription: each change builds on the one before."""
    number, rounds = added(stores.store, HTTPS), 25
    gate, old = threading.Barrier(2), list[bytes | None]()

    def rotate(row: SubscriptionRow) -> SubscriptionRow:
        old.append(row.sealed_secret)
        return replace(row, sealed_secret=b"secret %d" % len(old), sealed_old_secret=row.sealed_secret)

    def run(store: SqlSubscriptionStore, change: Change) -> None:
        gate.wait(10)
        for _ in range(rounds):
            store.change_subscription(ANN, number, change)

    def edit(row: SubscriptionRow) -> SubscriptionRow:
        return replace(row, label=f"{row.label}.", symbols=(*row.symbols, "ES"))

    threads = [
        threading.Thread(target=run, args=args) for args in ((stores.store, rotate), (stores.elsewhere, edit))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    row = stores.store.subscription(ANN, number)
    assert row is not None
    assert (row.label, len(row.symbols)) == (HTTPS.label + "." * rounds, rounds)
    assert old == [b"secret", *(b"secret %d" % n for n in range(1, rounds))]
    assert row.sealed_secret == b"secret %d" % rounds


def test_attempts_are_read_newest_first_by_page(stores: Stores) -> None:
    store = stores.store
    number, other = added(store, SLACK), added(store, SLACK)
    failed = replace(ATTEMPT, outcome="failed", code="timeout", status=None, took_ms=None, next_ns=NOW + 9)
    for n in range(4):
        stores.attempt(replace(failed, subscription_id=number, at_ns=NOW + n))
    stores.attempt(replace(ATTEMPT, subscription_id=other))
    page = store.attempts(ANN, number, None, 3)
    assert [row.at_ns - NOW for row in page] == [3, 2, 1]
    assert page[0] == replace(failed, id=page[0].id, subscription_id=number, at_ns=NOW + 3)
    assert [row.at_ns - NOW for row in store.attempts(ANN, number, page[-1].id, 3)] == [0]
    assert list(store.attempts(ANN, number, None, 9, outcome="delivered")) == []
    assert len(store.attempts(ANN, number, None, 9, outcome="failed")) == 4
    (only,) = store.attempts(ANN, other, None, 3)
    assert only == replace(ATTEMPT, id=only.id, subscription_id=other)


def test_a_subscription_that_is_removed_takes_its_attempts_along_and_its_number_is_not_used_again(
    stores: Stores,
) -> None:
    store = stores.store
    number = added(store, SLACK)
    stores.attempt(replace(ATTEMPT, subscription_id=number))
    assert store.remove_subscription(ANN, number) is True
    assert store.remove_subscription(ANN, number) is False
    assert list(store.subscriptions(ANN)) == []
    again = added(store, SLACK)
    assert again > number
    assert list(store.attempts(ANN, again, None, 9)) == []


def test_every_change_is_heard_of_and_no_reading_is(stores: Stores) -> None:
    store, seen = stores.store, [stores.revision()]
    number = added(store, SLACK)
    seen.append(stores.revision())
    store.change_subscription(ANN, number, lambda row: replace(row, label="anders"))
    seen.append(stores.revision())
    store.subscriptions(ANN)
    store.attempts(ANN, number, None, 9)
    assert stores.revision() == seen[-1]
    store.remove_subscription(ANN, number)
    seen.append(stores.revision())
    assert seen == sorted(set(seen))
