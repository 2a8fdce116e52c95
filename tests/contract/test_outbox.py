"""Contract of outboxes: one message at a time per queue, the same entries at every try, stored results.

No queue delays another.
"""

import threading
from dataclasses import replace

import pytest
from tests.contract.databases import Place
from tests.contract.outbox_harness import BEGIN_NS, HOOK, LEASE_NS, S, Stage, keys

from outcry.access.licences import Grant, resolve
from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import (
    GATHER_NS,
    MOST_ALERTS,
    Backlog,
    EntryPhase,
    Message,
    Queue,
    Reader,
)
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract

DAY = 86_400 * S
SEES_LIVE = resolve(1, 0, "free", [Grant("everyone", "live", (), None, None)])


@pytest.fixture
def stage(place: Place) -> Stage:
    return Stage(place.open())


# -- claiming


def test_a_parcel_has_all_that_sending_needs(stage: Stage) -> None:
    number = stage.subscribe(ordered=True)
    alerts = stage.fire(2)
    message = stage.claim_one()
    assert message == Message(
        message_id=message.message_id,
        subscription=replace(HOOK, id=number, ordered=True),
        reader=Reader("ann@example.com", "", "America/New_York", 17),
        queue=Queue(),
        entries=message.entries,
        missed=0,
        tries=0,
        created_ns=BEGIN_NS,
        lease=message.lease,
    )
    assert message.message_id.startswith("msg_")
    assert [(entry.number, entry.alert) for entry in message.entries] == [(1, alerts[0]), (2, alerts[1])]
    assert list(stage.claim()) == []


def test_alerts_are_numbered_by_symbol_for_each_subscription(stage: Stage) -> None:
    first = stage.subscribe()
    stage.fire(2)
    stage.subscribe()
    stage.fire(1, symbol="NQ")
    stage.fire(1)
    by_lane = {message.subscription.id: message for message in stage.claim()}
    numbers = {
        queue: [(entry.alert.symbol, entry.number) for entry in message.entries]
        for queue, message in by_lane.items()
    }
    assert numbers == {
        first: [("ES", 1), ("ES", 2), ("NQ", 1), ("ES", 3)],
        first + 1: [("NQ", 1), ("ES", 1)],
    }


def test_what_fires_within_a_second_of_a_message_goes_in_the_next(stage: Stage) -> None:
    stage.subscribe(target=Target.SLACK)
    stage.fire()
    stage.finish(stage.claim_one())
    stage.now_ns += GATHER_NS // 4
    stage.fire(25)
    assert list(stage.claim()) == []
    stage.now_ns = BEGIN_NS + GATHER_NS - 1
    stage.fire()
    assert list(stage.claim()) == []
    stage.now_ns += 1
    assert len(stage.claim_one().entries) == 26


def test_a_full_message_of_an_endpoint_does_not_wait(stage: Stage) -> None:
    stage.subscribe()
    most = MOST_ALERTS[Target.HTTPS]
    stage.fire(most + 1)
    stage.finish(stage.claim_one())
    stage.now_ns += 1
    assert list(stage.claim()) == []
    stage.fire(most - 1)
    full = stage.claim_one()
    assert len(full.entries) == most
    stage.fire(most)
    stage.finish(full)
    assert len(stage.claim_one().entries) == most


@pytest.mark.parametrize("target", Target)
def test_a_message_carries_no_more_than_it_may_and_the_oldest_first(stage: Stage, target: Target) -> None:
    stage.subscribe(target=target)
    most = MOST_ALERTS[target]
    fired = [alert.key for alert in stage.fire(most + 3)]
    first = stage.claim_one()
    assert keys(first) == fired[:most]
    stage.finish(first)
    stage.now_ns += GATHER_NS
    assert keys(stage.claim_one()) == fired[most:]


def test_no_more_lanes_are_claimed_than_asked_for_those_first_that_waited_longest(stage: Stage) -> None:
    late, soon = stage.subscribe(symbols=("NQ",)), stage.subscribe(symbols=("ES",))
    stage.fire(symbol="ES")
    stage.now_ns += 1
    stage.fire(symbol="NQ")
    assert [message.subscription.id for message in stage.claim(most=1)] == [soon]
    assert [message.subscription.id for message in stage.claim(most=1)] == [late]
    assert list(stage.claim(most=1)) == []


