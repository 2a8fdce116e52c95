"""In-memory vendor without sockets, for faults that do not depend on a protocol."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from tests.timeouts import within

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.connections.model import Broker, BrokerField
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Backfill,
    CaughtUp,
    Cursor,
    Event,
    Feed,
    FeedCaps,
    FeedLost,
    Heartbeat,
    Resume,
    RowFlag,
    Status,
    Trades,
)
from outcry.trades.records import Quality, Rows

KEY = "memory-key-0123456789"
CAPS = FeedCaps(
    resolution_ns=1, has_id=False, has_side=True, backfill=Backfill.TICKS, reach_ns=4 * 86_400 * 10**9,
    resume=Resume.BY_TIME, has_volume_counter=False,
)  # fmt: skip
BROKER = Broker("memory", "Memory", (BrokerField("key", "Key", secret=True),), hosted=True)
#: What waits for a stream instead of rows: the connection is gone.
_CUT = "cut"


@dataclass
class Call:
    """One session: the streams opened on it."""

    peer: "MemoryPeer"
    open: bool = True
    queues: dict[Contract, asyncio.Queue[Event | str]] = field(default_factory=dict)

    async def close(self) -> None:
        self.open = False
        self.peer.calls.discard(self)

    def __hash__(self) -> int:
        return id(self)


class MemoryFeed:
    """Implements `Feed`."""

    name, caps, run = "memory", CAPS, ""

    def __init__(self, peer: "MemoryPeer", key: str, context: AdapterContext) -> None:
        self._peer, self._key, self._context = peer, key, context
        self._link = SharedSession(self._sign_in, speedup=context.speedup)

    async def _sign_in(self) -> Call:
        peer = self._peer
        peer.logins += 1
        if peer.frozen:
            await asyncio.sleep(10 / self._context.speedup)
            raise TimeoutError
        if peer.expired or self._key != KEY:
            peer.refusals += 1
            raise CredentialsRejected
        call = Call(peer)
        peer.calls.add(call)
        return call

    async def contracts(self) -> list[Contract]:
        return list(self._context.select_contracts())

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        call = await self._link.session()
        queue = call.queues[contract] = asyncio.Queue()
        self._link.worked()
        yield Status(subscribed=True, code="subscribed")
        rows = self._peer.history_of(contract, since.since_ns)
        yield Trades(rows[rows["ts_event"] >= since.since_ns])  # what lies before the cursor is known
        yield CaughtUp(self._peer.now_ns, Quality.TICKS)
        while True:
            try:
                event = await within(queue.get(), 15 / self._context.speedup)
            except TimeoutError:
                await call.close()
                raise FeedLost("link_silent") from None
            if isinstance(event, str):
                raise FeedLost("disconnected")
            if isinstance(event, Trades):
                event.rows["ts_recv"] = self._context.clock.now_ns()
            yield event

    async def close(self) -> None:
        await self._link.close()


@dataclass
class MemoryAdapter:
    """Implements `Adapter`."""

    peer: "MemoryPeer"
    broker: Broker = BROKER
    caps: FeedCaps = CAPS
    library: str = ""

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        if not given["key"].startswith("memory-"):
            raise InvalidCredential("rejected", "key")
        return MemoryFeed(self.peer, given["key"], context)


class MemoryPeer:
    """Implements `FakePeer`."""

    history = Quality.TICKS
    resolution_ns = 1

    def __init__(self) -> None:
        self.adapter = MemoryAdapter(self)
        self.given = {"key": KEY}
        self.now_ns = self.logins = self.refusals = self.repeated = 0
        self.calls: set[Call] = set()
        self.frozen = self.expired = False
        self._tapes: dict[Contract, Rows] = {}
        self._again_ns: dict[Contract, int] = {}
        self._burst = 0

    @property
    def places(self) -> Mapping[str, str]:
        return {}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        await self.drop()

    def tape(self, contract: Contract, rows: Rows) -> None:
        self._tapes[contract] = rows

    def history_of(self, contract: Contract, since_ns: int) -> Rows:
        rows = self._rows(contract, since_ns - self._again_ns.pop(contract, 0), self.now_ns, RowFlag.BACKFILL)
        self.repeated += int((rows["ts_event"] < since_ns).sum())
        return rows

    def _rows(self, contract: Contract, from_ns: int, to_ns: int, flag: RowFlag) -> Rows:
        tape = self._tapes[contract]
        found = tape[(tape["ts_event"] >= from_ns) & (tape["ts_event"] < to_ns)]
        rows = np.zeros(len(found), LIVE_TRADE)
        for name in ("ts_event", "price", "size", "side", "sequence"):
            rows[name] = found[name]
        rows["ts_recv"], rows["flags"] = self.now_ns, int(flag)
        return rows

    async def advance(self, to_ns: int) -> None:
        from_ns, self.now_ns = self.now_ns, to_ns
        if self.frozen:
            return
        for call in list(self.calls):
            for contract, queue in call.queues.items():
                rows = self._rows(contract, from_ns, to_ns, RowFlag(0))
                if self._burst and len(rows) > 1:
                    rows[: self._burst] = rows[: self._burst][::-1].copy()
                if len(rows):
                    queue.put_nowait(Trades(rows))
                queue.put_nowait(Heartbeat(to_ns - 2 * 10**9 if self._burst else to_ns))
        if to_ns > from_ns:
            self._burst = 0

    async def drop(self) -> None:
        for call in list(self.calls):
            for queue in call.queues.values():
                queue.put_nowait(_CUT)
            await call.close()

    def freeze(self, *, on: bool) -> None:
        self.frozen = on

    def repeat(self, seconds: float) -> None:
        self._again_ns = dict.fromkeys(self._tapes, round(seconds * 10**9))

    async def expire(self, *, on: bool) -> None:
        self.expired = on
        if on:
            await self.drop()

    def shuffle(self, burst: int) -> None:
        self._burst = burst
