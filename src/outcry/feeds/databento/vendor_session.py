"""One session with the live gateway, for contracts that start together on one connection.

A replay must be requested before the session starts, so a session first collects the contracts and then starts once.
The session sends heartbeats to its streams only while the gateway sends heartbeats. If a reader stops reading, the
session pauses reading from the vendor. The session drops the slowest reader before the others run out of data.
"""

import asyncio
import re
from typing import Protocol

from outcry.base.tasks import BackgroundTasks
from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.clock_skew import limit_clock_skew
from outcry.feeds.databento.contract_queue import ContractQueue
from outcry.feeds.databento.gateway import HEARTBEAT_S, Gateway, GatewayError, GatewayStatus, SymbolMapping
from outcry.feeds.databento.rows import Records, live_rows, received_until_ns
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.trades.feed import CaughtUp, FeedLost, FeedRefused, Heartbeat, RowFlag
from outcry.trades.records import Quality

#: Time a session waits for further contracts after one has joined.
GATHER_S = 0.3
#: Time without data, beyond the heartbeat interval, after which the connection counts as lost.
SILENCE_S = 10.0
#: Longest interval between two heartbeats to the readers.
PULSE_S = 1.0
#: Longest delay between a trade and the vendor receiving it.
LAG_NS = NANOS_PER_SECOND
#: A replay begins at least this long ago: with differing clocks it must not begin in the future.
EARLIER_NS = 60 * NANOS_PER_SECOND
#: Waiting rows of all contracts above which reading is paused.
MAX_WAITING_ROWS = 300_000
#: A reader that takes nothing for this long while reading is paused is dropped.
STALL_S = 10.0

#: Codes for gateway errors that end a session; any other is `vendor_error`. The next login verifies the key again.
_ENDS = {
    "auth_failed": "login_refused",
    "api_key_deactivated": "login_expired",
    "skipped_records_after_slow_reading": "disconnected",  # the next session replays the skipped records
}


class SessionOwner(Protocol):
    """Interface of the feed that owns a session with Databento's gateway, as far as the session uses the feed."""

    @property
    def settled(self) -> bool:
        """Return whether all contracts have downloaded their older history, so that a gateway session can start."""
        ...

    def starting(self, session: "DatabentoSession") -> None:
        """Add the contracts whose readers have not reconnected yet to a session that is about to start."""

    def worked(self) -> None:
        """Record that the connection works, because the replay of a session has caught up with live trades."""

    def too_many_connections(self, text: str) -> FeedLost:
        """Return the error for too many connections of the account."""
        ...

    def replay_too_long(self) -> None:
        """Record that the gateway no longer stores the oldest trades of the requested replay."""


