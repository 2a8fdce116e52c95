"""Limits on connections: a maximum per client, and a reserve of file descriptors that connections may not use.

The reserve is for the database, the log and feeds. Each kind of refusal is logged at most once in ten seconds. Trusted
proxies and this machine have no limit, because a proxy forwards the connections of all clients.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from time import monotonic

from outcry.access.client_address import network
from outcry.base.log_events import EventLog, LogEvent
from outcry.http.errors import Problem

#: This machine: its proxy and probes. Local users could stop the service anyway.
LOOPBACK = "127.0.0.0/8,::1"
#: Refused connections that may stay open briefly, so that clients can read the reason.
_MOST_LINGERING = 16
_LOG_EVERY_S = 10.0
_CLOSE = (b"connection", b"close")
_FULL = Problem("starting", "starting.full", headers=((b"retry-after", b"5"), _CLOSE))


class Connections:
    """Counts the open connections of one server, and refuses further ones at a limit.

    `most_per_client`: 0 for no limit. `uncapped`: comma-separated IP addresses and networks without a limit.
    `descriptors`: number of files that the process may have open, None if there is no limit.
    """

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
        """Return the number of open connections of a client."""
        return self._open[network(address)]

    def enter(self, address: str, descriptor: int) -> Problem | None:
        """Count a new connection, or return why it is refused. `descriptor`: the file descriptor of its socket.

        The system assigns the lowest free descriptor, so `descriptor` also tells how many are in use.
        """
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
        """Stop counting a connection that has ended."""
        client = network(address)
        self._open[client] -= 1
        if self._open[client] <= 0:
            del self._open[client]

    def may_linger(self) -> bool:
        """Return whether a refused connection may stay open until its client has read the reason; if so, count it.

        Return False if the maximum number of refused connections is open.
        """
        if self._lingering >= _MOST_LINGERING:
            return False
        self._lingering += 1
        return True

    def lingered(self) -> None:
        """Stop counting a refused connection that has ended."""
        self._lingering -= 1

    def watch(self) -> None:
        """Log if the process has run out of file descriptors.

        uvloop reports no error when it closes a connection that it cannot accept.
        """
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
        """Log that the process has run out of file descriptors."""
        self._log(LogEvent.OUT_OF_DESCRIPTORS, limit=self.descriptors, reserve=self.reserve)

    def _is_spared(self, address: str) -> bool:
        """Return whether an IP address is exempt from the limit. Called only for a client that has reached it."""
        try:
            found = ip_address(address)
        except ValueError:  # a Unix domain socket has no address
            return True
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in each for each in self._uncapped)

    def _log(self, event: LogEvent, **values: object) -> None:
        self._unlogged[event] += 1
        now_s = self._now_s()
        if now_s >= self._silent_until_s.get(event, now_s):
            self._silent_until_s[event] = now_s + _LOG_EVERY_S
            self._event_log.warning(event, times=self._unlogged.pop(event), **values)


def _reserved(descriptors: int) -> int:
    """Return how many file descriptors are reserved for the database, the log and feeds.

    It is an eighth of all, at least 64, at most 1,024, and never more than half.
    """
    return min(max(descriptors // 8, 64), 1024, descriptors // 2)


def _networks(text: str) -> Sequence[IPv4Network | IPv6Network]:
    """Parse comma-separated IP addresses and networks. Raises `ValueError`."""
    return [ip_network(one.strip(), strict=False) for one in text.split(",") if one.strip()]
