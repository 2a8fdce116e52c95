"""What stands where alerts will be delivered from: it judges addresses by what they say, and sends nothing."""

from outcry.deliver.pending import PendingDeliverer
from outcry.ports.delivery import Target


def test_nothing_is_sent_and_nothing_is_said_to_have_been() -> None:
    deliverer = PendingDeliverer()
    assert deliverer.running is False
    assert deliverer.judge(Target.EMAIL, "ann@example.com") == "ok"
    assert deliverer.judge(Target.HTTPS, "https://10.0.0.1/") == "endpoint_private"
