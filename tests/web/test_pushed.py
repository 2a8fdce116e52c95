"""An alert of the demo from its webhook's creation to the receiver's page and the webhook's log, over TLS.

Only the name service is replaced.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.timeouts import wait_until
from tests.web.account_harness import Member, Read
from tests.web.harness import WebHarness, demo_service
from tests.web.test_journey import next_alert
from tests.web.webhook_harness import secret_on, stored_rows, wish

from outcry.base.clock import SystemClock
from outcry.delivery.resolver import GuardedResolver, StaticResolver
from outcry.delivery.sink_server import receiver


@pytest.fixture
def receiving(tmp_path: Path) -> Iterator[WebHarness]:
    loopback = StaticResolver(["127.0.0.1"])
    here = partial(GuardedResolver, public=loopback, private=loopback)
    with (
        receiver(tmp_path / "receiver", SystemClock()) as received,
        patch("outcry.app.channels.GuardedResolver", here),
        demo_service(tmp_path / "service", received) as harness,
    ):
        yield harness


def test_an_alert_of_the_demonstration_arrives_at_its_receiver_signed(receiving: WebHarness) -> None:
    sink = receiving.installation.sink
    assert sink is not None
    ann = Member(receiving, "ann@example.com")
    page = ann.send(
        "/account/webhooks", wish(address=sink.address, label="Mine", min_severity="info", symbols=["ES"])
    )
    secret = secret_on(ann.follow(page))
    ann.follow(ann.send("/sink/secret", {"secret": secret}))
    (webhook,) = stored_rows(receiving, ann)

    next_alert(receiving, "ES")
    shown = _once(lambda: Read(ann.get("/sink")).text, "valid signature")
    receipt = sink.receipts[-1]
    numbers = receipt.header("outcry-seq").split()
    assert numbers == [f"ES={number}" for number in range(1, len(numbers) + 1)]
    assert '"symbol": "ES"' in shown
    assert receipt.message_id in shown
    assert "invalid signature" not in shown

    logged = _once(lambda: Read(ann.get(f"/account/webhooks/{webhook.id}")).text, "attempt 1")
    assert f"{receipt.message_id} Delivered" in logged
    assert "Response body received" in logged
    assert secret not in logged
    assert receiving.faults() == []


def _once(look: Callable[[], str], part: str) -> str:
    """What is seen once this is in it."""
    wait_until(lambda: part in look(), lambda: f"{part!r} is not seen: {look()[:500]}", poll_s=0.1)
    return look()
