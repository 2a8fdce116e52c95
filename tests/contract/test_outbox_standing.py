"""The operator's summary of delivery over all users."""

from dataclasses import replace

import pytest
from tests.contract.databases import Place
from tests.contract.outbox_harness import Harness, S

from outcry.delivery.model import SubscriptionPhase
from outcry.delivery.outbox_model import DeliveryStatus


@pytest.fixture
def harness(place: Place) -> Harness:
    return Harness(place.open())


def test_subscriptions_are_counted_by_phase_whoever_has_them(harness: Harness) -> None:
    assert harness.outbox.status(harness.now_ns) == DeliveryStatus({}, failing=0, late=0)
    for user_id, phase in ((1, "active"), (2, "active"), (2, "paused"), (1, "disabled"), (2, "unconfirmed")):
        harness.subscribe(user_id=user_id, phase=SubscriptionPhase(phase))
    phases = harness.outbox.status(harness.now_ns).phases
    assert phases == {phase: 2 if phase is SubscriptionPhase.ACTIVE else 1 for phase in SubscriptionPhase}


def test_what_has_been_due_for_a_minute_is_late(harness: Harness) -> None:
    harness.subscribe()
    paused = harness.subscribe()
    harness.fire()
    harness.change(paused, phase=SubscriptionPhase.PAUSED)
    for seconds, late in ((0, 0), (60, 0), (61, 1)):
        assert harness.outbox.status(harness.now_ns + seconds * S).late == late
    harness.finish(harness.claim_one())
    assert harness.outbox.status(harness.now_ns + 61 * S).late == 0


def test_a_lane_that_fails_counts_while_its_subscription_is_active(harness: Harness) -> None:
    number = harness.subscribe()
    harness.fire()
    message = harness.claim_one()
    failing = replace(message.queue, failing_since_ns=harness.now_ns, failures=1)
    harness.outbox.record([replace(harness.done(message), queue=failing)])
    assert harness.outbox.status(harness.now_ns).failing == 1
    harness.change(number, phase=SubscriptionPhase.DISABLED)
    assert harness.outbox.status(harness.now_ns).failing == 0
