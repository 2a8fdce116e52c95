"""Disk quotas of users' pushed feeds, and the reserve of the disk."""

import asyncio

import pytest

from outcry.base.errors import InvalidRequest
from outcry.live.quotas import MEASURED_S, Limits, Quotas
from outcry.market.instruments import Contract
from outcry.trades.push_format import Usage

USER = 7
ES = Contract("ES", 2026, 12)


class Stand:
    """Quotas with one user whose usage, disk space and time a test sets."""

    def __init__(self, limit_bytes: int = 1000, limit_streams: int = 5) -> None:
        self.bytes, self.streams, self.short, self.now_s, self.measured = 0, 0, False, 0.0, 0
        self.reports: list[tuple[str, dict[str, object]]] = []
        self.quotas = Quotas(
            Limits(limit_bytes, limit_streams), self._measure,
            lambda _user: [(f"f{n}", ES) for n in range(self.streams)], lambda: self.short,
            lambda event, **details: self.reports.append((event, details)), lambda: self.now_s,
        )  # fmt: skip

    def _measure(self, owner: int) -> int:
        assert owner == USER
        self.measured += 1
        return self.bytes

    def later(self, count: int) -> None:
        """Set the bytes in use, and advance the time until they are measured again."""
        self.bytes, self.now_s = count, self.now_s + MEASURED_S

    def admit(self, owner: int = USER) -> None:
        asyncio.run(self.quotas.admit(owner))

    def refusal(self, owner: int = USER) -> dict[str, object]:
        with pytest.raises(InvalidRequest) as problem:
            self.admit(owner)
        return problem.value.details


def test_a_user_is_admitted_up_to_the_quota_and_warned_from_eighty_percent_on() -> None:
    """Of 1,000 bytes, 799 cause no warning, 800 a warning, 1,000 a refusal. Each of the last two is logged once."""
    stand = Stand()
    for count, near in ((799, False), (800, True), (999, True)):
        stand.later(count)
        stand.admit()
        stand.admit()
        assert asyncio.run(stand.quotas.usage(USER)).is_near is near
    stand.later(1000)
    for _ in range(2):
        assert stand.refusal() == {"reason": "quota", "used_bytes": 1000, "limit_bytes": 1000}
    events = [(event, details["used_bytes"]) for event, details in stand.reports]
    assert events == [("push_quota_warning", 800), ("push_quota_exceeded", 1000)]
    stand.later(10)
    stand.admit()
    stand.later(1000)
    stand.refusal()
    assert len(stand.reports) == 3


def test_admitted_bytes_count_before_they_are_measured() -> None:
    """Three pushes of 400 bytes: usage is 0, 400 and 800 of 1,000 before them, then 1,200, which is over."""
    stand = Stand()
    for _ in range(3):
        asyncio.run(stand.quotas.admit(USER, 400))
    assert stand.refusal() == {"reason": "quota", "used_bytes": 1200, "limit_bytes": 1000}
    stand.later(900)
    stand.admit()


def test_bytes_are_measured_twice_a_minute_at_most() -> None:
    stand = Stand()
    for _ in range(100):
        stand.admit()
    assert stand.measured == 1
    stand.now_s += MEASURED_S - 0.1
    stand.admit()
    assert stand.measured == 1
    stand.now_s += 0.1
    stand.admit()
    assert stand.measured == 2


def test_pushes_at_the_same_time_share_one_measurement() -> None:
    stand = Stand()

    async def many() -> None:
        await asyncio.gather(*(stand.quotas.admit(USER) for _ in range(20)))

    asyncio.run(many())
    assert stand.measured == 1


def test_even_the_operator_cannot_push_into_the_disk_reserve() -> None:
    stand = Stand()
    stand.short = True
    for owner in (0, USER):
        assert stand.refusal(owner) == {"reason": "disk_reserve", "retry_after_ms": 5000}
    stand.short = False
    stand.admit(0)
    assert stand.measured == 0


def test_streams_count_for_the_warning() -> None:
    """4 of 5 streams are 80 %. Without a limit on bytes, only streams count."""
    assert not Usage(10**12, 0, 3, 5).is_near
    assert Usage(10**12, 0, 4, 5).is_near
    assert not Usage(10**12, 0, 5, 5).is_over
