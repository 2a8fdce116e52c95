"""Which failures count against an endpoint over days: warnings, disabling, pauses, a changed URL, cancellation."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.delivery.delivery_harness import ARRIVED, BEGIN_NS, FAILED, Harness, open_harness

from outcry.delivery import queue_breaker
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.outbox_model import (
    NEVER,
    TRANSITIONS,
    Backlog,
    EntryPhase,
    Queue,
    Sign,
    moved_by,
)
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.signing_secrets import place_of
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

S, M, H, D = NANOS_PER_SECOND, NANOS_PER_MINUTE, NANOS_PER_HOUR, NANOS_PER_DAY


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with open_harness(tmp_path) as made:
        yield made


def slower(wait_ns: int) -> SendResult:
    return SendResult(Verdict.SLOWER, "rate_limited", 429, wait_ns=wait_ns, took_ms=3)


def sent_at(harness: Harness, since_ns: int = BEGIN_NS) -> list[int]:
    """Return the times of deliveries, in seconds after `since_ns`."""
    return [(when - since_ns) // S for when, _ in harness.sender.sent if when >= since_ns]


def change(harness: Harness, row: SubscriptionRow, **changes: object) -> None:
    harness.subscriptions.change_subscription(
        row.user_id,
        row.id,
        lambda kept: replace(kept, **changes),  # type: ignore[arg-type]
    )


# -- warnings and disabling


def test_two_failing_hours_five_days_apart_disable_nothing(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), Target.SLACK, sealed_secret=None)
    harness.sender.answer = lambda _: FAILED
    harness.fire()
    harness.run_for(4 * H, 30 * S)
    harness.clock.ns += 5 * D
    harness.fire()
    harness.run_for(4 * H, 30 * S)
    assert harness.phase(row).phase is SubscriptionPhase.ACTIVE
    assert harness.reported_missed.notices == [("Desk", 24)]


def test_warnings_and_the_end_come_one_at_a_time_half_a_day_apart() -> None:
    queue, warnings = Queue(), list[tuple[int, int]]()
    for hours in (0, 150, 151, 161, 162, 163, 173):
        now_ns = BEGIN_NS + hours * H
        queue = queue_breaker.failed(queue, now_ns)
        if queue_breaker.reason_off(queue):
            warnings.append((hours, 0))
        after = queue_breaker.warned(queue, now_ns)
        if after.warned > queue.warned:
            warnings.append((hours, after.warned))
        queue = after
    assert warnings == [(150, 1), (162, 2)]
    assert queue_breaker.reason_off(queue_breaker.failed(queue, BEGIN_NS + 174 * H)) == "failing"


def test_no_webhook_is_disabled_before_five_days() -> None:
    queue = Queue(failing_since_ns=BEGIN_NS, warned=2, warned_ns=BEGIN_NS + 3 * D)
    assert queue_breaker.reason_off(queue_breaker.failed(queue, BEGIN_NS + 5 * D - 1)) == ""
    assert queue_breaker.reason_off(queue_breaker.failed(queue, BEGIN_NS + 5 * D)) == "failing"


def test_an_endpoint_that_rejects_a_message_counts_as_reachable(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: FAILED
    harness.fire()
    harness.run_for(60 * H, 10 * M)
    queue = harness.outbox.queue(row.id)
    assert (queue.warned, queue.failures > 0) == (1, True)
    harness.sender.answer = lambda _: SendResult(Verdict.REFUSED, "aborted", 400, took_ms=3)
    harness.fire()
    harness.run_for(10 * M, M)
    queue = harness.outbox.queue(row.id)
    assert (queue.failures, queue.failing_since_ns, queue.failed_ns) == (0, None, None)
    assert (queue.warned, queue.warned_ns, queue.arrived_ns) == (0, None, None)


def test_ten_days_of_rate_limiting_warn_and_disable(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: slower(30 * M)
    for _ in range(20):
        harness.fire()
        harness.run_for(12 * H, 30 * M)
    assert (harness.phase(row).phase, harness.phase(row).reason) == (SubscriptionPhase.DISABLED, "failing")
    assert harness.reported_missed.notices == [("Desk", 24), ("Desk", 72), ("Desk", "failing")]
    assert harness.outbox.queue(row.id).failures == 0
    off_ns = harness.log(row)[-1].at_ns
    assert 5 * D <= off_ns - BEGIN_NS < 5 * D + 2 * H


# -- rate limits of the receiver


def test_rate_limiting_does_not_count_as_an_attempt(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    answers = iter([slower(30 * S)] * 9)
    harness.sender.answer = lambda _: next(answers, FAILED)
    harness.fire()
    harness.run_for(10 * M, S)
    log = harness.log(row)
    assert [attempt.number for attempt in log] == list(range(1, len(log) + 1))
    assert sent_at(harness)[:11] == [*range(0, 271, 30), 275]
    assert log[-1].outcome == "pending"
    harness.run_for(80 * H, 10 * M)
    assert len(harness.log(row)) == 9 + 10


@pytest.mark.parametrize("verdict", [Verdict.LATER, Verdict.REFUSED])
def test_nothing_is_sent_before_retry_after(harness: Harness, verdict: Verdict) -> None:
    harness.subscribe(harness.person())
    harness.sender.answer = lambda _: SendResult(verdict, "status", 503, wait_ns=H, took_ms=3)
    for _ in range(4):
        harness.fire()
        harness.run_for(5 * S, S)
    assert sent_at(harness) == [0]
    harness.run_for(H + M, M)
    assert len(harness.sender.sent) == 2


def test_a_mail_asked_to_come_later_waits_for_no_second_window(harness: Harness) -> None:
    harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None, window="day", at_once=True)
    answers = iter([slower(M)])
    harness.sender.answer = lambda _: next(answers, ARRIVED)
    harness.fire()
    harness.run_for(2 * M, S)
    assert sent_at(harness) == [0, 60]


def test_how_long_the_last_attempt_took_is_known(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    for sent in (replace(FAILED, took_ms=14_900), replace(ARRIVED, took_ms=2_000), slower(S)):
        harness.sender.answer = lambda _, sent=sent: sent
        harness.fire()
        harness.step()
        assert harness.outbox.queue(row.id).took_ms == sent.took_ms
        harness.clock.ns += 2 * S


# -- retries and changed URLs


def test_a_resent_message_has_the_complete_schedule(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), phase=SubscriptionPhase.DISABLED)
    harness.fire(3)
    harness.clock.ns += 6 * D
    change(harness, row, phase=SubscriptionPhase.ACTIVE, reason="")
    assert harness.outbox.resend_failed(row.user_id, row.id, 0, harness.clock.ns) == 3
    harness.sender.answer = lambda _: FAILED
    harness.run_for(80 * H, 10 * M)
    assert len(harness.log(row)) == 10


def test_a_chat_is_sent_again_what_its_owner_asks_for_however_old(harness: Harness) -> None:
    row = harness.subscribe(
        harness.person(), Target.SLACK, sealed_secret=None, phase=SubscriptionPhase.DISABLED
    )
    harness.fire(5)
    harness.clock.ns += 4 * H
    change(harness, row, phase=SubscriptionPhase.ACTIVE, reason="")
    harness.outbox.resend_failed(row.user_id, row.id, 0, harness.clock.ns)
    answers = iter([slower(S)])
    harness.sender.answer = lambda _: next(answers, ARRIVED)
    harness.run_for(3 * S, S)
    assert [attempt.outcome for attempt in harness.log(row)] == ["pending", "delivered"]


def test_a_failure_of_the_old_url_does_not_disable_the_new_one(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    new = harness.encryptor.encrypt("https://new.dev/x", place_of(row.user_id, row.created_ns))

    def gone(_parcel: object) -> SendResult:
        change(harness, row, sealed_address=new, shown="new.dev/…")
        harness.sender.answer = lambda _: ARRIVED
        return SendResult(Verdict.GONE, "gone", 410)

    harness.sender.answer = gone
    harness.fire()
    harness.run_for(10 * S, S)
    assert harness.phase(row).phase is SubscriptionPhase.ACTIVE
    assert harness.reported_missed.notices == []
    assert [address for address, _ in harness.sender.addresses] == [
        "https://hooks.mysite.dev/0042",
        "https://new.dev/x",
    ]
    assert harness.outbox.backlog(row.user_id, row.id) == Backlog(0, 0, 0)


def test_a_new_address_does_not_wait_as_the_old_one_asked(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.sender.answer = lambda _: slower(24 * H)
    harness.fire()
    harness.run_for(5 * S, S)
    harness.sender.answer = lambda _: ARRIVED
    new = harness.encryptor.encrypt("https://new.dev/x", place_of(row.user_id, row.created_ns))
    change(harness, row, sealed_address=new)
    assert harness.step() == 1
    assert harness.outbox.backlog(row.user_id, row.id) == Backlog(0, 0, 0)


def test_a_digest_follows_the_wish_that_its_reader_has_now(harness: Harness) -> None:
    """From 2026-01-02 15:04:05Z, the next quarter of an hour is 10 min 55 s later."""
    row = harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None, window="day")
    harness.fire(2, severity="info")
    harness.step()
    change(harness, row, window="quarter")
    harness.run_for(H, 5 * S)
    assert sent_at(harness) == [655]


# -- expired alerts


def test_a_chat_paused_for_days_gets_one_line_only(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), Target.SLACK, sealed_secret=None)
    harness.fire(3)
    change(harness, row, phase=SubscriptionPhase.PAUSED)
    harness.clock.ns += 10 * D
    change(harness, row, phase=SubscriptionPhase.ACTIVE)
    harness.run_for(10 * S, S)
    assert harness.sender.sent == []
    assert [(one.outcome, one.code, one.status) for one in harness.log(row)] == [("dead", "expired", None)]
    harness.fire()
    harness.run_for(10 * S, S)
    (note,) = [message for _, message in harness.sender.sent]
    assert (note.missed, len(note.entries)) == (3, 1)


def test_an_endpoint_paused_for_days_gets_what_it_wants_only_when_asked_for(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    harness.fire()
    change(harness, row, phase=SubscriptionPhase.PAUSED)
    harness.clock.ns += 10 * D
    change(harness, row, phase=SubscriptionPhase.ACTIVE)
    harness.step()
    assert (harness.sender.sent, harness.outbox.queue(row.id)) == ([], Queue())
    assert harness.outbox.backlog(row.user_id, row.id) == Backlog(0, 0, 1)
    harness.outbox.resend_failed(row.user_id, row.id, 0, harness.clock.ns)
    harness.clock.ns += S
    assert harness.step() == 1
    assert len(harness.sender.sent) == 1


def test_a_digest_of_yesterday_is_not_past_its_use_before_its_window_ends(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None, window="day")
    harness.fire(severity="info")
    harness.run_for(25 * H, 10 * M)
    assert [attempt.code for attempt in harness.log(row)] == ["ok"]


# -- the transition table


def test_what_is_done_to_many_at_once_is_done_to_those_the_table_names() -> None:
    assert moved_by(Sign.COUNTED) == {EntryPhase.MISSED, EntryPhase.HELD}
    assert moved_by(Sign.SWITCHED_OFF) == {EntryPhase.WAITING}
    assert moved_by(Sign.ASKED_FOR) == set(EntryPhase) - {EntryPhase.WAITING}
    assert moved_by(Sign.FORGOTTEN) == {EntryPhase.WAITING, EntryPhase.HELD}
    for sign in Sign:
        for phase in moved_by(sign):
            assert (phase, sign) not in NEVER
            assert TRANSITIONS[phase, sign] is not phase
