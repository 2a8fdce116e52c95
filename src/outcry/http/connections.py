"""Which connections are served: so many of one client, and only while descriptors are left for the rest of the service.

Rules kept: a refused connection costs those who are served nothing: the last descriptors are kept for the database, the
log and feeds. The log has at most one line of each kind in ten seconds. Proxies that are named, and this machine, may
have as many as they need: a proxy brings everybody's.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from time import monotonic

try:
    import resource
except ModuleNotFoundError:  # not on Windows, where there is no such limit
    resource = None

from outcry.access.client_address import network
from outcry.base.log_events import EventLog, LogEvent
from outcry.http.errors import Problem

#: This machine: its proxy, its probes and whoever could stop the service anyway.
LOOPBACK = "127.0.0.0/8,::1"
#: Refused connections that may stay open for a moment, so that their clients can read why.
_MOST_LINGERING = 16
_LOG_EVERY_S = 10.0
_CLOSE = (b"connection", b"close")
_FULL = Problem("starting", "starting.full", headers=((b"retry-after", b"5"), _CLOSE))


class Connections:
    """Count the connections of one server. `most_per_client`: 0 for no cap; `uncapped`: addresses and networks without
    one, comma-separated; `descriptors`: how many files the process may have open, None where nothing tells."""

    def __init__(
        self, event_log: EventLog, most_per_client: int = 0, uncapped: str = "", descriptors: int | None = None,
        now_s: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        self._event_log, self._now_s = event_log, now_s
        self._most = most_per_client
        self._uncapped = _networks(uncapped)
        self._open = Counter[str]()
        self._lingering = 0
        self.descriptors = descriptors
        self.reserve = _reserved(descriptors) if descriptors is not None else 0
        self._silent_until_s = dict[str, float]()
        self._unlogged = Counter[str]()

    def open_of(self, address: str) -> int:
        """How many connections a client has."""
        return self._open[network(address)]

    def enter(self, address: str, descriptor: int) -> Problem | None:
        """Count a connection of a client, or return why it is refused and leave it uncounted. `descriptor`: the number
        of its socket. The system gives the lowest that is free, so all below are in use."""
        if self.descriptors is not None and descriptor >= self.descriptors - self.reserve:
            self.exhausted()
            return _FULL
        client = network(address)
        if self._most and self._open[client] >= self._most and not self._is_spared(address):
            self._log(LogEvent.TOO_MANY_CONNECTIONS, client=client, limit=self._most)
            words = {"limit": self._most}
            headers = ((b"retry-after", b"5"), _CLOSE)
            return Problem(
                "rate_limited", "rate_limited.connections", {"retry_after_ms": 5000}, headers, words
            )
        self._open[client] += 1
        return None

    def leave(self, address: str) -> None:
        """Forget a connection that was counted."""
        client = network(address)
        self._open[client] -= 1
        if self._open[client] <= 0:
            del self._open[client]

    def may_linger(self) -> bool:
        """Count a refused connection that stays open until its client has read why, unless there are enough."""
        if self._lingering >= _MOST_LINGERING:
            return False
        self._lingering += 1
        return True

    def lingered(self) -> None:
        """Forget a refused connection that has ended."""
        self._lingering -= 1

    def watch(self) -> None:
        """Log if descriptors have run out, whoever uses them: uvloop closes connections it cannot accept silently."""
        if self.descriptors is None:
            return
        try:
            probe = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            self.exhausted()
            return
        os.close(probe)
        if probe >= self.descriptors - self.reserve // 2:
            self.exhausted()

    def exhausted(self) -> None:
        """Log that descriptors run out."""
        self._log(LogEvent.OUT_OF_DESCRIPTORS, limit=self.descriptors, reserve=self.reserve)

    def _is_spared(self, address: str) -> bool:
        """Whether an address may have as many as it needs; only asked of those that have the most."""
        try:
            found = ip_address(address)
        except ValueError:  # a socket of this machine's file system has none
            return True
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in each for each in self._uncapped)

    def _log(self, event: LogEvent, **values: object) -> None:
        self._unlogged[event] += 1
        now_s = self._now_s()
        if now_s >= self._silent_until_s.get(event, now_s):
            self._silent_until_s[event] = now_s + _LOG_EVERY_S
            self._event_log.warning(event, times=self._unlogged.pop(event), **values)


def most_descriptors() -> int | None:
    """How many files this process may have open; None where the system does not tell."""
    if resource is None:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _reserved(descriptors: int) -> int:
    """How many descriptors connections leave to the database, tape, log, feeds and webhooks: an eighth, at least 64,
    at most 1,024, and never more than half."""
    return min(max(descriptors // 8, 64), 1024, descriptors // 2)


def _networks(text: str) -> Sequence[IPv4Network | IPv6Network]:
    """Read addresses and networks. Raises `ValueError`."""
    return [ip_network(one.strip(), strict=False) for one in text.split(",") if one.strip()]
