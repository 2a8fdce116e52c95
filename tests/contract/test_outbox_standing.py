"""The operator's summary of delivery over all users."""

from dataclasses import replace

import pytest
from tests.contract.databases import Place
from tests.contract.outbox_harness import S, Stage

from outcry.delivery.model import SubscriptionPhase
from outcry.delivery.outbox_model import DeliveryStatus


@pytest.fixture
def stage(place: Place) -> Stage:
    return Stage(place.open())


def test_subscriptions_are_counted_by_phase_whoever_has_them(stage: Stage) -> None:
    assert stage.outbox.standing(stage.now_ns) == DeliveryStatus({}, failing=0, late=0)
    for user_id, phase in ((1, "active"), (2, "active"), (2, "paused"), (1, "disabled"), (2, "unconfirmed")):
        stage.subscribe(user_id=user_id, phase=SubscriptionPhase(phase))
    phases = stage.outbox.standing(stage.now_ns).phases
    assert phases == {phase: 2 if phase is SubscriptionPhase.ACTIVE else 1 for phase in SubscriptionPhase}


def test_what_has_been_due_for_a_minute_is_late(stage: Stage) -> None:
    stage.subscribe()
    paused = stage.subscribe()
    stage.fire()
    stage.change(paused, phase=SubscriptionPhase.PAUSED)
    for seconds, late in ((0, 0), (60, 0), (61, 1)):
        assert stage.outbox.standing(stage.now_ns + seconds * S).late == late
    stage.finish(stage.claim_one())
    assert stage.outbox.standing(stage.now_ns + 61 * S).late == 0


def test_a_lane_that_fails_counts_while_its_subscription_is_active(stage: Stage) -> None:
    number = stage.subscribe()
    stage.fire()
    message = stage.claim_one()
    failing = replace(message.queue, failing_since_ns=stage.now_ns, failures=1)
    stage.outbox.record([replace(stage.done(message), queue=failing)])
    assert stage.outbox.standing(stage.now_ns).failing == 1
    stage.change(number, phase=SubscriptionPhase.DISABLED)
    assert stage.outbox.standing(stage.now_ns).failing == 0
