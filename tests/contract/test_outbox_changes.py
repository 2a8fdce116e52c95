"""Changes while alerts are being delivered: lost claims, reserved slots for slow endpoints, a changed URL or filter.

Also expired alerts and a clock that is set back.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.contract.databases import Place
from tests.contract.outbox_harness import BEGIN_NS, LEASE_NS, S, Stage, keys

from outcry.access.licences import Grant, resolve
from outcry.database import schema
from outcry.database.database import Database
from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.outbox_model import GATHER_NS, KEPT_NS, SLOW_MS, Backlog, EntryPhase, Queue
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract
from outcry.sessions.store import SqlStore

HOUR, DAY = 3_600 * S, 86_400 * S
SEES_LIVE = resolve(1, 0, "free", [Grant("everyone", "live", (), None, None)])


@pytest.fixture
def stage(place: Place) -> Stage:
    return Stage(place.open())


def column(database: Database, name: str) -> Sequence[Any]:
    """One column of all entries, oldest first."""
    outbox = schema.outbox.c
    with database.reading() as connection:
        return list(connection.execute(select(outbox[name]).order_by(outbox.id)).scalars())


# -- claims


def test_a_claim_that_was_lost_is_lost_to_the_same_worker_too(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    late = stage.claim_one("w")
    stage.now_ns += LEASE_NS
    now = stage.claim_one("w")
    assert (late.message_id, late.lease != now.lease) == (now.message_id, True)
    assert list(stage.outbox.record([stage.done(late)])) == []
    assert stage.outbox.backlog(1, number) == Backlog(1, 0, 0)
    stage.fire()
    stage.now_ns += 2 * S
    assert list(stage.claim("w")) == []
    stage.finish(now)
    stage.now_ns += GATHER_NS
    assert keys(stage.claim_one("w")) == ["ES:ib-break-up:2"]


def test_what_came_by_no_claim_changes_nothing(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    stage.finish(message, EntryPhase.WAITING)
    stage.outbox.record([stage.done(replace(message, lease=""), EntryPhase.DEAD, disable="gone")])
    assert stage.row(number).phase is SubscriptionPhase.ACTIVE
    assert stage.outbox.backlog(1, number) == Backlog(1, 0, 0)


def test_lanes_that_were_slow_take_a_share_of_the_places_and_no_more(stage: Stage) -> None:
    slow = [stage.subscribe() for _ in range(4)]
    stage.fire()
    done = [
        stage.done(message, queue=replace(message.queue, sent_ns=stage.now_ns, took_ms=SLOW_MS))
        for message in stage.claim()
    ]
    stage.outbox.record(done)
    stage.now_ns += 2 * S
    stage.fire()
    stage.now_ns += S
    quick = [stage.subscribe() for _ in range(3)]
    stage.fire()
    first = [message.subscription.id for message in stage.claim(most=4, most_slow=2)]
    assert first == [*slow[:2], *quick[:2]]
    assert [message.subscription.id for message in stage.claim(most=4, most_slow=0)] == quick[2:]
    assert list(stage.claim(most=4, most_slow=0)) == []
    assert [message.subscription.id for message in stage.claim(most=4, most_slow=4)] == slow[2:]


# -- sending again


def test_sent_again_is_a_new_beginning(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(2)
    message = stage.claim_one()
    stage.finish(message, EntryPhase.DEAD)
    stage.now_ns += 6 * DAY
    stage.outbox.resend_one(1, number, message.message_id, stage.now_ns)
    again = stage.claim_one()
    assert (again.created_ns, again.tries, again.attempts) == (stage.now_ns, 0, 0)
    stage.finish(again, EntryPhase.DEAD)
    stage.now_ns += DAY
    stage.outbox.resend_failed(1, number, 0, stage.now_ns)
    assert stage.claim_one().created_ns == stage.now_ns


def test_a_message_is_wanted_since_the_first_of_its_alerts_was(stage: Stage) -> None:
    stage.subscribe()
    stage.fire()
    stage.now_ns += S
    stage.fire()
    assert stage.claim_one().created_ns == BEGIN_NS


def test_tries_are_as_services_decide_and_attempts_are_counted(stage: Stage) -> None:
    stage.subscribe()
    stage.fire()
    stage.finish(stage.claim_one(), EntryPhase.WAITING, tries=0)
    stage.now_ns += 2 * S
    message = stage.claim_one()
    assert (message.tries, message.attempts) == (0, 1)
    stage.finish(message, EntryPhase.WAITING, tries=7)
    stage.now_ns += 2 * S
    message = stage.claim_one()
    assert (message.tries, message.attempts) == (7, 2)


def test_what_was_forgotten_as_delivered_is_not_missing(stage: Stage) -> None:
    number = stage.subscribe()
    for _ in range(2):
        stage.fire()
        stage.finish(stage.claim_one())
        stage.now_ns += 2 * S
    stage.now_ns += KEPT_NS + HOUR
    stage.outbox.forget_old(stage.now_ns - KEPT_NS)
    assert stage.outbox.resend_missing(SEES_LIVE, number, stage.now_ns - 2 * KEPT_NS, stage.now_ns) == 0


# -- another address, other wishes


def test_with_another_address_the_lane_begins_anew_and_what_waits_is_due(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    queue = Queue(stage.now_ns, BEGIN_NS + DAY, 9, BEGIN_NS, BEGIN_NS, None, 2, 1, BEGIN_NS, SLOW_MS)
    stage.finish(message, EntryPhase.WAITING, wait_ns=DAY, queue=queue, tries=6)
    stage.now_ns += S
    stage.change(number, label="Büro")
    assert list(stage.claim()) == []
    stage.change(number, sealed_address=b"another")
    assert stage.outbox.queue(number) == Queue()
    again = stage.claim_one()
    assert (again.message_id, again.tries, again.attempts) == (message.message_id, 0, 1)


@pytest.mark.parametrize("phase", [EntryPhase.WAITING, EntryPhase.HELD, EntryPhase.DEAD])
def test_what_did_not_arrive_at_an_old_address_waits_for_the_new_one(stage: Stage, phase: EntryPhase) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    stage.change(number, sealed_address=b"another")
    failing = replace(message.queue, failures=9, closed_until_ns=BEGIN_NS + DAY, failing_since_ns=BEGIN_NS)
    reason = "gone" if phase is EntryPhase.HELD else ""
    done = stage.done(message, phase, wait_ns=DAY, queue=failing, disable=reason)
    assert list(stage.outbox.record([done])) == []
    assert stage.row(number).phase is SubscriptionPhase.ACTIVE
    assert stage.outbox.queue(number) == Queue()
    assert (stage.outbox.backlog(1, number), len(stage.attempts(number))) == (Backlog(1, 0, 0), 1)
    again = stage.claim_one()
    assert (again.message_id, again.tries) == (message.message_id, 0)


def test_what_arrived_at_an_old_address_has_arrived(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    stage.change(number, sealed_address=b"another")
    stage.finish(message)
    assert stage.outbox.backlog(1, number) == Backlog(0, 0, 0)
    stage.fire()
    assert keys(stage.claim_one()) == ["ES:ib-break-up:2"]


def test_who_records_is_told_which_were_switched_off_by_it(stage: Stage) -> None:
    gone, moved, asked, well = (stage.subscribe() for _ in range(4))
    stage.fire()
    messages = {message.subscription.id: message for message in stage.claim()}
    stage.change(moved, sealed_address=b"another")
    stage.change(asked, phase=SubscriptionPhase.UNCONFIRMED)
    done = [stage.done(messages[number], EntryPhase.HELD, disable="gone") for number in (gone, moved, asked)]
    off = stage.outbox.record([*done, stage.done(messages[well])])
    assert [one.message.subscription.id for one in off] == [gone]
    waiting, held = Backlog(1, 0, 0), Backlog(0, 1, 0)
    assert [stage.outbox.backlog(1, number) for number in (gone, moved, asked)] == [held, waiting, waiting]


def test_what_is_switched_off_already_holds_what_comes_back(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    stage.change(number, phase=SubscriptionPhase.DISABLED, reason="gone")
    assert list(stage.outbox.record([stage.done(message, EntryPhase.HELD, disable="failing")])) == []
    assert (stage.row(number).reason, stage.outbox.backlog(1, number)) == ("gone", Backlog(0, 1, 0))


@pytest.mark.parametrize("wish", [{"window": "quarter"}, {"at_once": False}])
def test_what_waits_for_its_window_is_looked_at_again_when_wishes_change(
    stage: Stage, wish: dict[str, object]
) -> None:
    number = stage.subscribe(target=Target.EMAIL, window="day", at_once=True)
    stage.fire(2)
    message = stage.claim_one()
    stage.outbox.return_entries(message, message.entries, BEGIN_NS + DAY)
    stage.now_ns += 2 * S
    stage.change(number, label="Büro")
    assert list(stage.claim()) == []
    stage.change(number, **wish)
    assert stage.claim_one().entries == message.entries


def test_other_wishes_hurry_no_mail_that_is_tried_again(stage: Stage) -> None:
    number = stage.subscribe(target=Target.EMAIL, window="day", at_once=True)
    stage.fire()
    stage.finish(stage.claim_one(), EntryPhase.WAITING, wait_ns=HOUR)
    stage.now_ns += 2 * S
    stage.change(number, window="quarter")
    assert list(stage.claim()) == []


# -- forgetting


def forget_stream(stage: Stage) -> None:
    stage.live.forget_alerts(StreamKey(0, "demo", Contract("ES", 2026, 3)))


def forget_source(stage: Stage) -> None:
    SqlStore(stage.database).forget_source("demo", stage.live.forget_feed)


@pytest.mark.parametrize("forget", [forget_stream, forget_source])
def test_alerts_that_are_forgotten_are_sent_to_nobody_and_numbers_go_on(
    stage: Stage, forget: Callable[[Stage], None]
) -> None:
    number, off = stage.subscribe(), stage.subscribe(phase=SubscriptionPhase.DISABLED)
    phases = (EntryPhase.DELIVERED, EntryPhase.MISSED, EntryPhase.DEAD, EntryPhase.WAITING)
    for phase in phases:
        stage.fire()
        last = stage.claim_one()
        stage.finish(last, phase)
        stage.now_ns += 2 * S
    stage.fire()
    forget(stage)
    # five for each of the two; the second held all of its
    assert column(stage.database, "alert_seq") == [None] * 10
    mine = [phase for phase in column(stage.database, "phase") if phase != "dead"]
    assert sorted(mine) == ["delivered", "missed"]
    stage.change(off, phase=SubscriptionPhase.ACTIVE)
    stage.now_ns += DAY
    for each in (number, off):
        assert stage.outbox.resend_failed(1, each, 0, stage.now_ns) == 0
        assert stage.outbox.backlog(1, each) == Backlog(0, 0, 0)
    assert stage.outbox.resend_one(1, number, last.message_id, stage.now_ns) == 0
    assert list(stage.claim()) == []
    stage.fire()
    assert [[entry.number for entry in message.entries] for message in stage.claim()] == [[6], [6]]


def test_what_is_forgotten_while_it_is_under_way_stays_so(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    forget_stream(stage)
    stage.finish(message, EntryPhase.WAITING)
    stage.now_ns += DAY
    assert list(stage.claim()) == []
    assert (column(stage.database, "phase"), len(stage.attempts(number))) == (["dead"], 1)


# -- a clock that is set back


def test_a_clock_that_is_set_back_makes_no_message_wait(stage: Stage) -> None:
    stage.subscribe()
    stage.fire()
    stage.finish(stage.claim_one())
    stage.now_ns -= HOUR
    stage.fire()
    again = stage.claim_one()
    assert keys(again) == ["ES:ib-break-up:2"]
    stage.finish(again)
    stage.fire()
    assert list(stage.claim()) == []
    stage.now_ns += GATHER_NS
    assert keys(stage.claim_one()) == ["ES:ib-break-up:3"]
