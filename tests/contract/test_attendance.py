"""Leases of live workers in PostgreSQL: the leases of an ended worker are released soon."""

from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest
from sqlalchemy import text
from support.engines.postgres import Postgres
from tests.contract.databases import Place, Places
from tests.contract.outbox_harness import LEASE_NS, Harness, S

from outcry.database.errors import StoreBusy
from outcry.delivery.model import SubscriptionPhase
from outcry.delivery.outbox import SqlOutbox


@pytest.fixture
def place(places: Places, tmp_path: Path) -> Iterator[Place]:
    with places.place("postgresql", tmp_path) as made:
        yield made


@pytest.fixture
def harness(place: Place) -> Iterator[Harness]:
    """Create two subscriptions and an alert for both; the worker `other` is connected and has claimed one."""
    made = Harness(place.open())
    made.subscribe()
    made.subscribe()
    made.fire()
    yield made
    made.outbox.leave()


@pytest.fixture
def other(harness: Harness, place: Place) -> Iterator[SqlOutbox]:
    outbox = SqlOutbox(place.open())
    outbox.report_presence("other", harness.now_ns)
    assert len(outbox.claim("other", harness.now_ns, LEASE_NS, 1, 1)) == 1
    yield outbox
    outbox.leave()


def looks(harness: Harness, seconds: int, each_s: int = 2) -> int:
    """Return the queues released by a worker that checks every two seconds."""
    freed = 0
    for _ in range(0, seconds, each_s):
        harness.now_ns += each_s * S
        freed += harness.outbox.report_presence("w", harness.now_ns)
    return freed


@pytest.mark.usefixtures("other")
def test_who_is_there_keeps_its_lanes_for_as_long_as_its_lease_lasts(harness: Harness) -> None:
    """After 50 s of the minute the lease is valid; after its end any worker may claim the queue."""
    assert looks(harness, 50) == 0
    assert len(harness.claim()) == 1
    harness.now_ns += 11 * S
    assert looks(harness, 2) == 0
    assert len(harness.claim("x")) == 1


@pytest.mark.parametrize("how", ["it says so", "its connection breaks"])
def test_what_a_worker_held_that_ended_goes_on_after_ten_seconds_under_the_same_id(
    harness: Harness, other: SqlOutbox, how: str
) -> None:
    """The queue of a worker that is missing at the check at 2 s is released at 12 s, not at 10."""
    with harness.database.reading() as connection:
        leased_id = connection.execute(
            text("SELECT message_id FROM outbox WHERE message_id IS NOT NULL")
        ).scalar_one()
    if how == "it says so":
        other.leave()
        with (
            harness.database.reading() as connection
        ):  # the server notices some time after the connection was closed
            while connection.execute(text("SELECT count(*) FROM pg_locks WHERE objsubid = 2")).scalar_one():
                sleep(0.01)
    else:
        # The server ends a backend some time after the request; until then the worker is still connected.
        ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2"
        with harness.database.write("nothing") as connection:
            assert connection.execute(text(ended)).scalars().all() == [True]
    assert looks(harness, 10) == 0
    assert looks(harness, 2) == 1
    messages = harness.claim()
    assert leased_id in {message.message_id for message in messages}
    assert len(messages) == 2


def test_who_comes_back_within_ten_seconds_has_lost_nothing(
    harness: Harness, other: SqlOutbox, postgres: Postgres
) -> None:
    """The server restarts, which ends every connection; both workers check again soon after."""
    assert looks(harness, 4) == 0
    postgres.restart()
    for outbox in (harness.outbox, other):
        with pytest.raises(StoreBusy):
            outbox.report_presence("w", harness.now_ns)
    assert looks(harness, 6) == 0
    assert other.report_presence("other", harness.now_ns) == 0
    assert looks(harness, 20) == 0


def test_what_an_owner_changes_is_so_at_every_worker_with_its_next_claim(
    harness: Harness, place: Place
) -> None:
    """A process pauses one subscription and changes the URL of another; another process claims.

    It claims again once the first subscription is resumed.
    """
    paused, moved = harness.subscriptions.subscriptions(1)[:2]
    elsewhere = SqlOutbox(place.open())
    harness.change(paused.id, phase=SubscriptionPhase.PAUSED)
    harness.change(moved.id, sealed_address=b"\x01elsewhere")
    (message,) = elsewhere.claim("other", harness.now_ns, LEASE_NS, 9, 9)
    assert (message.subscription.id, message.subscription.sealed_address) == (moved.id, b"\x01elsewhere")
    harness.change(paused.id, phase=SubscriptionPhase.ACTIVE)
    (message,) = elsewhere.claim("other", harness.now_ns, LEASE_NS, 9, 9)
    assert message.subscription.id == paused.id
