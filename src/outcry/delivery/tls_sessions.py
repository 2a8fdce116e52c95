"""TLS sessions to resume, so that a new connection to a verified server needs no certificates and signatures.

A resumed handshake does not verify the certificate again. So a session is used once, for the host name that was
verified, and only for some minutes after that verification, however often it was renewed. Sessions are in memory only.
Decision record 0067 says why this is safe.
"""

import ssl
from collections import OrderedDict
from dataclasses import dataclass

from outcry.base.clock import Clock
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

#: How long after the verification of a certificate its server is trusted without another one.
TRUSTED_NS = 10 * NANOS_PER_MINUTE
#: Sessions of an origin, and origins. A server may issue tickets of up to 128 kB, so both are limited.
MOST_SESSIONS, MOST_ORIGINS = 4, 256
#: What a session is bound to: trusted authorities, verified host name and port.
Origin = tuple[ssl.SSLContext, str, int]


@dataclass(frozen=True, slots=True)
class Trusted:
    """When a server's certificate was verified, and until when it is trusted without another verification."""

    verified_ns: int
    until_ns: int

    def holds_at(self, now_ns: int) -> bool:
        """Return whether the trust is valid. It is not if the clock was set back to before the verification."""
        return self.verified_ns <= now_ns < self.until_ns


class TlsSessions:
    """Resumable TLS sessions by origin. Used on one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: OrderedDict[Origin, list[tuple[ssl.SSLSession, Trusted]]] = OrderedDict()
        #: Origins where a handshake failed, and until when their sessions are not resumed.
        self._suspended: OrderedDict[Origin, int] = OrderedDict()

    def now_ns(self) -> int:
        """Return the current time (ns UTC), with which the end of trust is compared."""
        return self._clock.now_ns()

    def take(self, origin: Origin) -> tuple[ssl.SSLSession, Trusted] | None:
        """Remove and return the newest session of an origin; None if there is none that may be resumed now."""
        sessions, now_ns = self._sessions.get(origin), self._clock.now_ns()
        while sessions:
            session, trusted = sessions.pop()
            if trusted.holds_at(now_ns):
                return session, trusted
        return None

    def keep(self, origin: Origin, handshake: ssl.SSLObject, trusted: Trusted | None, began_ns: int) -> None:
        """Store the TLS session of a completed handshake, if the server issued one and there is room for it.

        Only sessions of TLS 1.3 are stored. Older versions would encrypt with the keys of an earlier connection.

        trusted: the trust of the session that the handshake offered, None if it offered none. A resumed session does
        not extend the trust. began_ns: start of the handshake.
        """
        if handshake.version() != "TLSv1.3" or self._is_suspended(origin):
            return
        sessions, now_ns = self._sessions.setdefault(origin, []), self._clock.now_ns()
        self._sessions.move_to_end(origin)
        sessions[:] = [stored for stored in sessions if stored[1].holds_at(now_ns)]
        if len(sessions) == MOST_SESSIONS:
            return
        session = handshake.session  # copied by OpenSSL, which takes as long as a third of a handshake
        if session is None or not session.has_ticket:
            return
        if trusted is None or not handshake.session_reused:
            trusted = Trusted(began_ns, min(began_ns + TRUSTED_NS, _expires_ns(handshake)))
        sessions.append((session, trusted))
        if len(self._sessions) > MOST_ORIGINS:
            self._sessions.popitem(last=False)

    def suspend(self, origin: Origin) -> None:
        """Forget the sessions of an origin after a failed handshake, and store none for some time.

        Its certificate may have changed, or it may fail to resume sessions.
        """
        self._sessions.pop(origin, None)
        self._suspended[origin] = self._clock.now_ns() + TRUSTED_NS
        self._suspended.move_to_end(origin)
        if len(self._suspended) > MOST_ORIGINS:
            self._suspended.popitem(last=False)

    def _is_suspended(self, origin: Origin) -> bool:
        return self._clock.now_ns() < self._suspended.get(origin, 0)


def _expires_ns(handshake: ssl.SSLObject) -> int:
    """Return when the verified certificate of a server expires."""
    certificate = handshake.getpeercert()
    return ssl.cert_time_to_seconds(str((certificate or {})["notAfter"])) * NANOS_PER_SECOND