class DatabentoSession:
    """A session with the live gateway for all contracts of one connection. Implements `VendorSession`."""

    def __init__(self, gateway: Gateway, context: AdapterContext, owner: SessionOwner) -> None:
        self._gateway, self._context, self._owner = gateway, context, owner
        self.queues: dict[Contract, ContractQueue] = {}
        self._queues_by_id: dict[int, ContractQueue] = {}
        self.started = False
        self._replaying = True
        self._at_ns = 0
        self._loop = asyncio.get_running_loop()
        self._received_at_s = self._joined_s = self._heartbeat_s = self._loop.time()
        self._paused_s: float | None = None
        gateway.on_message, gateway.on_lost = self._receive, self.fail
        self._problem: FeedLost | None = None if gateway.open else FeedLost("disconnected")
        self._tasks = BackgroundTasks()
        self._tasks.start("databento session", self._watch())

    @property
    def open(self) -> bool:
        """Return whether the session is usable."""
        return self._problem is None

    # -- contracts

    def join(self, contract: Contract, symbol: str, since_ns: int) -> ContractQueue | None:
        """Add a contract to the session and return its queue of events from `since_ns` on (ns UTC).

        Returns None if this session cannot serve the contract any more.
        """
        queue = self.queues.get(contract)
        if queue is None and not self.started:
            queue = self.queues[contract] = ContractQueue(contract, symbol, since_ns, self._taken)
        if queue is None or queue.has_reader or not self.open:
            return None
        if self.started and queue.begin_ns > since_ns:
            return None
        if not self.started:
            queue.begin_ns = min(queue.begin_ns, since_ns)
        queue.has_reader, queue.since_ns = True, since_ns
        self._joined_s = self._loop.time()
        return queue

    def expect(self, contract: Contract, symbol: str, since_ns: int) -> None:
        """Subscribe to a contract whose reader has yet to reconnect, and queue its events."""
        self.queues.setdefault(contract, ContractQueue(contract, symbol, since_ns, self._taken))

    async def leave(self, queue: ContractQueue) -> None:
        """Remove a reader's queue; close the session after the last one."""
        self._remove(queue)
        if self.started and not any(queue.has_reader for queue in self.queues.values()):
            await self.close()

    def _remove(self, queue: ContractQueue) -> None:
        if self.queues.get(queue.contract) is queue:
            del self.queues[queue.contract]
        self._queues_by_id = {
            number: known for number, known in self._queues_by_id.items() if known is not queue
        }
        queue.drop(FeedLost("closed"))
        self._taken()

    def _start(self) -> None:
        self._owner.starting(self)
        latest_ns = self._context.clock.now_ns() - EARLIER_NS
        for number, queue in enumerate(self.queues.values()):
            self._gateway.subscribe_trades(queue.symbol, min(queue.begin_ns, latest_ns), number)
        self._gateway.start()
        self.started = True
        self._received_at_s = self._loop.time()

    # -- received messages

    def _receive(self, message: Records | SymbolMapping | GatewayStatus | GatewayError) -> None:
        self._received_at_s = self._loop.time()
        if isinstance(message, SymbolMapping):
            for queue in self.queues.values():
                if queue.symbol == message.symbol:
                    self._queues_by_id[message.instrument_id] = queue
                    queue.confirm()
        elif isinstance(message, GatewayStatus):
            self._status(message)
        elif isinstance(message, GatewayError):
            self._error(message)
        else:
            self._trades(message)

    def _trades(self, records: Records) -> None:
        flags = int(RowFlag.BACKFILL) if self._replaying else 0
        now_ns = self._context.clock.now_ns()
        numbers = set(records["instrument_id"].tolist())
        for number in numbers:
            queue = self._queues_by_id.get(number)
            if queue is not None:
                mine = records if len(numbers) == 1 else records[records["instrument_id"] == number]
                queue.put_rows(live_rows(mine, now_ns, flags))
        self._advance(received_until_ns(records))
        if sum(queue.rows for queue in self.queues.values()) > MAX_WAITING_ROWS and self._paused_s is None:
            self._paused_s = self._loop.time()
            self._gateway.pause(on=True)

    def _advance(self, at_ns: int) -> None:
        """Move the session's clock forward to the vendor's time (ns UTC, the vendor's clock)."""
        if not self._replaying and at_ns < self._context.clock.now_ns() + NANOS_PER_HOUR:
            self._at_ns = max(self._at_ns, at_ns - LAG_NS)
            if self._loop.time() - self._heartbeat_s > PULSE_S / self._context.speedup:
                self._send_heartbeats()

    def _send_heartbeats(self) -> None:
        self._heartbeat_s = self._loop.time()
        for queue in self.queues.values():
            queue.put(Heartbeat(queue.begin_ns if self._replaying else self._at_ns))

    def _status(self, message: GatewayStatus) -> None:
        if message.code == "replay_completed" and self._replaying:
            self._replaying = False
            self._advance(message.at_ns)
            self._owner.worked()
            for queue in self.queues.values():
                at_ns = max(self._at_ns, limit_clock_skew(queue.newest_ns, self._context.clock))
                queue.caught_up(self._at_ns, CaughtUp(at_ns, Quality.TICKS))
        else:
            self._advance(message.at_ns)

    def _error(self, message: GatewayError) -> None:
        if message.code == "symbol_resolution_failed":
            for queue in self.queues.values():
                if re.search(rf"\b{re.escape(queue.symbol)}\b", message.text):
                    queue.fail(FeedRefused("unknown_contract", message.text))
        elif message.code == "connection_limit_exceeded":
            self.fail(self._owner.too_many_connections(message.text))
        else:
            if message.code == "replay_data_aged_out":
                self._owner.replay_too_long()
            self.fail(FeedLost(_ENDS.get(message.code, "vendor_error"), message.text))

    # -- lifecycle

    def _taken(self) -> None:
        if (
            self._paused_s is not None
            and sum(queue.rows for queue in self.queues.values()) < MAX_WAITING_ROWS // 2
        ):
            self._paused_s = None
            self._received_at_s = self._loop.time()
            self._gateway.pause(on=False)

    async def _watch(self) -> None:
        """Start the session once all contracts have joined; then check for a stalled connection and slow readers."""
        speedup = self._context.speedup
        while self.open and not self._gathered():
            await asyncio.sleep(GATHER_S / 10 / speedup)
        if self.open:
            self._start()
        while self.open:
            await asyncio.sleep(PULSE_S / 4 / speedup)
            now_s = self._loop.time()
            silent_s = now_s - self._received_at_s
            if self._paused_s is not None:
                self._drop_idle_reader(now_s)
            elif silent_s > (HEARTBEAT_S + SILENCE_S) / speedup:
                self.fail(FeedLost("link_silent", "no data or heartbeats from the gateway"))
            elif silent_s <= HEARTBEAT_S / speedup and now_s - self._heartbeat_s > PULSE_S / speedup:
                self._send_heartbeats()

    def _gathered(self) -> bool:
        """Return whether all contracts have joined the session, or the time to wait for them has passed."""
        if not self.queues or not self._owner.settled:
            return False
        waited_s = self._loop.time() - self._joined_s
        return waited_s > GATHER_S / self._context.speedup or all(
            c in self.queues for c in self._context.select_contracts()
        )

    def _drop_idle_reader(self, now_s: float) -> None:
        """While reading from the vendor is paused, drop the idle reader with the most waiting rows."""
        stall_s = STALL_S / self._context.speedup
        idle = [
            queue
            for queue in self.queues.values()
            if not queue.has_reader or now_s - max(queue.read_s, self._paused_s or now_s) > stall_s
        ]
        queue = max(idle, key=lambda one: one.rows, default=None)
        if queue is not None and queue.rows:
            queue.drop(
                FeedLost(
                    "seam_overflow", f"{queue.contract.key}: the reader is too slow for the incoming trades"
                )
            )
            self._remove(queue)

    def fail(self, problem: FeedLost) -> None:
        """End the session with an error, which each reader receives after its waiting events."""
        if self._problem is not None:
            return
        self._problem = problem
        self._gateway.abort()
        for queue in self.queues.values():
            queue.fail(problem)

    async def close(self) -> None:
        """Close the session; may be called again."""
        self.fail(FeedLost("closed"))
        await self._tasks.stop()
        await self._gateway.over.wait()
