"""Disk quotas of pushed feeds by user, and the reserve of free disk space that no push may use.

The quota covers a user's live logs and tape (stored trades), imports included. Their size is measured off the event
loop, at most twice a minute; pushes admitted in between are added. A user is warned from 80 % of the quota on. The
operator has no quota.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic

from outcry.access.licences import OPERATOR
from outcry.base.log_events import LogEvent, Report
from outcry.market.instruments import Contract
from outcry.trades.push_format import Usage, refused

MEASURED_S = 30.0
#: Retry delay while the disk is nearly full.
RETRY_MS = 5_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The quota of each user. limit_bytes: 0 for no limit."""

    limit_bytes: int
    limit_streams: int


class Quotas:
    """Disk space that each user's pushed feeds use, compared with the user's quota.

    measure: returns how many bytes a user has on disk; blocks. streams_of: returns feed and contract of each stream of
    a user. is_short: returns whether the disk has less free space than its reserve. Not thread-safe: use it on one
    event loop.
    """

    def __init__(
        self, limits: Limits, measure: Callable[[int], int],
        streams_of: Callable[[int], Collection[tuple[str, Contract]]], is_short: Callable[[], bool], report: Report,
        now_s: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        self.limits = limits
        self._measure, self._streams_of, self._is_short = measure, streams_of, is_short
        self._report, self._now_s = report, now_s
        #: When the bytes of a user were measured, and how many there were.
        self._measured: dict[int, tuple[float, int]] = {}
        self._measuring: dict[int, asyncio.Future[int]] = {}
        #: State last logged for a user: none, `near` or `over`.
        self._logged: dict[int, str] = {}

    async def usage(self, owner: int) -> Usage:
        """Return how much of the quota a user has used."""
        count = await self._bytes(owner)
        return Usage(count, self.limits.limit_bytes, len(self._streams_of(owner)), self.limits.limit_streams)

    async def admit(self, owner: int, size_bytes: int = 0) -> None:
        """Check that a push of this size may be stored, and add the size to the usage.

        Raises `InvalidRequest` with the reason `disk_reserve` or `quota`.
        """
        if self._is_short():
            raise refused("disk_reserve", retry_after_ms=RETRY_MS)
        if owner == OPERATOR or not self.limits.limit_bytes:
            return
        usage = await self.usage(owner)
        self._note(owner, usage)
        if usage.is_over:
            raise refused("quota", used_bytes=usage.used_bytes, limit_bytes=usage.limit_bytes)
        measured_s, count = self._measured[owner]
        self._measured[owner] = measured_s, count + size_bytes

    async def _bytes(self, owner: int) -> int:
        measured_s, count = self._measured.get(owner, (float("-inf"), 0))
        if self._now_s() - measured_s < MEASURED_S:
            return count
        under_way = self._measuring.get(owner)
        if under_way is None:
            under_way = self._measuring[owner] = asyncio.ensure_future(self._measure_now(owner))
        return await asyncio.shield(under_way)

    async def _measure_now(self, owner: int) -> int:
        try:
            count = await asyncio.to_thread(self._measure, owner)
            self._measured[owner] = self._now_s(), count
            return count
        finally:
            del self._measuring[owner]

    def _note(self, owner: int, usage: Usage) -> None:
        """Log once when a user approaches the quota, and once when it is exceeded."""
        level = "over" if usage.is_over else "near" if usage.is_near else ""
        if level != self._logged.get(owner, ""):
            self._logged[owner] = level
            if level:
                event = LogEvent.PUSH_QUOTA_EXCEEDED if level == "over" else LogEvent.PUSH_QUOTA_WARNING
                self._report(
                    event, user_id=owner, used_bytes=usage.used_bytes, limit_bytes=usage.limit_bytes,
                    streams=usage.streams, limit_streams=usage.limit_streams,
                )  # fmt: skip
