"""Joins a vendor's history of bars and its live trades into one stream without a gap.

The feed subscribes first and then chooses the cut, a multiple of the bars' length by the vendor's clock. Everything
before the cut comes as bars; the last of them are requested once their time is over. Trades received meanwhile are
buffered. After an interruption, bars replace the rows of the missed time.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from outcry.feeds.stream_channel import StreamChannel
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Bars, CaughtUp, Event, Gap, Heartbeat, Trades, VolumeCounter
from outcry.trades.records import Quality, Rows

#: Attempts to get missing bars, and the pause between two.
MAX_ATTEMPTS, RETRY_S = 6, 2.0
#: Bars per event.
BATCH_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class BarHistory:
    """A vendor's history of bars of one contract, and how fast the vendor completes them. Times in ns.

    bars: returns the bars in `[first_ns, end_ns)`, in order of time. now_ns: the current time by the vendor's clock.
    reach_ns: how far back the history goes. settling_ns: the vendor has a bar at the latest this long after its end.
    complete_after_ns, cut_after_ns: from the start of a stream until live trades are complete, and until the cut may
    follow. cut_bars_after_ns: from the cut until its bars are requested. counts_volume: whether a bar contains every
    trade of its time, so that a bar with less volume than the live trades is not final yet.
    """

    quality: Quality
    bars: Callable[[int, int], Awaitable[Rows]]
    now_ns: Callable[[], int]
    reach_ns: int
    settling_ns: int = 10 * NANOS_PER_SECOND
    complete_after_ns: int = NANOS_PER_SECOND
    cut_after_ns: int = 5 * NANOS_PER_SECOND
    cut_bars_after_ns: int = 2 * NANOS_PER_SECOND
    counts_volume: bool = False


async def join_bars_and_trades(
    history: BarHistory, since_ns: int, channel: StreamChannel, speedup: float
) -> AsyncGenerator[Event, None]:
    """Yield bars from the bar that contains `since_ns` on, `CaughtUp`, and later bars and live trades.

    channel: a confirmed subscription of the contract. The history before `CaughtUp` ends shortly before now. The bars
    up to the cut follow once they are complete, then the trades from the cut on. Raises the errors of `channel` and of
    `history.bars`.
    """
    length_ns, now_ns = history.quality.length_ns, history.now_ns()
    first_ns = min(_floor(since_ns, length_ns), _floor(now_ns, length_ns))
    kept_ns = _floor(now_ns - history.reach_ns, length_ns)
    if first_ns < kept_ns:
        yield Gap(since_ns, kept_ns, "not_kept")
        first_ns = kept_ns
    seam = _Seam(
        history,
        edge_ns=max(first_ns, _floor(now_ns - history.settling_ns, length_ns)),
        whole_ns=now_ns + history.complete_after_ns,
        cut_ns=-_floor(-(now_ns + history.cut_after_ns), length_ns),
    )
    rows = await channel.beside(history.bars(first_ns, seam.edge_ns))
    for at in range(0, len(rows), BATCH_ROWS):
        yield Bars(rows[at : at + BATCH_ROWS], history.quality, backfill=True)
    sent_until_ns = int(rows["ts_event"][-1]) + length_ns if len(rows) else first_ns
    yield CaughtUp(seam.edge_ns, history.quality)
    async for event in seam.close(channel, sent_until_ns, RETRY_S / speedup):
        yield event
    async for event in channel.events():
        if not isinstance(event, Trades):
            yield event
        elif len(rows := event.rows[event.rows["ts_event"] >= seam.cut_ns]):
            yield Trades(rows)


def _floor(at_ns: int, length_ns: int) -> int:
    return at_ns // length_ns * length_ns


@dataclass(slots=True)
class _Seam:
    """Progress of joining historical bars and live trades.

    Bars up to `edge_ns` have been sent. Trades are sent from `cut_ns` on. The bars between follow once they are over.
    From `whole_ns` on the subscription delivers every trade. `deferred`: the events that wait for those bars.
    """

    history: BarHistory
    edge_ns: int
    whole_ns: int
    cut_ns: int
    deferred: list[Event] = field(default_factory=list[Event])
    newest_ns: int = 0
    #: Starts of the bars before the cut that must exist, with the volume that they must have at least.
    traded: dict[int, int] = field(default_factory=dict[int, int])

    def defer(self, event: Trades) -> None:
        """Store trades at or after the cut, to send them after the bars.

        Of earlier trades store only when they were made, and their volume, because bars of that time follow.
        """
        rows = event.rows
        times = rows["ts_event"]
        before = rows[(times >= self.whole_ns) & (times < self.cut_ns)]
        starts = before["ts_event"] // self.history.quality.length_ns * self.history.quality.length_ns
        for start_ns, lots in zip(starts.tolist(), before["size"].tolist(), strict=True):
            self.traded[start_ns] = self.traded.get(start_ns, 0) + lots * self.history.counts_volume
        self.newest_ns = max(self.newest_ns, int(times.max()))
        if (times >= self.cut_ns).any():
            self.deferred.append(Trades(rows[times >= self.cut_ns]))

    def covered_by(self, bars: Rows) -> bool:
        """Return whether the bars contain all live trades that were received before the cut."""
        volumes = dict(zip(bars["ts_event"].tolist(), bars["volume"].tolist(), strict=True))
        return all(volumes.get(start_ns, -1) >= lots for start_ns, lots in self.traded.items())

    async def close(
        self, channel: StreamChannel, sent_until_ns: int, retry_s: float
    ) -> AsyncGenerator[Event, None]:
        """Send the bars between `edge_ns` and the cut once they are over, then the deferred trades.

        If bars of traded time stay missing, the vendor withholds recent history from this account. Then a gap is
        reported from the last bar to the cut.
        """
        history, over_ns = self.history, self.cut_ns + self.history.cut_bars_after_ns
        while True:
            events = channel.events()
            while max(history.now_ns(), self.newest_ns) < over_ns:
                event = await anext(events)
                if isinstance(event, Trades):
                    self.defer(event)
                elif isinstance(event, Heartbeat):
                    yield Heartbeat(min(event.at_ns, self.edge_ns))
                elif not isinstance(event, VolumeCounter):
                    yield event
            await events.aclose()
            rows = await channel.beside(history.bars(self.edge_ns, self.cut_ns))
            # the answer states the vendor's time: earlier than we thought, if our clock has jumped ahead
            if max(history.now_ns(), self.newest_ns) >= over_ns:
                break
        for _ in range(MAX_ATTEMPTS):
            if self.covered_by(rows):
                break
            await channel.beside(asyncio.sleep(retry_s))
            rows = await channel.beside(history.bars(self.edge_ns, self.cut_ns))
        else:
            rows = np.zeros(0, rows.dtype)
            yield Gap(sent_until_ns, self.cut_ns, "not_kept")
        if len(rows):
            yield Bars(rows, history.quality, backfill=True)
        for event in self.deferred:
            yield event