def test_lanes_looked_at_in_vain_take_no_places(stage: Stage) -> None:
    """Ordered ones whose oldest message is to be tried again later, and others behind them."""
    for _ in range(3):
        stage.subscribe(ordered=True, symbols=("ES",))
    stage.fire()
    stage.outbox.record([stage.done(p, EntryPhase.WAITING, 100 * S) for p in stage.claim()])
    stage.now_ns += 2 * S
    stage.subscribe()
    stage.fire()
    assert len(stage.claim(most=1)) == 1


def test_a_message_that_failed_is_tried_again_the_same_when_it_is_time(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(2)
    first = stage.claim_one()
    stage.finish(first, EntryPhase.WAITING, wait_ns=5 * S)
    stage.now_ns += 5 * S - 1
    assert list(stage.claim()) == []
    stage.now_ns += 1
    stage.fire()
    again = stage.claim_one()
    assert (again.message_id, again.entries, again.tries) == (first.message_id, first.entries, 1)
    stage.finish(again)
    stage.now_ns += GATHER_NS
    assert keys(stage.claim_one()) == ["ES:ib-break-up:3"]
    assert [(row.number, row.outcome) for row in stage.attempts(number)] == [(1, "pending"), (2, "delivered")]


def test_what_fires_meanwhile_overtakes_a_message_that_failed(stage: Stage) -> None:
    stage.subscribe()
    stage.fire()
    failed = stage.claim_one()
    stage.finish(failed, EntryPhase.WAITING, wait_ns=60 * S)
    stage.now_ns += 2 * S
    stage.fire()
    stage.finish(stage.claim_one())
    stage.now_ns = BEGIN_NS + 60 * S
    assert stage.claim_one().message_id == failed.message_id


def test_nothing_overtakes_a_message_where_order_counts(stage: Stage) -> None:
    number = stage.subscribe(ordered=True)
    stage.fire()
    failed = stage.claim_one()
    stage.finish(failed, EntryPhase.WAITING, wait_ns=60 * S)
    stage.now_ns += 2 * S
    stage.fire(25)
    assert list(stage.claim()) == []
    stage.now_ns = BEGIN_NS + 60 * S
    again = stage.claim_one()
    assert again.message_id == failed.message_id
    stage.finish(again, EntryPhase.WAITING, wait_ns=300 * S)
    stage.now_ns += 2 * S
    assert list(stage.claim()) == []
    stage.change(number, ordered=False)
    assert len(stage.claim_one().entries) == MOST_ALERTS[Target.HTTPS]


def test_where_order_counts_a_message_is_not_gathered_across_one_that_waits(stage: Stage) -> None:
    """Held alerts, sent on request, are older than a message that is tried again; new ones are younger."""
    number = stage.subscribe(ordered=True, phase=SubscriptionPhase.DISABLED)
    held = stage.fire()
    stage.change(number, phase=SubscriptionPhase.ACTIVE)
    between = stage.fire()
    failed = stage.claim_one()
    assert keys(failed) == [between[0].key]
    stage.finish(failed, EntryPhase.WAITING, wait_ns=2 * S)
    new = stage.fire()
    assert stage.outbox.resend_failed(1, number, 0, stage.now_ns) == 1
    sent = []
    for _ in range(3):
        stage.now_ns += 2 * S
        sent.append(stage.claim_one())
        stage.finish(sent[-1])
    assert [keys(message) for message in sent] == [[held[0].key], [between[0].key], [new[0].key]]


def test_a_closed_lane_is_left_alone_until_it_opens(stage: Stage) -> None:
    stage.subscribe()
    stage.fire(2)
    message = stage.claim_one()
    closed = replace(message.queue, sent_ns=stage.now_ns, closed_until_ns=BEGIN_NS + 30 * S, failures=5)
    stage.finish(message, EntryPhase.WAITING, wait_ns=5 * S, queue=closed)
    for _ in range(3):
        stage.now_ns += 9 * S
        stage.fire()
        assert list(stage.claim()) == []
    stage.now_ns = BEGIN_NS + 30 * S
    probe = stage.claim_one()
    assert (probe.message_id, probe.queue) == (message.message_id, closed)


@pytest.mark.parametrize("phase", [SubscriptionPhase.PAUSED, SubscriptionPhase.DISABLED])
def test_only_what_is_active_is_claimed_and_resuming_goes_on(stage: Stage, phase: SubscriptionPhase) -> None:
    number = stage.subscribe()
    stage.fire()
    stage.change(number, phase=phase)
    stage.fire()
    assert list(stage.claim()) == []
    stage.change(number, phase=SubscriptionPhase.ACTIVE)
    assert keys(stage.claim_one()) == ["ES:ib-break-up:1"]


def test_nothing_is_claimed_for_a_user_who_is_disabled(stage: Stage) -> None:
    stage.subscribe()
    stage.fire()
    stage.people.change_user(1, disabled_ns=BEGIN_NS)
    stage.fire()
    assert list(stage.claim()) == []
    stage.people.change_user(1, disabled_ns=0)
    assert keys(stage.claim_one()) == ["ES:ib-break-up:1"]


# -- leases


def test_what_a_worker_that_died_had_claimed_comes_again_under_the_same_id(stage: Stage) -> None:
    stage.subscribe()
    stage.fire(3)
    lost = stage.claim_one("dead")
    stage.fire()
    stage.now_ns += LEASE_NS - 1
    assert list(stage.claim()) == []
    stage.now_ns += 1
    again = stage.claim_one()
    assert (again.message_id, again.entries, again.tries) == (lost.message_id, lost.entries, 0)


def test_a_lane_somebody_holds_is_not_claimed_whatever_its_owner_changes(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(25)
    message = stage.claim_one("first")
    stage.change(number, ordered=True)
    stage.outbox.resend_failed(1, number, 0, stage.now_ns)
    stage.fire(25)
    stage.now_ns += 2 * S
    assert list(stage.claim("second")) == []
    assert stage.outbox.resend_one(1, number, message.message_id, stage.now_ns) == 20
    assert list(stage.claim("second")) == []


def test_who_lost_the_lease_changes_nothing_but_the_attempt_is_kept(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    late = stage.claim_one("late")
    stage.now_ns += LEASE_NS
    now = stage.claim_one("w")
    gone = stage.done(late, EntryPhase.DEAD, disable="gone")
    stage.outbox.record([replace(gone, queue=replace(late.queue, failures=9))])
    assert stage.row(number).phase is SubscriptionPhase.ACTIVE
    assert stage.outbox.queue(number).failures == 0
    assert stage.outbox.backlog(1, number) == Backlog(1, 0, 0)
    assert list(stage.claim("third")) == []
    stage.finish(now)
    assert stage.outbox.backlog(1, number) == Backlog(0, 0, 0)
    assert len(stage.attempts(number)) == 2


def test_a_lease_that_ran_out_unnoticed_still_records(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    stage.now_ns += 2 * LEASE_NS
    stage.finish(message)
    assert stage.outbox.backlog(1, number) == Backlog(0, 0, 0)
    assert list(stage.claim()) == []


def test_workers_at_once_claim_every_lane_once(stage: Stage, place: Place) -> None:
    lanes, gate = {stage.subscribe() for _ in range(60)}, threading.Barrier(4)
    stage.fire()
    elsewhere = [place.open() for _ in range(3)]
    claimed: list[int] = []

    def work(outbox: SqlOutbox, worker: str) -> None:
        gate.wait(10)
        while messages := outbox.claim(worker, BEGIN_NS, LEASE_NS, 7, 7):
            claimed.extend(message.subscription.id for message in messages)

    outboxes = [stage.outbox, *(SqlOutbox(database) for database in elsewhere)]
    threads = [threading.Thread(target=work, args=(box, f"w{n}")) for n, box in enumerate(outboxes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (set(claimed), len(claimed)) == (lanes, 60)


# -- what became of it


def test_what_became_of_a_parcel_is_kept(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(2)
    message = stage.claim_one()
    queue = Queue(
        sent_ns=stage.now_ns, closed_until_ns=2, failures=3, failing_since_ns=4, failed_ns=5, arrived_ns=6, warned=1,
        bounces=2, warned_ns=7, took_ms=8,
    )  # fmt: skip
    done = replace(stage.done(message), queue=queue)
    stage.outbox.record([done])
    assert stage.outbox.queue(number) == queue
    (kept,) = stage.attempts(number)
    assert kept == replace(done.attempt, id=kept.id)
    assert stage.outbox.backlog(1, number) == Backlog(0, 0, 0)
    stage.now_ns += DAY
    assert list(stage.claim()) == []


def test_nothing_tried_costs_no_try(stage: Stage) -> None:
    stage.subscribe()
    stage.fire()
    stage.finish(stage.claim_one(), EntryPhase.WAITING, wait_ns=S, attempt=None, tries=0)
    stage.now_ns += S
    assert stage.claim_one().tries == 0


def test_entries_put_back_are_gathered_anew_when_their_time_comes(stage: Stage) -> None:
    number = stage.subscribe(target=Target.EMAIL)
    stage.fire(2)
    message = stage.claim_one()
    critical, rest = message.entries[:1], message.entries[1:]
    stage.outbox.return_entries(message, rest, BEGIN_NS + 3600 * S)
    assert list(stage.claim()) == []  # the queue is held for what is sent
    stage.finish(replace(message, entries=critical))
    assert stage.outbox.backlog(1, number) == Backlog(1, 0, 0)
    stage.now_ns += 3600 * S - 1
    assert list(stage.claim()) == []
    stage.fire()
    stage.now_ns += 1
    both = stage.claim_one()
    assert [entry.alert.key for entry in both.entries] == [rest[0].alert.key, "ES:ib-break-up:3"]
    assert both.message_id != message.message_id


def test_what_was_put_back_is_not_sent_under_that_id_after_a_crash(stage: Stage) -> None:
    stage.subscribe(target=Target.EMAIL)
    stage.fire(3)
    message = stage.claim_one("dead")
    stage.outbox.return_entries(message, message.entries[1:], BEGIN_NS + S)
    stage.now_ns += LEASE_NS
    again = stage.claim_one()
    assert (again.message_id, again.entries) == (message.message_id, message.entries[:1])


def test_a_parcel_all_of_which_is_put_back_leaves_no_trace(stage: Stage) -> None:
    number = stage.subscribe(target=Target.EMAIL)
    stage.fire(2)
    message = stage.claim_one()
    stage.outbox.return_entries(message, message.entries, BEGIN_NS + S)
    assert list(stage.claim()) == []
    stage.now_ns += S
    again = stage.claim_one()
    assert (again.entries, again.tries, stage.attempts(number)) == (message.entries, 0, [])
    assert again.message_id != message.message_id


def test_who_lost_the_lease_puts_nothing_back(stage: Stage) -> None:
    stage.subscribe(target=Target.EMAIL)
    stage.fire(2)
    late = stage.claim_one()
    stage.now_ns += LEASE_NS
    now = stage.claim_one()
    stage.outbox.return_entries(late, late.entries, stage.now_ns)
    assert list(stage.claim()) == []
    stage.finish(now)
    stage.now_ns += DAY
    assert list(stage.claim()) == []


def test_what_a_chat_missed_is_counted_until_it_is_told_of(stage: Stage) -> None:
    number = stage.subscribe(target=Target.SLACK)
    for _ in range(2):
        stage.fire(2)
        stage.finish(stage.claim_one(), EntryPhase.MISSED)
        stage.now_ns += 2 * S
    assert stage.outbox.backlog(1, number) == Backlog(0, 0, 4)
    stage.fire()
    message = stage.claim_one()
    assert message.missed == 4
    stage.finish(message, EntryPhase.WAITING, wait_ns=S)
    stage.now_ns += 2 * S
    message = stage.claim_one()
    assert message.missed == 4
    stage.finish(message, reported_missed=True)
    stage.now_ns += 2 * S
    stage.fire()
    assert stage.claim_one().missed == 0
    assert stage.outbox.backlog(1, number) == Backlog(1, 0, 4)


@pytest.mark.parametrize(("target", "missed"), [(Target.DISCORD, 3), (Target.EMAIL, 3), (Target.HTTPS, 0)])
def test_a_chat_or_mail_is_told_of_what_was_held_an_endpoint_waits_for_its_owner(
    stage: Stage, target: Target, missed: int
) -> None:
    number = stage.subscribe(target=target, phase=SubscriptionPhase.DISABLED)
    stage.fire(3)
    stage.change(number, phase=SubscriptionPhase.ACTIVE)
    stage.fire()
    message = stage.claim_one()
    assert message.missed == missed
    stage.finish(message, reported_missed=True)
    assert stage.outbox.backlog(1, number) == Backlog(0, 3 - missed, missed)


def test_a_subscription_that_is_switched_off_holds_what_waits(stage: Stage) -> None:
    number, other = stage.subscribe(), stage.subscribe()
    stage.fire(25)
    mine, theirs = stage.claim()
    before = stage.people.revision()
    gone = stage.done(mine, EntryPhase.HELD, disable="gone")
    stage.outbox.record([gone, stage.done(theirs)])
    row = stage.row(number)
    assert (row.phase, row.reason) == (SubscriptionPhase.DISABLED, "gone")
    assert stage.people.revision() > before
    stage.fire()
    assert stage.outbox.backlog(1, number) == Backlog(0, 26, 0)
    assert stage.row(other).phase is SubscriptionPhase.ACTIVE
    stage.now_ns += DAY
    assert [message.subscription.id for message in stage.claim()] == [other]


def test_an_answer_of_an_old_address_does_not_switch_the_new_one_off(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    stage.change(number, sealed_address=b"another")
    stage.finish(message, EntryPhase.WAITING, disable="gone")
    assert stage.row(number).phase is SubscriptionPhase.ACTIVE
    stage.now_ns += 2 * S
    assert stage.claim_one().message_id == message.message_id


def test_what_was_removed_meanwhile_stays_removed_and_holds_up_nothing(stage: Stage) -> None:
    removed, stays = stage.subscribe(), stage.subscribe()
    stage.fire()
    done = [stage.done(message) for message in stage.claim()]
    stage.subscriptions.remove_subscription(1, removed)
    stage.outbox.record(done)
    assert [len(stage.attempts(number)) for number in (removed, stays)] == [0, 1]
    assert stage.outbox.queue(removed) == Queue()


def test_an_alert_that_is_forgotten_takes_its_entries_along(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(2)
    message = stage.claim_one()
    stage.live.forget_alerts(StreamKey(0, "demo", Contract("ES", 2026, 3)))
    assert stage.outbox.backlog(1, number) == Backlog(0, 0, 0)
    stage.finish(message)
    stage.now_ns += DAY
    assert list(stage.claim()) == []
    assert len(stage.attempts(number)) == 1


def test_an_attempt_of_a_test_is_kept_with_the_lane_it_opens(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    closed = replace(message.queue, sent_ns=stage.now_ns, closed_until_ns=BEGIN_NS + DAY, failures=9)
    stage.finish(message, EntryPhase.WAITING, wait_ns=5 * S, queue=closed)
    stage.now_ns += 5 * S
    attempt = replace(stage.done(message).attempt, message_id="msg_test", outcome="delivered")
    stage.outbox.keep_attempt(attempt, None)
    assert list(stage.claim()) == []
    stage.outbox.keep_attempt(attempt, Queue(sent_ns=BEGIN_NS))
    assert stage.outbox.queue(number) == Queue(sent_ns=BEGIN_NS)
    assert [row.message_id for row in stage.attempts(number)] == [message.message_id, "msg_test", "msg_test"]
    assert stage.claim_one().message_id == message.message_id
    stage.subscriptions.remove_subscription(1, number)
    stage.outbox.keep_attempt(attempt, Queue())


# -- sending again


def test_one_message_is_sent_again_under_the_same_id(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(2)
    message = stage.claim_one()
    assert stage.outbox.resend_one(1, number, message.message_id, stage.now_ns) == 2
    assert list(stage.claim()) == []
    stage.finish(message)
    stage.now_ns += DAY
    assert stage.outbox.resend_one(2, number, message.message_id, stage.now_ns) == 0
    assert stage.outbox.resend_one(1, number, "msg_other", stage.now_ns) == 0
    assert list(stage.claim()) == []
    assert stage.outbox.resend_one(1, number, message.message_id, stage.now_ns) == 2
    again = stage.claim_one()
    assert (again.message_id, again.entries, again.tries) == (message.message_id, message.entries, 0)


def test_all_that_failed_since_then_is_sent_again(stage: Stage) -> None:
    number = stage.subscribe()
    for phase in (EntryPhase.DEAD, EntryPhase.DEAD, EntryPhase.DELIVERED, EntryPhase.MISSED):
        stage.fire()
        stage.finish(stage.claim_one(), phase)
        stage.now_ns += 2 * S
    stage.change(number, phase=SubscriptionPhase.DISABLED)
    stage.fire(2)
    stage.change(number, phase=SubscriptionPhase.ACTIVE)
    assert stage.outbox.resend_failed(2, number, 0, stage.now_ns) == 0
    assert stage.outbox.resend_failed(1, number, BEGIN_NS + 2 * S, stage.now_ns) == 4
    assert stage.outbox.backlog(1, number) == Backlog(4, 0, 1)
    sent = []
    while messages := stage.claim():
        sent.append(keys(messages[0]))
        stage.finish(messages[0])
        stage.now_ns += 2 * S
    assert sent == [["ES:ib-break-up:2"], ["ES:ib-break-up:4"], ["ES:ib-break-up:5", "ES:ib-break-up:6"]]


def test_what_fired_without_it_is_sent_on_request(stage: Stage) -> None:
    """Before it was made, and while it was paused; of its symbols and severity, once."""
    early = stage.fire()
    stage.now_ns += S
    old = stage.fire(2)
    stage.fire(symbol="CL")
    stage.fire(severity="info")
    number = stage.subscribe(symbols=("ES", "NQ"), min_severity="warn")
    stage.now_ns += S
    known = stage.fire()
    stage.change(number, phase=SubscriptionPhase.PAUSED)
    paused = [*stage.fire(symbol="NQ"), *stage.fire()]
    stage.change(number, phase=SubscriptionPhase.ACTIVE)
    assert stage.outbox.resend_missing(resolve(2, 0, "free", SEES_LIVE.grants), number, 0, stage.now_ns) == 0
    assert stage.outbox.resend_missing(SEES_LIVE, number, early[0].at_ns + 1, stage.now_ns) == 4
    assert stage.outbox.resend_missing(SEES_LIVE, number, early[0].at_ns + 1, stage.now_ns) == 0
    message = stage.claim_one()
    assert keys(message) == [alert.key for alert in (*known, *old, *paused)]
    numbers = [(entry.alert.symbol, entry.number) for entry in message.entries]
    assert numbers == [("ES", 1), ("ES", 2), ("ES", 3), ("NQ", 1), ("ES", 4)]


def test_only_feeds_that_are_seen_are_sent_on_request(stage: Stage) -> None:
    stage.fire(symbol="ES")
    stage.fire(symbol="NQ")
    stage.fire(owner=1, symbol="CL")
    stage.fire(owner=2, symbol="CL")
    number = stage.subscribe()
    nothing = resolve(1, 0, "free", [Grant("everyone", "completed", (), None, None)])
    some = resolve(1, 0, "free", [Grant("everyone", "live", ("NQ", "GC"), None, None)])
    assert stage.outbox.resend_missing(nothing, number, 0, stage.now_ns) == 1
    assert stage.outbox.resend_missing(some, number, 0, stage.now_ns) == 1
    assert stage.outbox.resend_missing(SEES_LIVE, number, 0, stage.now_ns) == 1
    seen = [(entry.alert.owner, entry.alert.symbol) for entry in stage.claim_one().entries]
    assert seen == [(1, "CL"), (0, "NQ"), (0, "ES")]


def test_what_is_not_seen_any_more_is_not_sent_again(stage: Stage) -> None:
    number = stage.subscribe()
    for symbol, owner in (("ES", 0), ("NQ", 0), ("CL", 1)):
        stage.fire(symbol=symbol, owner=owner)
    message = stage.claim_one()
    stage.finish(message, EntryPhase.DEAD)
    stage.now_ns += 2 * S
    nothing = resolve(1, 0, "free", [Grant("everyone", "completed", (), None, None)])
    some = resolve(1, 0, "free", [Grant("everyone", "live", ("NQ", "GC"), None, None)])
    again = stage.outbox.resend_one
    assert again(1, number, message.message_id, stage.now_ns, nothing) == 1
    assert stage.outbox.resend_failed(1, number, 0, stage.now_ns, some) == 1
    assert stage.outbox.backlog(1, number) == Backlog(2, 0, 1)
    seen = [(entry.alert.owner, entry.alert.symbol) for entry in stage.claim_one().entries]
    assert seen == [(0, "NQ"), (1, "CL")]
    assert again(1, number, message.message_id, stage.now_ns, SEES_LIVE) == 3


@pytest.mark.parametrize(
    ("phase", "backlog"),
    [
        (SubscriptionPhase.UNCONFIRMED, Backlog(0, 0, 0)),
        (SubscriptionPhase.PAUSED, Backlog(1, 0, 0)),
        (SubscriptionPhase.DISABLED, Backlog(0, 1, 0)),
    ],
)
def test_what_is_asked_for_waits_as_its_subscription_does(
    stage: Stage, phase: SubscriptionPhase, backlog: Backlog
) -> None:
    stage.fire()
    number = stage.subscribe(phase=phase)
    stage.outbox.resend_missing(SEES_LIVE, number, 0, stage.now_ns)
    assert stage.outbox.backlog(1, number) == backlog
    assert stage.outbox.backlog(2, number) == Backlog(0, 0, 0)


# -- forgetting


def test_what_is_old_and_waits_for_nothing_is_forgotten_but_numbers_go_on(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(2)
    stage.fire(symbol="NQ")
    old = stage.claim_one()
    stage.finish(old)
    stage.now_ns += DAY
    stage.fire()
    waits = stage.claim_one()
    stage.finish(waits, EntryPhase.WAITING, wait_ns=90 * DAY)
    stage.outbox.forget_old(stage.now_ns)
    assert [row.message_id for row in stage.attempts(number)] == [waits.message_id]
    # of ES the third is newest, of NQ the first: that one stays
    assert stage.outbox.resend_one(1, number, old.message_id, stage.now_ns) == 1
    assert stage.outbox.backlog(1, number).waiting == 2
    stage.fire(symbol="NQ")
    stage.fire()
    stage.now_ns += S
    stage.finish(stage.claim_one())
    stage.now_ns += S
    numbers = {(entry.alert.symbol, entry.number) for entry in stage.claim_one().entries}
    assert numbers == {("NQ", 2), ("ES", 4)}


def test_what_waits_behind_a_pause_is_forgotten_with_the_rest(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(3)
    stage.now_ns += DAY
    stage.fire()
    stage.outbox.forget_old(stage.now_ns)
    assert stage.outbox.backlog(1, number).waiting == 1


def test_what_was_delivered_late_is_kept_as_long_as_its_attempt(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire(2)
    message = stage.claim_one()
    stage.finish(message, EntryPhase.WAITING, wait_ns=3 * DAY)
    stage.now_ns += 3 * DAY
    stage.finish(stage.claim_one())
    stage.fire()
    stage.outbox.forget_old(stage.now_ns)
    assert len(stage.attempts(number)) == 1
    assert stage.outbox.resend_one(1, number, message.message_id, stage.now_ns) == 2


def test_thousands_are_forgotten(stage: Stage) -> None:
    number = stage.subscribe(target=Target.EMAIL)
    stage.fire(4_100)
    while messages := stage.claim():
        stage.finish(messages[0])
        stage.now_ns += GATHER_NS
    stage.outbox.forget_old(stage.now_ns + 1)
    assert stage.attempts(number) == []
    stage.fire()
    (entry,) = stage.claim_one().entries
    assert entry.number == 4_101
    assert stage.outbox.resend_failed(1, number, 0, stage.now_ns) == 0


def test_delivering_moves_no_revision(stage: Stage) -> None:
    number = stage.subscribe()
    made = stage.people.revision()
    stage.fire()
    message = stage.claim_one()
    stage.finish(message)
    stage.outbox.keep_attempt(stage.done(message).attempt, Queue())
    stage.outbox.resend_one(1, number, message.message_id, stage.now_ns)
    stage.outbox.forget_old(stage.now_ns)
    assert stage.people.revision() == made
