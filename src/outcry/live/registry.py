"""The registry of live streams: the current state and the newest alerts of each stream, in the memory of this process.

A channel is the registry's entry of one stream. A stream is live only while its feed is connected, caught up and not
stale, and a session is open by the feed's clock. A user's feed never provides the answer to another user's request. An
alert enters the registry only after the database has recorded it.
"""

import threading
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from outcry.access.licences import OPERATOR, Scope
from outcry.live.model import AlertRow, Frame, StreamKey
from outcry.market.instruments import Contract
from outcry.market.live_session import LiveView

LiveSource = Literal["personal", "shared"]

#: Maximum number of alerts in memory, for event streams that resume. Older ones are read from the store.
ALERTS_CACHED = 20_000


_OF_A_LIVE_FEED = frozenset(
    {"live", "catching_up", "stale_link", "stale_market", "unsubscribed", "disconnected", "closed", "no_trades",
     "no_prior", "degraded", "incomplete", "not_front", "log_stalled"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether requests for a stream get a live answer, and if not, why.

    reason: `live`, `connecting`, `catching_up`, `stale_link`, `stale_market`, `unsubscribed`, `disconnected`, `closed`,
    `no_trades`, `no_prior`, `degraded`, `incomplete`, `log_stalled`, `ended`, `not_front`, or the code with which the
    feed refused. market_ns: the feed's clock (ns UTC). trade_date: the current one of the stream.
    """

    live: bool
    reason: str
    market_ns: int
    trade_date: date | None

    @property
    def answers(self) -> bool:
        """Whether requests for the stream's contract get a live answer.

        This includes contracts other than the front.
        """
        return self.live or self.reason == "not_front"

    @property
    def listed(self) -> bool:
        """Whether alerts of the stream are shown as live.

        They are shown while the feed is connected, has trouble, or its session is closed; not after it has ended or
        refused.
        """
        return self.reason in _OF_A_LIVE_FEED


class Channel:
    """The registry's entry of one stream. `version` increases whenever responses about the stream change.

    peek: computes the view of the current session, None before its first trade. It is called once per version, under
    the stream's lock. read_log: reads the stream's log from a position on; None if this process cannot.
    """

    def __init__(
        self, key: StreamKey, *, simulated: bool, peek: Callable[[], LiveView | None],
        read_log: Callable[[int], Iterator[Frame]] | None = None,
    ) -> None:  # fmt: skip
        self.key, self.simulated, self.read_log = key, simulated, read_log
        self.version = 0
        #: The log position at which this process acquired the stream; of two processes the later one takes precedence.
        self.acquired_at = 0
        self.availability = Availability(live=False, reason="connecting", market_ns=0, trade_date=None)
        #: The feed's own code for why it does not send this stream; empty while it does.
        self.feed_code = ""
        #: Objects that compute this channel's answers, cached by `answers.live_answers`.
        self.cached_answers: dict[object, Any] = {}
        self._peek = peek
        self._seen: tuple[int, LiveView | None] = (-1, None)

    def view(self) -> LiveView | None:
        """Return the view of the stream's current session. Safe from any thread."""
        version = self.version  # read first: a change during the computation is then computed again
        if self._seen[0] != version:
            self._seen = (version, self._peek())
        return self._seen[1]


@dataclass(frozen=True, slots=True)
class VisibleChannel:
    """A channel that a caller may see, and whether it is of the caller's own feed or of a shared one."""

    channel: Channel
    source: LiveSource


class Registry:
    """All live streams of the process as channels, with their newest alerts.

    The engine's thread writes; any thread reads.
    """

    def __init__(self) -> None:
        #: By owner and root, because a caller sees only their own feeds and the operator's.
        self._channels: dict[int, dict[str, dict[StreamKey, Channel]]] = {}
        self._alerts: deque[AlertRow] = deque(maxlen=ALERTS_CACHED)
        self._lock = threading.Lock()
        #: Increases when a channel is added, removed or changes its availability, which invalidates cached answers.
        self.generation = 0
        #: `seq` of the newest alert.
        self.alert_seq = 0
        self._listeners: list[Callable[[], None]] = []
        self._followers: list[Callable[[StreamKey], None]] = []

    # -- for the engine

    def put(self, channel: Channel) -> None:
        """Add the channel of a stream."""
        roots = self._channels.setdefault(channel.key.owner, {})
        roots.setdefault(channel.key.contract.root, {})[channel.key] = channel
        self._moved(channel.key)

    def shows(self, key: StreamKey) -> bool:
        """Return whether a stream is in the registry."""
        return self.channel(key) is not None

    def drop(self, key: StreamKey) -> None:
        """Remove a stream's channel and its alerts."""
        with self._lock:
            others = (
                row
                for row in self._alerts
                if (row.owner, row.feed, row.contract) != (key.owner, key.feed, key.contract.key)
            )
            self._alerts = deque(others, maxlen=ALERTS_CACHED)
        if self._channels.get(key.owner, {}).get(key.contract.root, {}).pop(key, None) is not None:
            self._moved(key)

    def set_availability(self, channel: Channel, availability: Availability) -> None:
        """Set whether a channel's stream is live, and if not, why.

        Listeners are called if the reason or the trade date changed.
        """
        before, channel.availability = channel.availability, availability
        if (before.live, before.reason, before.trade_date) != (
            availability.live,
            availability.reason,
            availability.trade_date,
        ):
            channel.version += 1
            self._moved(channel.key)

    def _moved(self, key: StreamKey) -> None:
        self.generation += 1
        for follower in self._followers:
            follower(key)

    def post(self, alerts: Sequence[AlertRow]) -> None:
        """Add alerts that have been recorded, in order of `seq`."""
        with self._lock:
            self._alerts.extend(alerts)
            if alerts:
                self.alert_seq = max(self.alert_seq, alerts[-1].seq)
        for listener in self._listeners:
            listener()

    def post_known(self, alerts: Sequence[AlertRow]) -> None:
        """Add alerts that earlier processes recorded, in order of `seq`, unless they are in the registry already."""
        with self._lock:
            shown = {row.seq for row in self._alerts}
            whole = sorted(
                [*(row for row in alerts if row.seq not in shown), *self._alerts], key=lambda row: row.seq
            )
            self._alerts = deque(whole, maxlen=ALERTS_CACHED)
            if whole:
                self.alert_seq = max(self.alert_seq, whole[-1].seq)

    def on_alerts(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the engine's thread whenever alerts are added."""
        self._listeners.append(listener)

    def on_channels(self, follower: Callable[[StreamKey], None]) -> None:
        """Call `follower` on the engine's thread with the key of each stream whose channel changes.

        A channel changes when it is added or removed, or when its availability changes.
        """
        self._followers.append(follower)

    # -- for readers

    @property
    def version(self) -> int:
        """Return a number that changes with every new alert, and when any stream's availability changes."""
        return self.alert_seq + self.generation

    def reason_counts(self) -> dict[str, int]:
        """Return the number of channels by the reason of their availability."""
        every = [c for roots in self._channels.values() for kept in roots.values() for c in kept.values()]
        return dict(Counter(channel.availability.reason for channel in every))

    def keys(self, owner: int | None = None) -> list[StreamKey]:
        """Return the key of every stream in the registry, or of one owner's streams."""
        owned = self._channels.values() if owner is None else [self._channels.get(owner, {})]
        return [key for roots in list(owned) for kept in list(roots.values()) for key in list(kept)]

    def channel(self, key: StreamKey) -> Channel | None:
        """Return a stream's channel, None if it has none."""
        return self._channels.get(key.owner, {}).get(key.contract.root, {}).get(key)

    def channels(self, scope: Scope, root: str | None = None) -> Iterator[VisibleChannel]:
        """Yield every channel that the scope's owner may see, live or not; the owner's own channels come first."""
        owned = [self._channels.get(owner, {}) for owner in (scope.user_id, OPERATOR)]
        roots = [root] if root is not None else sorted({name for kept in owned for name in list(kept)})
        for name in roots:
            for kept in owned:
                for channel in sorted(kept.get(name, {}).values(), key=lambda channel: channel.key):
                    source = live_source(scope, channel.key)
                    if source is not None:
                        yield VisibleChannel(channel, source)

    def find(self, scope: Scope, root: str, contract: Contract | None) -> VisibleChannel | None:
        """Return the channel that answers live for a product, or for `contract` if one is given.

        The user's own channel is preferred to a shared one. None if no channel answers live.
        """
        return next(
            (
                seen
                for seen in self.channels(scope, root)
                if (seen.channel.availability.live and contract is None)
                or (seen.channel.availability.answers and contract == seen.channel.key.contract)
            ),
            None,
        )

    def alerts(self, scope: Scope, root: str | None = None) -> list[AlertRow]:
        """Return the alerts that the scope's owner may see, newest first.

        They are those of each channel's current trade date. root: limits them to a product.
        """
        return self.alerts_of([seen.channel for seen in self.channels(scope, root)])

    def alerts_of(self, channels: Sequence[Channel]) -> list[AlertRow]:
        """Return the alerts of these channels' current trade dates, newest first.

        Only channels with a live feed count.
        """
        wanted = {
            (c.key.owner, c.key.feed, c.key.contract.key): c.availability.trade_date
            for c in channels
            if c.availability.listed
        }
        with self._lock:
            kept = list(self._alerts)
        return [
            row
            for row in reversed(kept)
            if wanted.get((row.owner, row.feed, row.contract), date.max) == row.trade_date
        ]

    def alerts_after(self, seq: int) -> tuple[list[AlertRow], bool]:
        """Return the alerts with a `seq` above this one, in order, and whether the registry still has all of them."""
        with self._lock:
            kept = list(self._alerts)
        at = bisect_right(kept, seq, key=lambda row: row.seq)
        reaches = not kept or kept[0].seq <= seq + 1 or len(kept) < ALERTS_CACHED
        return kept[at:], reaches


def live_source(scope: Scope, key: StreamKey) -> LiveSource | None:
    """Return whether a stream is personal or shared for the owner of a scope; None if the owner may not see it.

    The user's own feed is personal. The operator's feed is shared if a grant includes live data.
    """
    if key.owner == scope.user_id:
        return "personal"
    return "shared" if key.owner == OPERATOR and scope.sees_live(key.contract.root) else None
