"""Results of a delivery: sent once, retried on schedule, on hold, missed or failed; and notices to the owner."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.delivery.delivery_harness import ARRIVED, BEGIN_NS, FAILED, Harness, open_harness

from outcry.access.licences import Audience
from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.outbox_model import NEVER, TRANSITIONS, EntryPhase, Sign
from outcry.delivery.schedule import pause_ns
from outcry.delivery.sender import SendResult, Verdict
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

S, M, H = NANOS_PER_SECOND, NANOS_PER_MINUTE, NANOS_PER_HOUR


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with open_harness(tmp_path) as made:
        yield made


def test_an_alert_is_sent_once_to_each_matching_subscription(harness: Harness) -> None:
    ann, bob = harness.person(), harness.person("bob@example.com")
    all_of_it = harness.subscribe(ann)
    harness.subscribe(ann, symbols=("NQ",))
    harness.subscribe(bob, min_severity="critical")
    harness.subscribe(bob, phase=SubscriptionPhase.PAUSED)
    (warn,) = harness.fire(severity="warn")
    assert harness.step() == 1
    assert harness.step() == 0
    ((_, message),) = harness.sender.sent
    assert [entry.alert.key for entry in message.entries] == [warn.key]
    assert message.subscription.id == all_of_it.id
    assert harness.sender.addresses == [("https://hooks.mysite.dev/0042", ["whsec_AAAA"])]
    (attempt,) = harness.log(all_of_it)
    assert (attempt.outcome, attempt.code, attempt.status, attempt.number) == ("delivered", "ok", 200, 1)
    assert (attempt.alert_key, attempt.message_id) == (warn.key, message.message_id)


def test_only_users_who_can_see_the_feed_receive_its_alerts(harness: Harness) -> None:
    ann, bob = harness.person(), harness.person("bob@example.com")
    own = harness.subscribe(ann)
    harness.subscribe(bob)
    harness.fire(audience=Audience(everyone=False, tiers=frozenset(), users=frozenset({ann})))
    harness.step()
    assert [message.subscription.id for _, message in harness.sender.sent] == [own.id]


def test_alerts_of_the_same_second_share_a_message(harness: Harness) -> None:
    harness.subscribe(harness.person())
    harness.fire()
    harness.step()
    harness.clock.ns += 100_000_000
    harness.fire(3)
    assert harness.step() == 0
    harness.clock.ns += S
    harness.fire(2, symbol="NQ")
    assert harness.step() == 1
    first, second = [message for _, message in harness.sender.sent]
    assert [(entry.alert.symbol, entry.number) for entry in second.entries] == [
        ("ES", 2), ("ES", 3), ("ES", 4), ("NQ", 1), ("NQ", 2),
    ]  # fmt: skip
    assert first.message_id != second.message_id


def test_a_full_message_does_not_wait_and_holds_twenty(harness: Harness) -> None:
    harness.subscribe(harness.person())
    harness.fire()
    harness.step()
    harness.fire(45)
    assert [harness.step() for _ in range(3)] == [1, 1, 0]
    assert [len(message.entries) for _, message in harness.sender.sent] == [1, 20, 20]


def test_the_schedule_of_seventy_five_hours_is_kept_to_the_minute(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: FAILED
    harness.fire()
    harness.run_for(S, S)
    for tries, pause_s in enumerate([5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400], 1):
        due_ns = harness.log(row)[-1].next_ns
        assert due_ns is not None
        last_ns = harness.sender.sent[-1][0]
        assert 0 <= due_ns - last_ns - pause_s * S <= M
        harness.run_for(due_ns - harness.clock.ns - S, due_ns - harness.clock.ns - S)
        assert len(harness.sender.sent) == tries, "not before it is due"
        harness.run_for(2 * S, S)
        assert len(harness.sender.sent) == tries + 1
    harness.run_for(100 * H, H)
    assert len(harness.sender.sent) == 10
    assert len({message.message_id for _, message in harness.sender.sent}) == 1
    log = harness.log(row)
    assert [attempt.number for attempt in log] == list(range(1, 11))
    assert [attempt.outcome for attempt in log] == ["pending"] * 9 + ["dead"]
    assert log[0].next_ns == BEGIN_NS + 5 * S
    assert log[-1].next_ns is None
    assert harness.outbox.backlog(row.user_id, row.id).dead == 1
    assert harness.reported_missed.notices == [("Desk", 24), ("Desk", 72)]


def test_five_days_of_failures_disable_a_webhook_and_hold_its_messages(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: FAILED
    for _ in range(20):
        harness.fire()
        harness.run_for(6 * H, 5 * M)
    assert harness.phase(row).phase is SubscriptionPhase.ACTIVE
    harness.run_for(7 * H, 5 * M)
    subscription = harness.phase(row)
    assert (subscription.phase, subscription.reason) == (SubscriptionPhase.DISABLED, "failing")
    assert harness.reported_missed.notices == [("Desk", 24), ("Desk", 72), ("Desk", "failing")]
    tries = len(harness.sender.sent)
    harness.fire(3)
    harness.run_for(2 * H, 5 * M)
    assert len(harness.sender.sent) == tries
    backlog = harness.outbox.backlog(row.user_id, row.id)
    assert backlog.waiting == 0
    assert backlog.held + backlog.dead == 23


def test_one_success_resets_four_days_of_failures(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda message: (
        ARRIVED if harness.clock.ns > BEGIN_NS + 4 * NANOS_PER_DAY else FAILED
    )
    for _ in range(9):
        harness.fire()
        harness.run_for(12 * H, 10 * M)
    queue = harness.outbox.queue(row.id)
    assert (queue.failures, queue.failing_since_ns, queue.warned, queue.closed_until_ns) == (0, None, 0, 0)
    assert harness.phase(row).phase is SubscriptionPhase.ACTIVE


def test_held_messages_are_sent_on_the_owners_request(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: SendResult(Verdict.GONE, "gone", 410)
    harness.fire(2)
    harness.step()
    assert (harness.phase(row).phase, harness.phase(row).reason) == (SubscriptionPhase.DISABLED, "gone")
    harness.fire(3)
    assert harness.outbox.backlog(row.user_id, row.id).held == 5
    harness.sender.answer = lambda _: ARRIVED
    harness.subscriptions.change_subscription(
        row.user_id,
        row.id,
        lambda subscription: replace(subscription, phase=SubscriptionPhase.ACTIVE, reason=""),
    )
    harness.clock.ns += M
    assert harness.step() == 0
    assert harness.outbox.resend_failed(row.user_id, row.id, 0, harness.clock.ns) == 5
    harness.run_for(10 * S, S)
    delivered = [entry.alert.key for _, message in harness.sender.sent[1:] for entry in message.entries]
    assert len(delivered) == len(set(delivered)) == 5
    assert harness.sender.sent[1][1].message_id == harness.sender.sent[0][1].message_id


def test_a_failing_queue_is_retried_with_one_message_at_a_time(harness: Harness) -> None:
    harness.subscribe(harness.person())
    healthy = harness.subscribe(harness.person("bob@example.com"), label="Well")
    harness.sender.answer = lambda p: ARRIVED if p.subscription.id == healthy.id else FAILED
    for _ in range(60):
        harness.fire()
        harness.run_for(2 * S, S)
    sick = [when for when, message in harness.sender.sent if message.subscription.id != healthy.id]
    well = [when for when, message in harness.sender.sent if message.subscription.id == healthy.id]
    assert len(well) == 60
    assert len(sick) < 10
    late = sick[4:]
    assert all(later - earlier >= 30 * S for earlier, later in pairwise(late))


def test_all_waiting_messages_arrive_once_an_endpoint_recovers(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: FAILED if harness.clock.ns < BEGIN_NS + H else ARRIVED
    keys: list[str] = []
    for _ in range(30):
        keys += [alert.key for alert in harness.fire(2)]
        harness.run_for(M, 10 * S)
    harness.run_for(3 * H, 10 * S)
    arrived = [
        entry.alert.key
        for when, message in harness.sender.sent
        if when >= BEGIN_NS + H
        for entry in message.entries
    ]
    assert sorted(arrived) == sorted(keys)
    assert harness.outbox.backlog(row.user_id, row.id).waiting == 0


def test_ordered_messages_wait_for_a_retried_one(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), ordered=True)
    harness.sender.answer = lambda _: FAILED if harness.clock.ns < BEGIN_NS + 4 * M else ARRIVED
    for _ in range(10):
        harness.fire()
        harness.run_for(30 * S, S)
    harness.run_for(10 * M, S)
    numbers = [
        entry.number
        for when, message in harness.sender.sent
        if when >= BEGIN_NS + 4 * M
        for entry in message.entries
    ]
    assert numbers == list(range(1, 11))
    assert harness.outbox.backlog(row.user_id, row.id).waiting == 0


def test_a_rate_limited_webhook_pauses_as_requested_up_to_a_day(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: SendResult(Verdict.SLOWER, "rate_limited", 429, wait_ns=90 * S)
    harness.fire()
    harness.run_for(100 * S, S)
    assert [(when - BEGIN_NS) // S for when, _ in harness.sender.sent] == [0, 90]
    harness.sender.answer = lambda _: SendResult(
        Verdict.SLOWER, "rate_limited", 429, wait_ns=90 * NANOS_PER_DAY
    )
    harness.run_for(2 * M, S)
    assert harness.log(row)[-1].next_ns == harness.log(row)[-1].at_ns + NANOS_PER_DAY
    assert harness.outbox.queue(row.id).failures == 0


def test_a_server_is_not_retried_before_its_retry_after(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: SendResult(Verdict.LATER, "status", 503, wait_ns=10 * M)
    harness.fire()
    harness.step()
    assert harness.log(row)[0].next_ns == BEGIN_NS + 10 * M


def test_a_chat_that_was_unreachable_gets_missed_alerts_in_one_line(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), Target.SLACK, sealed_secret=None)
    harness.sender.answer = lambda _: FAILED
    harness.fire(4)
    harness.run_for(4 * H, 10 * S)
    pauses = [when - BEGIN_NS for when, _ in harness.sender.sent]
    assert len(pauses) == 7
    assert pauses[-1] < 3 * H
    harness.sender.answer = lambda _: ARRIVED
    harness.fire()
    harness.run_for(5 * M, S)
    note = harness.sender.sent[-1][1]
    assert (note.missed, len(note.entries)) == (4, 1)
    harness.fire()
    harness.run_for(S * 3, S)
    assert harness.sender.sent[-1][1].missed == 0
    assert harness.outbox.backlog(row.user_id, row.id).dead == 4


def test_a_chat_that_was_disabled_gets_missed_alerts_once_enabled(harness: Harness) -> None:
    row = harness.subscribe(
        harness.person(), Target.DISCORD, sealed_secret=None, phase=SubscriptionPhase.DISABLED
    )
    harness.fire(7)
    harness.subscriptions.change_subscription(
        row.user_id,
        row.id,
        lambda subscription: replace(subscription, phase=SubscriptionPhase.ACTIVE, reason=""),
    )
    harness.fire()
    harness.run_for(S * 3, S)
    (sent,) = [message for _, message in harness.sender.sent]
    assert (sent.missed, len(sent.entries)) == (7, 1)


def test_a_rejected_message_fails_and_the_next_one_is_sent(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: SendResult(Verdict.REFUSED, "aborted", 400)
    harness.fire()
    harness.run_for(H, M)
    assert len(harness.sender.sent) == 1
    assert harness.outbox.backlog(row.user_id, row.id).dead == 1
    harness.sender.answer = lambda _: ARRIVED
    harness.fire()
    harness.run_for(S * 2, S)
    assert harness.log(row)[-1].outcome == "delivered"


def test_a_full_local_queue_does_not_count_as_an_attempt(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: SendResult(Verdict.BUSY, "too_busy")
    harness.fire()
    harness.step()
    assert harness.log(row) == []
    harness.sender.answer = lambda _: ARRIVED
    harness.clock.ns += 2 * S
    harness.step()
    assert [attempt.number for attempt in harness.log(row)] == [1]


def test_a_lasting_local_limit_is_waited_for(harness: Harness) -> None:
    harness.subscribe(harness.person(), Target.DISCORD, sealed_secret=None)
    harness.sender.answer = lambda _: SendResult(Verdict.BUSY, "too_busy", wait_ns=10 * M)
    harness.fire()
    harness.run_for(9 * M, S)
    assert len(harness.sender.sent) == 1


def test_a_sender_error_stops_no_other_delivery_and_is_retried(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    well = harness.subscribe(harness.person("bob@example.com"))

    def broken(message: object) -> SendResult:
        if getattr(message, "subscription").id == row.id:  # noqa: B009
            raise RuntimeError("a fault of ours")
        return ARRIVED

    harness.sender.answer = broken
    harness.fire()
    harness.step()
    assert [attempt.code for attempt in harness.log(row)] == ["our_fault"]
    assert [attempt.code for attempt in harness.log(well)] == ["ok"]


def test_a_url_that_cannot_be_decrypted_disables_the_webhook(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), sealed_address=b"\x01not sealed by us at all")
    harness.fire()
    harness.step()
    assert harness.phase(row).reason == "address_lost"
    assert harness.sender.sent == []


def test_three_permanently_refused_emails_disable_it(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None)
    harness.sender.answer = lambda _: SendResult(Verdict.BOUNCED, "mail_refused", 550)
    for _ in range(3):
        assert harness.phase(row).phase is SubscriptionPhase.ACTIVE
        harness.fire()
        harness.run_for(10 * M, M)
    assert (harness.phase(row).phase, harness.phase(row).reason) == (SubscriptionPhase.DISABLED, "bounced")


def test_a_digest_waits_for_its_window_except_critical_alerts(harness: Harness) -> None:
    """From 2026-01-02 15:04:05Z, an hourly digest is due at 16:00Z, 55 min 55 s later."""
    harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None, window="hour", at_once=True)
    harness.fire(2, severity="info")
    harness.fire(severity="critical")
    harness.run_for(H, 5 * S)
    sent = [
        ((when - BEGIN_NS) // S, [entry.alert.severity for entry in message.entries])
        for when, message in harness.sender.sent
    ]
    assert sent == [(0, ["critical"]), (55 * 60 + 55, ["info", "info"])]
    assert len({message.message_id for _, message in harness.sender.sent}) == 2


def test_a_worker_crash_before_recording_repeats_the_same_message_id(
    harness: Harness,
) -> None:
    harness.subscribe(harness.person())
    (alert,) = harness.fire()
    lost = harness.outbox.claim("dead", harness.clock.ns, 60 * S, 10, 10)
    assert harness.step() == 0
    harness.fire()
    harness.clock.ns += 61 * S
    assert harness.step() == 1
    ((_, message),) = harness.sender.sent
    assert message.message_id == lost[0].message_id
    assert [entry.alert.key for entry in message.entries] == [alert.key]


def test_every_pair_of_phase_and_sign_is_in_the_table_or_never_happens() -> None:
    pairs = {(phase, sign) for phase in EntryPhase for sign in Sign}
    assert set(TRANSITIONS) | NEVER == pairs
    assert not set(TRANSITIONS) & NEVER


@pytest.mark.parametrize(("chance", "want"), [(0.0, 4 * S), (0.5, 5 * S), (1.0, 6 * S)])
def test_pauses_are_spread_by_a_fifth(chance: float, want: int) -> None:
    assert pause_ns(Target.HTTPS, 1, lambda: chance) == want


def test_a_chat_message_is_retried_for_less_than_three_hours() -> None:
    pauses = [pause_ns(Target.SLACK, tries, lambda: 0.5) for tries in range(1, 8)]
    assert pauses == [5 * S, 30 * S, 2 * M, 10 * M, 30 * M, 2 * H, None]
