"""The feeds a person's own programs push, as connections of that person.

Rule kept: a user is shown that user's own feeds and nobody else's, as the registry has them now; nothing is kept.
"""

from collections.abc import Collection, Sequence
from zlib import crc32

from outcry.access.licences import Scope
from outcry.connections.model import ConnectionPhase, ConnectionRow
from outcry.live.registry import Channel, Registry

#: What a pushed feed goes by in the place of a broker.
PUSHED = "pushed"
#: What only signing in anew mends.
LOGIN_CODES = frozenset({"login_refused", "login_expired"})
_LIVE, _FAILED = ConnectionPhase.LIVE, ConnectionPhase.FAILED
#: What a stream's reason means for the connection that brings it; any other is the feed's own, for why it refuses.
#: A connection shows the best of its streams: the first of these phases.
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
    """A user's feeds that programs of the user's push. Such a feed ends when its program stops or its key is revoked,
    not on a page."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def connections(self, user_id: int, others: Collection[str] = ()) -> Sequence[ConnectionRow]:
        """See `Connections`; feeds named as `others` are none of these. `since_ns` is the newest time the feed itself
        has told."""
        feeds: dict[str, list[Channel]] = {}
        for seen in self._registry.channels(Scope(user_id, ())):
            if seen.channel.key.owner == user_id and seen.channel.key.feed not in others:
                feeds.setdefault(seen.channel.key.feed, []).append(seen.channel)
        return [_row(user_id, name, channels) for name, channels in sorted(feeds.items())]


def _row(user_id: int, name: str, channels: Sequence[Channel]) -> ConnectionRow:
    best = min(channels, key=lambda channel: _rank(channel.availability.reason))
    reason = best.availability.reason
    code = (
        best.feed_code or reason if reason in {"unsubscribed", "disconnected"} else reason
    )  # the agent says why
    phase = ConnectionPhase.NEEDS_SIGN_IN if code in LOGIN_CODES else _PHASES.get(reason, _FAILED)
    return ConnectionRow(
        id=crc32(name.encode()), user_id=user_id, broker=PUSHED, label=name,
        phase=phase, code=code,
        since_ns=max(channel.availability.market_ns for channel in channels),
        symbols=tuple(sorted({channel.key.contract.root for channel in channels})),
    )  # fmt: skip


def _rank(reason: str) -> int:
    return _ORDER.index(reason) if reason in _ORDER else len(_ORDER)
