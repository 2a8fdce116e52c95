"""Stands where alerts will be delivered from: judges addresses by what they say of themselves, and delivers nothing.

Rule kept: it never claims to have sent anything. What a name resolves to is for the deliverer.
"""

from outcry.deliver.address import Place, read_rule
from outcry.ports.delivery import SubscriptionRow, Target, TestResult

OK = "ok"
NOT_RUNNING = "delivery_not_running"


class PendingDeliverer:
    """Implements `ports.delivery.Deliverer` for a service that does not deliver yet."""

    running = False

    def judge(self, target: Target, address: str) -> str:
        """See `Deliverer`."""
        if target is Target.EMAIL:
            return OK
        place = read_rule().judge(address)
        return OK if isinstance(place, Place) else place

    def test(self, row: SubscriptionRow, address: str, secret: str | None) -> TestResult:
        """See `Deliverer`: nothing is sent."""
        return TestResult(NOT_RUNNING, None, 0, (), "", "")
