"""Changes while alerts are being delivered: lost claims, reserved slots for slow endpoints, a changed URL or filter.

Also expired alerts and a clock that is set back.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.contract.databases import Place
from tests.contract.outbox_harness import BEGIN_NS, LEASE_NS, Harness, S, keys

from outcry.access.licences import Grant, resolve
from outcry.database import schema
from outcry.database.database import Database
from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.outbox_model import GATHER_NS, RETENTION_NS, SLOW_MS, Backlog, EntryPhase, Queue
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract
from outcry.sessions.store import SqlStore

HOUR, DAY = 3_600 * S, 86_400 * S
SEES_LIVE = resolve(1, 0, "free", [Grant("everyone", "live", (), None, None)])


@pytest.fixture
def harness(place: Place) -> Harness:
    return Harness(place.open())


def column(database: Database, name: str) -> Sequence[Any]:
    """Return one column of all entries, oldest first."""
    outbox = schema.outbox.c
    with database.reading() as connection:
        return list(connection.execute(select(outbox[name]).order_by(outbox.id)).scalars())


# -- claims


def test_a_claim_that_was_lost_is_lost_to_the_same_worker_too(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    late = harness.claim_one("w")
    harness.now_ns += LEASE_NS
    now = harness.claim_one("w")
    assert (late.message_id, late.lease != now.lease) == (now.message_id, True)
    assert list(harness.outbox.record([harness.done(late)])) == []
    assert harness.outbox.backlog(1, number) == Backlog(1, 0, 0)
    harness.fire()
    harness.now_ns += 2 * S
    assert list(harness.claim("w")) == []
    harness.finish(now)
    harness.now_ns += GATHER_NS
    assert keys(harness.claim_one("w")) == ["ES:ib-break-up:2"]


def test_what_came_by_no_claim_changes_nothing(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    harness.finish(message, EntryPhase.WAITING)
    harness.outbox.record([harness.done(replace(message, lease=""), EntryPhase.DEAD, disable="gone")])
    assert harness.row(number).phase is SubscriptionPhase.ACTIVE
    assert harness.outbox.backlog(1, number) == Backlog(1, 0, 0)


def test_lanes_that_were_slow_take_a_share_of_the_places_and_no_more(harness: Harness) -> None:
    slow = [harness.subscribe() for _ in range(4)]
    harness.fire()
    done = [
        harness.done(message, queue=replace(message.queue, sent_ns=harness.now_ns, took_ms=SLOW_MS))
        for message in harness.claim()
    ]
    harness.outbox.record(done)
    harness.now_ns += 2 * S
    harness.fire()
    harness.now_ns += S
    quick = [harness.subscribe() for _ in range(3)]
    harness.fire()
    first = [message.subscription.id for message in harness.claim(most=4, most_slow=2)]
    assert first == [*slow[:2], *quick[:2]]
    assert [message.subscription.id for message in harness.claim(most=4, most_slow=0)] == quick[2:]
    assert list(harness.claim(most=4, most_slow=0)) == []
    assert [message.subscription.id for message in harness.claim(most=4, most_slow=4)] == slow[2:]


# -- sending again


def test_sent_again_is_a_new_beginning(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(2)
    message = harness.claim_one()
    harness.finish(message, EntryPhase.DEAD)
    harness.now_ns += 6 * DAY
    harness.outbox.resend_one(1, number, message.message_id, harness.now_ns)
    again = harness.claim_one()
    assert (again.created_ns, again.tries, again.attempts) == (harness.now_ns, 0, 0)
    harness.finish(again, EntryPhase.DEAD)
    harness.now_ns += DAY
    harness.outbox.resend_failed(1, number, 0, harness.now_ns)
    assert harness.claim_one().created_ns == harness.now_ns


def test_a_message_is_wanted_since_the_first_of_its_alerts_was(harness: Harness) -> None:
    harness.subscribe()
    harness.fire()
    harness.now_ns += S
    harness.fire()
    assert harness.claim_one().created_ns == BEGIN_NS


def test_tries_are_as_services_decide_and_attempts_are_counted(harness: Harness) -> None:
    harness.subscribe()
    harness.fire()
    harness.finish(harness.claim_one(), EntryPhase.WAITING, tries=0)
    harness.now_ns += 2 * S
    message = harness.claim_one()
    assert (message.tries, message.attempts) == (0, 1)
    harness.finish(message, EntryPhase.WAITING, tries=7)
    harness.now_ns += 2 * S
    message = harness.claim_one()
    assert (message.tries, message.attempts) == (7, 2)


def test_what_was_forgotten_as_delivered_is_not_missing(harness: Harness) -> None:
    number = harness.subscribe()
    for _ in range(2):
        harness.fire()
        harness.finish(harness.claim_one())
        harness.now_ns += 2 * S
    harness.now_ns += RETENTION_NS + HOUR
    harness.outbox.forget_old(harness.now_ns - RETENTION_NS)
    since_ns = harness.now_ns - 2 * RETENTION_NS
    assert harness.outbox.resend_missing(SEES_LIVE, number, since_ns, harness.now_ns) == 0


# -- changed URL and filter


def test_with_another_address_the_lane_begins_anew_and_what_waits_is_due(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    queue = Queue(harness.now_ns, BEGIN_NS + DAY, 9, BEGIN_NS, BEGIN_NS, None, 2, 1, BEGIN_NS, SLOW_MS)
    harness.finish(message, EntryPhase.WAITING, wait_ns=DAY, queue=queue, tries=6)
    harness.now_ns += S
    harness.change(number, label="Büro")
    assert list(harness.claim()) == []
    harness.change(number, sealed_address=b"another")
    assert harness.outbox.queue(number) == Queue()
    again = harness.claim_one()
    assert (again.message_id, again.tries, again.attempts) == (message.message_id, 0, 1)


@pytest.mark.parametrize("phase", [EntryPhase.WAITING, EntryPhase.HELD, EntryPhase.DEAD])
def test_what_did_not_arrive_at_an_old_address_waits_for_the_new_one(
    harness: Harness, phase: EntryPhase
) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    harness.change(number, sealed_address=b"another")
    failing = replace(message.queue, failures=9, closed_until_ns=BEGIN_NS + DAY, failing_since_ns=BEGIN_NS)
    reason = "gone" if phase is EntryPhase.HELD else ""
    done = harness.done(message, phase, wait_ns=DAY, queue=failing, disable=reason)
    assert list(harness.outbox.record([done])) == []
    assert harness.row(number).phase is SubscriptionPhase.ACTIVE
    assert harness.outbox.queue(number) == Queue()
    assert (harness.outbox.backlog(1, number), len(harness.attempts(number))) == (Backlog(1, 0, 0), 1)
    again = harness.claim_one()
    assert (again.message_id, again.tries) == (message.message_id, 0)


def test_what_arrived_at_an_old_address_has_arrived(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    harness.change(number, sealed_address=b"another")
    harness.finish(message)
    assert harness.outbox.backlog(1, number) == Backlog(0, 0, 0)
    harness.fire()
    assert keys(harness.claim_one()) == ["ES:ib-break-up:2"]


def test_who_records_is_told_which_were_switched_off_by_it(harness: Harness) -> None:
    gone, moved, asked, well = (harness.subscribe() for _ in range(4))
    harness.fire()
    messages = {message.subscription.id: message for message in harness.claim()}
    harness.change(moved, sealed_address=b"another")
    harness.change(asked, phase=SubscriptionPhase.UNCONFIRMED)
    done = [
        harness.done(messages[number], EntryPhase.HELD, disable="gone") for number in (gone, moved, asked)
    ]
    off = harness.outbox.record([*done, harness.done(messages[well])])
    assert [one.message.subscription.id for one in off] == [gone]
    waiting, held_backlog = Backlog(1, 0, 0), Backlog(0, 1, 0)
    assert [harness.outbox.backlog(1, number) for number in (gone, moved, asked)] == [
        held_backlog,
        waiting,
        waiting,
    ]


def test_what_is_switched_off_already_holds_what_comes_back(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    harness.change(number, phase=SubscriptionPhase.DISABLED, reason="gone")
    assert list(harness.outbox.record([harness.done(message, EntryPhase.HELD, disable="failing")])) == []
    assert (harness.row(number).reason, harness.outbox.backlog(1, number)) == ("gone", Backlog(0, 1, 0))


@pytest.mark.parametrize("wish", [{"window": "quarter"}, {"at_once": False}])
def test_what_waits_for_its_window_is_looked_at_again_when_wishes_change(
    harness: Harness, wish: dict[str, object]
) -> None:
    number = harness.subscribe(target=Target.EMAIL, window="day", at_once=True)
    harness.fire(2)
    message = harness.claim_one()
    harness.outbox.return_entries(message, message.entries, BEGIN_NS + DAY)
    harness.now_ns += 2 * S
    harness.change(number, label="Büro")
    assert list(harness.claim()) == []
    harness.change(number, **wish)
    assert harness.claim_one().entries == message.entries


def test_other_wishes_hurry_no_mail_that_is_tried_again(harness: Harness) -> None:
    number = harness.subscribe(target=Target.EMAIL, window="day", at_once=True)
    harness.fire()
    harness.finish(harness.claim_one(), EntryPhase.WAITING, wait_ns=HOUR)
    harness.now_ns += 2 * S
    harness.change(number, window="quarter")
    assert list(harness.claim()) == []


# -- deleting old entries


def forget_stream(harness: Harness) -> None:
    harness.live.forget_alerts(StreamKey(0, "demo", Contract("ES", 2026, 3)))


def forget_source(harness: Harness) -> None:
    SqlStore(harness.database).forget_source("demo", harness.live.forget_feed)


@pytest.mark.parametrize("forget", [forget_stream, forget_source])
def test_alerts_that_are_forgotten_are_sent_to_nobody_and_numbers_go_on(
    harness: Harness, forget: Callable[[Harness], None]
) -> None:
    number, off = harness.subscribe(), harness.subscribe(phase=SubscriptionPhase.DISABLED)
    phases = (EntryPhase.DELIVERED, EntryPhase.MISSED, EntryPhase.DEAD, EntryPhase.WAITING)
    for phase in phases:
        harness.fire()
        last = harness.claim_one()
        harness.finish(last, phase)
        harness.now_ns += 2 * S
    harness.fire()
    forget(harness)
    # five for each of the two; the second used all of its slots
    assert column(harness.database, "alert_seq") == [None] * 10
    mine = [phase for phase in column(harness.database, "phase") if phase != "dead"]
    assert sorted(mine) == ["delivered", "missed"]
    harness.change(off, phase=SubscriptionPhase.ACTIVE)
    harness.now_ns += DAY
    for each in (number, off):
        assert harness.outbox.resend_failed(1, each, 0, harness.now_ns) == 0
        assert harness.outbox.backlog(1, each) == Backlog(0, 0, 0)
    assert harness.outbox.resend_one(1, number, last.message_id, harness.now_ns) == 0
    assert list(harness.claim()) == []
    harness.fire()
    assert [[entry.number for entry in message.entries] for message in harness.claim()] == [[6], [6]]


def test_what_is_forgotten_while_it_is_under_way_stays_so(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    forget_stream(harness)
    harness.finish(message, EntryPhase.WAITING)
    harness.now_ns += DAY
    assert list(harness.claim()) == []
    assert (column(harness.database, "phase"), len(harness.attempts(number))) == (["dead"], 1)


# -- a clock that is set back


def test_a_clock_that_is_set_back_makes_no_message_wait(harness: Harness) -> None:
    harness.subscribe()
    harness.fire()
    harness.finish(harness.claim_one())
    harness.now_ns -= HOUR
    harness.fire()
    again = harness.claim_one()
    assert keys(again) == ["ES:ib-break-up:2"]
    harness.finish(again)
    harness.fire()
    assert list(harness.claim()) == []
    harness.now_ns += GATHER_NS
    assert keys(harness.claim_one()) == ["ES:ib-break-up:3"]
