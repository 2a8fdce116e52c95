"""Feeds that users' own programs push to this service, shown as connections.

The list is read from the registry of live streams on each request; nothing is stored. Users see only their own feeds.
"""

from collections.abc import Collection, Sequence
from zlib import crc32

from outcry.access.licences import Scope
from outcry.connections.model import ConnectionPhase, ConnectionRow
from outcry.live.registry import Channel, Registry

#: The `broker` of a pushed feed.
PUSHED = "pushed"
#: Codes that require a new sign-in.
LOGIN_CODES = frozenset({"login_refused", "login_expired"})
_LIVE, _FAILED = ConnectionPhase.LIVE, ConnectionPhase.FAILED
#: Phase of a connection by its stream's reason; any other reason is the feed's own refusal code. Of several streams,
#: the connection shows the one that comes first here.
_PHASES: dict[str, ConnectionPhase] = {
    **dict.fromkeys(("live", "not_front", "no_trades", "no_prior", "incomplete", "closed"), _LIVE),
    "catching_up": ConnectionPhase.CATCHING_UP,
    "connecting": ConnectionPhase.CONNECTING,
    **dict.fromkeys(
        ("stale_market", "stale_link", "degraded", "log_stalled", "unsubscribed", "disconnected"),
        ConnectionPhase.DEGRADED,
    ),
    "ended": ConnectionPhase.PAUSED,
}
_ORDER = list(_PHASES)


class PushedConnections:
    """Connections for the feeds that a user's programs push.

    Such a connection ends when its program stops or its key is revoked.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def connections(self, user_id: int, others: Collection[str] = ()) -> Sequence[ConnectionRow]:
        """Return the feeds that a user's programs push, as connections, sorted by name.

        Feeds named in `others` are left out. `since_ns`: the feed's newest reported time.
        """
        feeds: dict[str, list[Channel]] = {}
        for seen in self._registry.channels(Scope(user_id, ())):
            if seen.channel.key.owner == user_id and seen.channel.key.feed not in others:
                feeds.setdefault(seen.channel.key.feed, []).append(seen.channel)
        return [_row(user_id, name, channels) for name, channels in sorted(feeds.items())]


def _row(user_id: int, name: str, channels: Sequence[Channel]) -> ConnectionRow:
    best = min(channels, key=lambda channel: _rank(channel.availability.reason))
    reason = best.availability.reason
    # The agent reports the reason.
    code = best.feed_code or reason if reason in {"unsubscribed", "disconnected"} else reason
    phase = ConnectionPhase.NEEDS_SIGN_IN if code in LOGIN_CODES else _PHASES.get(reason, _FAILED)
    return ConnectionRow(
        id=crc32(name.encode()), user_id=user_id, broker=PUSHED, label=name,
        phase=phase, code=code,
        since_ns=max(channel.availability.market_ns for channel in channels),
        symbols=tuple(sorted({channel.key.contract.root for channel in channels})),
    )  # fmt: skip


def _rank(reason: str) -> int:
    return _ORDER.index(reason) if reason in _ORDER else len(_ORDER)
