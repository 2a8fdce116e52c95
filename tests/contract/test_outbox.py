"""Contract of outboxes: one message at a time per queue, the same entries at every try, stored results.

No queue delays another.
"""

import threading
from dataclasses import replace

import pytest
from tests.contract.databases import Place
from tests.contract.outbox_harness import BEGIN_NS, HOOK, LEASE_NS, Harness, S, keys

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
def harness(place: Place) -> Harness:
    return Harness(place.open())


# -- claiming


def test_a_parcel_has_all_that_sending_needs(harness: Harness) -> None:
    number = harness.subscribe(ordered=True)
    alerts = harness.fire(2)
    message = harness.claim_one()
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
    assert list(harness.claim()) == []


def test_alerts_are_numbered_by_symbol_for_each_subscription(harness: Harness) -> None:
    first = harness.subscribe()
    harness.fire(2)
    harness.subscribe()
    harness.fire(1, symbol="NQ")
    harness.fire(1)
    by_lane = {message.subscription.id: message for message in harness.claim()}
    numbers = {
        queue: [(entry.alert.symbol, entry.number) for entry in message.entries]
        for queue, message in by_lane.items()
    }
    assert numbers == {
        first: [("ES", 1), ("ES", 2), ("NQ", 1), ("ES", 3)],
        first + 1: [("NQ", 1), ("ES", 1)],
    }


def test_what_fires_within_a_second_of_a_message_goes_in_the_next(harness: Harness) -> None:
    harness.subscribe(target=Target.SLACK)
    harness.fire()
    harness.finish(harness.claim_one())
    harness.now_ns += GATHER_NS // 4
    harness.fire(25)
    assert list(harness.claim()) == []
    harness.now_ns = BEGIN_NS + GATHER_NS - 1
    harness.fire()
    assert list(harness.claim()) == []
    harness.now_ns += 1
    assert len(harness.claim_one().entries) == 26


def test_a_full_message_of_an_endpoint_does_not_wait(harness: Harness) -> None:
    harness.subscribe()
    most = MOST_ALERTS[Target.HTTPS]
    harness.fire(most + 1)
    harness.finish(harness.claim_one())
    harness.now_ns += 1
    assert list(harness.claim()) == []
    harness.fire(most - 1)
    full = harness.claim_one()
    assert len(full.entries) == most
    harness.fire(most)
    harness.finish(full)
    assert len(harness.claim_one().entries) == most


@pytest.mark.parametrize("target", Target)
def test_a_message_carries_no_more_than_it_may_and_the_oldest_first(harness: Harness, target: Target) -> None:
    harness.subscribe(target=target)
    most = MOST_ALERTS[target]
    fired = [alert.key for alert in harness.fire(most + 3)]
    first = harness.claim_one()
    assert keys(first) == fired[:most]
    harness.finish(first)
    harness.now_ns += GATHER_NS
    assert keys(harness.claim_one()) == fired[most:]


def test_no_more_lanes_are_claimed_than_asked_for_those_first_that_waited_longest(harness: Harness) -> None:
    late, soon = harness.subscribe(symbols=("NQ",)), harness.subscribe(symbols=("ES",))
    harness.fire(symbol="ES")
    harness.now_ns += 1
    harness.fire(symbol="NQ")
    assert [message.subscription.id for message in harness.claim(most=1)] == [soon]
    assert [message.subscription.id for message in harness.claim(most=1)] == [late]
    assert list(harness.claim(most=1)) == []


def test_lanes_looked_at_in_vain_take_no_places(harness: Harness) -> None:
    """Ordered queues whose oldest message is retried later do not block the others."""
    for _ in range(3):
        harness.subscribe(ordered=True, symbols=("ES",))
    harness.fire()
    harness.outbox.record([harness.done(p, EntryPhase.WAITING, 100 * S) for p in harness.claim()])
    harness.now_ns += 2 * S
    harness.subscribe()
    harness.fire()
    assert len(harness.claim(most=1)) == 1


def test_a_message_that_failed_is_tried_again_the_same_when_it_is_time(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(2)
    first = harness.claim_one()
    harness.finish(first, EntryPhase.WAITING, wait_ns=5 * S)
    harness.now_ns += 5 * S - 1
    assert list(harness.claim()) == []
    harness.now_ns += 1
    harness.fire()
    again = harness.claim_one()
    assert (again.message_id, again.entries, again.tries) == (first.message_id, first.entries, 1)
    harness.finish(again)
    harness.now_ns += GATHER_NS
    assert keys(harness.claim_one()) == ["ES:ib-break-up:3"]
    assert [(row.number, row.outcome) for row in harness.attempts(number)] == [
        (1, "pending"),
        (2, "delivered"),
    ]


def test_what_fires_meanwhile_overtakes_a_message_that_failed(harness: Harness) -> None:
    harness.subscribe()
    harness.fire()
    failed = harness.claim_one()
    harness.finish(failed, EntryPhase.WAITING, wait_ns=60 * S)
    harness.now_ns += 2 * S
    harness.fire()
    harness.finish(harness.claim_one())
    harness.now_ns = BEGIN_NS + 60 * S
    assert harness.claim_one().message_id == failed.message_id


def test_nothing_overtakes_a_message_where_order_counts(harness: Harness) -> None:
    number = harness.subscribe(ordered=True)
    harness.fire()
    failed = harness.claim_one()
    harness.finish(failed, EntryPhase.WAITING, wait_ns=60 * S)
    harness.now_ns += 2 * S
    harness.fire(25)
    assert list(harness.claim()) == []
    harness.now_ns = BEGIN_NS + 60 * S
    again = harness.claim_one()
    assert again.message_id == failed.message_id
    harness.finish(again, EntryPhase.WAITING, wait_ns=300 * S)
    harness.now_ns += 2 * S
    assert list(harness.claim()) == []
    harness.change(number, ordered=False)
    assert len(harness.claim_one().entries) == MOST_ALERTS[Target.HTTPS]


def test_where_order_counts_a_message_is_not_gathered_across_one_that_waits(harness: Harness) -> None:
    """Held alerts, sent on request, are older than a retried message; new alerts are younger."""
    number = harness.subscribe(ordered=True, phase=SubscriptionPhase.DISABLED)
    held = harness.fire()
    harness.change(number, phase=SubscriptionPhase.ACTIVE)
    between = harness.fire()
    failed = harness.claim_one()
    assert keys(failed) == [between[0].key]
    harness.finish(failed, EntryPhase.WAITING, wait_ns=2 * S)
    new = harness.fire()
    assert harness.outbox.resend_failed(1, number, 0, harness.now_ns) == 1
    sent = []
    for _ in range(3):
        harness.now_ns += 2 * S
        sent.append(harness.claim_one())
        harness.finish(sent[-1])
    assert [keys(message) for message in sent] == [[held[0].key], [between[0].key], [new[0].key]]


def test_a_closed_lane_is_left_alone_until_it_opens(harness: Harness) -> None:
    harness.subscribe()
    harness.fire(2)
    message = harness.claim_one()
    closed = replace(message.queue, sent_ns=harness.now_ns, closed_until_ns=BEGIN_NS + 30 * S, failures=5)
    harness.finish(message, EntryPhase.WAITING, wait_ns=5 * S, queue=closed)
    for _ in range(3):
        harness.now_ns += 9 * S
        harness.fire()
        assert list(harness.claim()) == []
    harness.now_ns = BEGIN_NS + 30 * S
    probe = harness.claim_one()
    assert (probe.message_id, probe.queue) == (message.message_id, closed)


@pytest.mark.parametrize("phase", [SubscriptionPhase.PAUSED, SubscriptionPhase.DISABLED])
def test_only_what_is_active_is_claimed_and_resuming_goes_on(
    harness: Harness, phase: SubscriptionPhase
) -> None:
    number = harness.subscribe()
    harness.fire()
    harness.change(number, phase=phase)
    harness.fire()
    assert list(harness.claim()) == []
    harness.change(number, phase=SubscriptionPhase.ACTIVE)
    assert keys(harness.claim_one()) == ["ES:ib-break-up:1"]


def test_nothing_is_claimed_for_a_user_who_is_disabled(harness: Harness) -> None:
    harness.subscribe()
    harness.fire()
    harness.people.change_user(1, disabled_ns=BEGIN_NS)
    harness.fire()
    assert list(harness.claim()) == []
    harness.people.change_user(1, disabled_ns=0)
    assert keys(harness.claim_one()) == ["ES:ib-break-up:1"]


def test_whether_a_queue_is_due_is_known_without_a_claim(harness: Harness) -> None:
    """A leased queue is due at the end of its lease, a gathering one a second after its message, a paused one never."""
    number = harness.subscribe()
    assert not harness.outbox.has_due(harness.now_ns)
    harness.fire()
    assert harness.outbox.has_due(harness.now_ns)
    message = harness.claim_one()
    assert not harness.outbox.has_due(harness.now_ns + LEASE_NS - 1)
    assert harness.outbox.has_due(harness.now_ns + LEASE_NS)
    harness.finish(message)
    harness.fire()
    assert not harness.outbox.has_due(harness.now_ns + GATHER_NS - 1)
    assert harness.outbox.has_due(harness.now_ns + GATHER_NS)
    harness.change(number, phase=SubscriptionPhase.PAUSED)
    assert not harness.outbox.has_due(harness.now_ns + GATHER_NS)


# -- leases


def test_what_a_worker_that_died_had_claimed_comes_again_under_the_same_id(harness: Harness) -> None:
    harness.subscribe()
    harness.fire(3)
    lost = harness.claim_one("dead")
    harness.fire()
    harness.now_ns += LEASE_NS - 1
    assert list(harness.claim()) == []
    harness.now_ns += 1
    again = harness.claim_one()
    assert (again.message_id, again.entries, again.tries) == (lost.message_id, lost.entries, 0)


def test_a_lane_somebody_holds_is_not_claimed_whatever_its_owner_changes(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(25)
    message = harness.claim_one("first")
    harness.change(number, ordered=True)
    harness.outbox.resend_failed(1, number, 0, harness.now_ns)
    harness.fire(25)
    harness.now_ns += 2 * S
    assert list(harness.claim("second")) == []
    assert harness.outbox.resend_one(1, number, message.message_id, harness.now_ns) == 20
    assert list(harness.claim("second")) == []


def test_who_lost_the_lease_changes_nothing_but_the_attempt_is_kept(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    late = harness.claim_one("late")
    harness.now_ns += LEASE_NS
    now = harness.claim_one("w")
    gone = harness.done(late, EntryPhase.DEAD, disable="gone")
    harness.outbox.record([replace(gone, queue=replace(late.queue, failures=9))])
    assert harness.row(number).phase is SubscriptionPhase.ACTIVE
    assert harness.outbox.queue(number).failures == 0
    assert harness.outbox.backlog(1, number) == Backlog(1, 0, 0)
    assert list(harness.claim("third")) == []
    harness.finish(now)
    assert harness.outbox.backlog(1, number) == Backlog(0, 0, 0)
    assert len(harness.attempts(number)) == 2


def test_a_lease_that_ran_out_unnoticed_still_records(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    harness.now_ns += 2 * LEASE_NS
    harness.finish(message)
    assert harness.outbox.backlog(1, number) == Backlog(0, 0, 0)
    assert list(harness.claim()) == []


def test_workers_at_once_claim_every_lane_once(harness: Harness, place: Place) -> None:
    lanes, gate = {harness.subscribe() for _ in range(60)}, threading.Barrier(4)
    harness.fire()
    elsewhere = [place.open() for _ in range(3)]
    claimed: list[int] = []

    def work(outbox: SqlOutbox, worker: str) -> None:
        gate.wait(10)
        while messages := outbox.claim(worker, BEGIN_NS, LEASE_NS, 7, 7):
            claimed.extend(message.subscription.id for message in messages)

    outboxes = [harness.outbox, *(SqlOutbox(database) for database in elsewhere)]
    threads = [threading.Thread(target=work, args=(box, f"w{n}")) for n, box in enumerate(outboxes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (set(claimed), len(claimed)) == (lanes, 60)


# -- results of a message


def test_what_became_of_a_parcel_is_kept(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(2)
    message = harness.claim_one()
    queue = Queue(
        sent_ns=harness.now_ns, closed_until_ns=2, failures=3, failing_since_ns=4, failed_ns=5, arrived_ns=6, warned=1,
        bounces=2, warned_ns=7, took_ms=8,
    )  # fmt: skip
    done = replace(harness.done(message), queue=queue)
    harness.outbox.record([done])
    assert harness.outbox.queue(number) == queue
    (kept,) = harness.attempts(number)
    assert kept == replace(done.attempt, id=kept.id)
    assert harness.outbox.backlog(1, number) == Backlog(0, 0, 0)
    harness.now_ns += DAY
    assert list(harness.claim()) == []


def test_nothing_tried_costs_no_try(harness: Harness) -> None:
    harness.subscribe()
    harness.fire()
    harness.finish(harness.claim_one(), EntryPhase.WAITING, wait_ns=S, attempt=None, tries=0)
    harness.now_ns += S
    assert harness.claim_one().tries == 0


def test_entries_put_back_are_gathered_anew_when_their_time_comes(harness: Harness) -> None:
    number = harness.subscribe(target=Target.EMAIL)
    harness.fire(2)
    message = harness.claim_one()
    critical, rest = message.entries[:1], message.entries[1:]
    harness.outbox.return_entries(message, rest, BEGIN_NS + 3600 * S)
    assert list(harness.claim()) == []  # the queue is reserved for the message in transit
    harness.finish(replace(message, entries=critical))
    assert harness.outbox.backlog(1, number) == Backlog(1, 0, 0)
    harness.now_ns += 3600 * S - 1
    assert list(harness.claim()) == []
    harness.fire()
    harness.now_ns += 1
    both = harness.claim_one()
    assert [entry.alert.key for entry in both.entries] == [rest[0].alert.key, "ES:ib-break-up:3"]
    assert both.message_id != message.message_id


def test_what_was_put_back_is_not_sent_under_that_id_after_a_crash(harness: Harness) -> None:
    harness.subscribe(target=Target.EMAIL)
    harness.fire(3)
    message = harness.claim_one("dead")
    harness.outbox.return_entries(message, message.entries[1:], BEGIN_NS + S)
    harness.now_ns += LEASE_NS
    again = harness.claim_one()
    assert (again.message_id, again.entries) == (message.message_id, message.entries[:1])


def test_a_parcel_all_of_which_is_put_back_leaves_no_trace(harness: Harness) -> None:
    number = harness.subscribe(target=Target.EMAIL)
    harness.fire(2)
    message = harness.claim_one()
    harness.outbox.return_entries(message, message.entries, BEGIN_NS + S)
    assert list(harness.claim()) == []
    harness.now_ns += S
    again = harness.claim_one()
    assert (again.entries, again.tries, harness.attempts(number)) == (message.entries, 0, [])
    assert again.message_id != message.message_id


def test_who_lost_the_lease_puts_nothing_back(harness: Harness) -> None:
    harness.subscribe(target=Target.EMAIL)
    harness.fire(2)
    late = harness.claim_one()
    harness.now_ns += LEASE_NS
    now = harness.claim_one()
    harness.outbox.return_entries(late, late.entries, harness.now_ns)
    assert list(harness.claim()) == []
    harness.finish(now)
    harness.now_ns += DAY
    assert list(harness.claim()) == []


def test_what_a_chat_missed_is_counted_until_it_is_told_of(harness: Harness) -> None:
    number = harness.subscribe(target=Target.SLACK)
    for _ in range(2):
        harness.fire(2)
        harness.finish(harness.claim_one(), EntryPhase.MISSED)
        harness.now_ns += 2 * S
    assert harness.outbox.backlog(1, number) == Backlog(0, 0, 4)
    harness.fire()
    message = harness.claim_one()
    assert message.missed == 4
    harness.finish(message, EntryPhase.WAITING, wait_ns=S)
    harness.now_ns += 2 * S
    message = harness.claim_one()
    assert message.missed == 4
    harness.finish(message, reported_missed=True)
    harness.now_ns += 2 * S
    harness.fire()
    assert harness.claim_one().missed == 0
    assert harness.outbox.backlog(1, number) == Backlog(1, 0, 4)


@pytest.mark.parametrize(("target", "missed"), [(Target.DISCORD, 3), (Target.EMAIL, 3), (Target.HTTPS, 0)])
def test_a_chat_or_mail_is_told_of_what_was_held_an_endpoint_waits_for_its_owner(
    harness: Harness, target: Target, missed: int
) -> None:
    number = harness.subscribe(target=target, phase=SubscriptionPhase.DISABLED)
    harness.fire(3)
    harness.change(number, phase=SubscriptionPhase.ACTIVE)
    harness.fire()
    message = harness.claim_one()
    assert message.missed == missed
    harness.finish(message, reported_missed=True)
    assert harness.outbox.backlog(1, number) == Backlog(0, 3 - missed, missed)


def test_a_subscription_that_is_switched_off_holds_what_waits(harness: Harness) -> None:
    number, other = harness.subscribe(), harness.subscribe()
    harness.fire(25)
    mine, theirs = harness.claim()
    before = harness.people.revision()
    gone = harness.done(mine, EntryPhase.HELD, disable="gone")
    harness.outbox.record([gone, harness.done(theirs)])
    row = harness.row(number)
    assert (row.phase, row.reason) == (SubscriptionPhase.DISABLED, "gone")
    assert harness.people.revision() > before
    harness.fire()
    assert harness.outbox.backlog(1, number) == Backlog(0, 26, 0)
    assert harness.row(other).phase is SubscriptionPhase.ACTIVE
    harness.now_ns += DAY
    assert [message.subscription.id for message in harness.claim()] == [other]


def test_an_answer_of_an_old_address_does_not_switch_the_new_one_off(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    harness.change(number, sealed_address=b"another")
    harness.finish(message, EntryPhase.WAITING, disable="gone")
    assert harness.row(number).phase is SubscriptionPhase.ACTIVE
    harness.now_ns += 2 * S
    assert harness.claim_one().message_id == message.message_id


def test_what_was_removed_meanwhile_stays_removed_and_holds_up_nothing(harness: Harness) -> None:
    removed, stays = harness.subscribe(), harness.subscribe()
    harness.fire()
    done = [harness.done(message) for message in harness.claim()]
    harness.subscriptions.remove_subscription(1, removed)
    harness.outbox.record(done)
    assert [len(harness.attempts(number)) for number in (removed, stays)] == [0, 1]
    assert harness.outbox.queue(removed) == Queue()


def test_an_alert_that_is_forgotten_takes_its_entries_along(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(2)
    message = harness.claim_one()
    harness.live.forget_alerts(StreamKey(0, "demo", Contract("ES", 2026, 3)))
    assert harness.outbox.backlog(1, number) == Backlog(0, 0, 0)
    harness.finish(message)
    harness.now_ns += DAY
    assert list(harness.claim()) == []
    assert len(harness.attempts(number)) == 1


def test_an_attempt_of_a_test_is_kept_with_the_lane_it_opens(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    closed = replace(message.queue, sent_ns=harness.now_ns, closed_until_ns=BEGIN_NS + DAY, failures=9)
    harness.finish(message, EntryPhase.WAITING, wait_ns=5 * S, queue=closed)
    harness.now_ns += 5 * S
    attempt = replace(harness.done(message).attempt, message_id="msg_test", outcome="delivered")
    harness.outbox.keep_attempt(attempt, None)
    assert list(harness.claim()) == []
    harness.outbox.keep_attempt(attempt, Queue(sent_ns=BEGIN_NS))
    assert harness.outbox.queue(number) == Queue(sent_ns=BEGIN_NS)
    assert [row.message_id for row in harness.attempts(number)] == [
        message.message_id,
        "msg_test",
        "msg_test",
    ]
    assert harness.claim_one().message_id == message.message_id
    harness.subscriptions.remove_subscription(1, number)
    harness.outbox.keep_attempt(attempt, Queue())


# -- sending again


def test_one_message_is_sent_again_under_the_same_id(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(2)
    message = harness.claim_one()
    assert harness.outbox.resend_one(1, number, message.message_id, harness.now_ns) == 2
    assert list(harness.claim()) == []
    harness.finish(message)
    harness.now_ns += DAY
    assert harness.outbox.resend_one(2, number, message.message_id, harness.now_ns) == 0
    assert harness.outbox.resend_one(1, number, "msg_other", harness.now_ns) == 0
    assert list(harness.claim()) == []
    assert harness.outbox.resend_one(1, number, message.message_id, harness.now_ns) == 2
    again = harness.claim_one()
    assert (again.message_id, again.entries, again.tries) == (message.message_id, message.entries, 0)


def test_all_that_failed_since_then_is_sent_again(harness: Harness) -> None:
    number = harness.subscribe()
    for phase in (EntryPhase.DEAD, EntryPhase.DEAD, EntryPhase.DELIVERED, EntryPhase.MISSED):
        harness.fire()
        harness.finish(harness.claim_one(), phase)
        harness.now_ns += 2 * S
    harness.change(number, phase=SubscriptionPhase.DISABLED)
    harness.fire(2)
    harness.change(number, phase=SubscriptionPhase.ACTIVE)
    assert harness.outbox.resend_failed(2, number, 0, harness.now_ns) == 0
    assert harness.outbox.resend_failed(1, number, BEGIN_NS + 2 * S, harness.now_ns) == 4
    assert harness.outbox.backlog(1, number) == Backlog(4, 0, 1)
    sent = []
    while messages := harness.claim():
        sent.append(keys(messages[0]))
        harness.finish(messages[0])
        harness.now_ns += 2 * S
    assert sent == [["ES:ib-break-up:2"], ["ES:ib-break-up:4"], ["ES:ib-break-up:5", "ES:ib-break-up:6"]]


def test_what_fired_without_it_is_sent_on_request(harness: Harness) -> None:
    """Alerts from before the creation or during the pause are sent once, filtered by symbols and severity."""
    early = harness.fire()
    harness.now_ns += S
    old = harness.fire(2)
    harness.fire(symbol="CL")
    harness.fire(severity="info")
    number = harness.subscribe(symbols=("ES", "NQ"), min_severity="warn")
    harness.now_ns += S
    known = harness.fire()
    harness.change(number, phase=SubscriptionPhase.PAUSED)
    paused = [*harness.fire(symbol="NQ"), *harness.fire()]
    harness.change(number, phase=SubscriptionPhase.ACTIVE)
    assert (
        harness.outbox.resend_missing(resolve(2, 0, "free", SEES_LIVE.grants), number, 0, harness.now_ns) == 0
    )
    assert harness.outbox.resend_missing(SEES_LIVE, number, early[0].at_ns + 1, harness.now_ns) == 4
    assert harness.outbox.resend_missing(SEES_LIVE, number, early[0].at_ns + 1, harness.now_ns) == 0
    message = harness.claim_one()
    assert keys(message) == [alert.key for alert in (*known, *old, *paused)]
    numbers = [(entry.alert.symbol, entry.number) for entry in message.entries]
    assert numbers == [("ES", 1), ("ES", 2), ("ES", 3), ("NQ", 1), ("ES", 4)]


def test_only_feeds_that_are_seen_are_sent_on_request(harness: Harness) -> None:
    harness.fire(symbol="ES")
    harness.fire(symbol="NQ")
    harness.fire(owner=1, symbol="CL")
    harness.fire(owner=2, symbol="CL")
    number = harness.subscribe()
    nothing = resolve(1, 0, "free", [Grant("everyone", "completed", (), None, None)])
    some = resolve(1, 0, "free", [Grant("everyone", "live", ("NQ", "GC"), None, None)])
    assert harness.outbox.resend_missing(nothing, number, 0, harness.now_ns) == 1
    assert harness.outbox.resend_missing(some, number, 0, harness.now_ns) == 1
    assert harness.outbox.resend_missing(SEES_LIVE, number, 0, harness.now_ns) == 1
    seen = [(entry.alert.owner, entry.alert.symbol) for entry in harness.claim_one().entries]
    assert seen == [(1, "CL"), (0, "NQ"), (0, "ES")]


def test_what_is_not_seen_any_more_is_not_sent_again(harness: Harness) -> None:
    number = harness.subscribe()
    for symbol, owner in (("ES", 0), ("NQ", 0), ("CL", 1)):
        harness.fire(symbol=symbol, owner=owner)
    message = harness.claim_one()
    harness.finish(message, EntryPhase.DEAD)
    harness.now_ns += 2 * S
    nothing = resolve(1, 0, "free", [Grant("everyone", "completed", (), None, None)])
    some = resolve(1, 0, "free", [Grant("everyone", "live", ("NQ", "GC"), None, None)])
    again = harness.outbox.resend_one
    assert again(1, number, message.message_id, harness.now_ns, nothing) == 1
    assert harness.outbox.resend_failed(1, number, 0, harness.now_ns, some) == 1
    assert harness.outbox.backlog(1, number) == Backlog(2, 0, 1)
    seen = [(entry.alert.owner, entry.alert.symbol) for entry in harness.claim_one().entries]
    assert seen == [(0, "NQ"), (1, "CL")]
    assert again(1, number, message.message_id, harness.now_ns, SEES_LIVE) == 3


@pytest.mark.parametrize(
    ("phase", "backlog"),
    [
        (SubscriptionPhase.UNCONFIRMED, Backlog(0, 0, 0)),
        (SubscriptionPhase.PAUSED, Backlog(1, 0, 0)),
        (SubscriptionPhase.DISABLED, Backlog(0, 1, 0)),
    ],
)
def test_what_is_asked_for_waits_as_its_subscription_does(
    harness: Harness, phase: SubscriptionPhase, backlog: Backlog
) -> None:
    harness.fire()
    number = harness.subscribe(phase=phase)
    harness.outbox.resend_missing(SEES_LIVE, number, 0, harness.now_ns)
    assert harness.outbox.backlog(1, number) == backlog
    assert harness.outbox.backlog(2, number) == Backlog(0, 0, 0)


# -- deleting old entries


def test_what_is_old_and_waits_for_nothing_is_forgotten_but_numbers_go_on(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(2)
    harness.fire(symbol="NQ")
    old = harness.claim_one()
    harness.finish(old)
    harness.now_ns += DAY
    harness.fire()
    waits = harness.claim_one()
    harness.finish(waits, EntryPhase.WAITING, wait_ns=90 * DAY)
    harness.outbox.forget_old(harness.now_ns)
    assert [row.message_id for row in harness.attempts(number)] == [waits.message_id]
    # of ES the third is newest, of NQ the first: that one remains
    assert harness.outbox.resend_one(1, number, old.message_id, harness.now_ns) == 1
    assert harness.outbox.backlog(1, number).waiting == 2
    harness.fire(symbol="NQ")
    harness.fire()
    harness.now_ns += S
    harness.finish(harness.claim_one())
    harness.now_ns += S
    numbers = {(entry.alert.symbol, entry.number) for entry in harness.claim_one().entries}
    assert numbers == {("NQ", 2), ("ES", 4)}


def test_what_waits_behind_a_pause_is_forgotten_with_the_rest(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(3)
    harness.now_ns += DAY
    harness.fire()
    harness.outbox.forget_old(harness.now_ns)
    assert harness.outbox.backlog(1, number).waiting == 1


def test_what_was_delivered_late_is_kept_as_long_as_its_attempt(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire(2)
    message = harness.claim_one()
    harness.finish(message, EntryPhase.WAITING, wait_ns=3 * DAY)
    harness.now_ns += 3 * DAY
    harness.finish(harness.claim_one())
    harness.fire()
    harness.outbox.forget_old(harness.now_ns)
    assert len(harness.attempts(number)) == 1
    assert harness.outbox.resend_one(1, number, message.message_id, harness.now_ns) == 2


def test_thousands_are_forgotten(harness: Harness) -> None:
    number = harness.subscribe(target=Target.EMAIL)
    harness.fire(4_100)
    while messages := harness.claim():
        harness.finish(messages[0])
        harness.now_ns += GATHER_NS
    harness.outbox.forget_old(harness.now_ns + 1)
    assert harness.attempts(number) == []
    harness.fire()
    (entry,) = harness.claim_one().entries
    assert entry.number == 4_101
    assert harness.outbox.resend_failed(1, number, 0, harness.now_ns) == 0


def test_delivering_moves_no_revision(harness: Harness) -> None:
    number = harness.subscribe()
    made = harness.people.revision()
    harness.fire()
    message = harness.claim_one()
    harness.finish(message)
    harness.outbox.keep_attempt(harness.done(message).attempt, Queue())
    harness.outbox.resend_one(1, number, message.message_id, harness.now_ns)
    harness.outbox.forget_old(harness.now_ns)
    assert harness.people.revision() == made
