"""One session with the live gateway: the contracts that begin together on one connection.

Rules kept: a replay can only be asked for before a session starts, so a session gathers the contracts that are wanted
and then starts, once; what the gateway is silent about nobody is told either; a reader that does not read makes the
vendor wait, and is let go of before the others starve.
"""

import asyncio
import re
from typing import Protocol

from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.clock_skew import limit_clock_skew
from outcry.feeds.databento.contract_queue import ContractQueue
from outcry.feeds.databento.gateway import HEARTBEAT_S, Gateway, GatewayError, GatewayStatus, SymbolMapping
from outcry.feeds.databento.rows import Records, live_rows, received_until_ns
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.trades.feed import CaughtUp, FeedLost, FeedRefused, Heartbeat, RowFlag
from outcry.trades.records import Quality

#: A session waits so long for others to begin with it, after one has come.
GATHER_S = 0.3
#: Silence beyond the vendor's beat after which the link is dead.
SILENCE_S = 10.0
#: Readers are told at least so often that the link lives.
PULSE_S = 1.0
#: The vendor receives a trade at most so long after it was made.
LAG_NS = NANOS_PER_SECOND
#: A replay is asked for from so long before its cursor, for clocks that differ: it must not begin in the future.
EARLIER_NS = 60 * NANOS_PER_SECOND
#: Rows that may wait, of all contracts together, before the vendor has to.
MAX_WAITING_ROWS = 300_000
#: Somebody who reads nothing for so long, while the vendor waits, is let go of.
STALL_S = 10.0

#: Faults of the gateway that end a session, and what they come to; any other is `vendor_error`. Whether a key is
#: still good is for the next login to find out.
_ENDS = {
    "auth_failed": "login_refused",
    "api_key_deactivated": "login_expired",
    "skipped_records_after_slow_reading": "disconnected",  # what was skipped is replayed
}


class SessionOwner(Protocol):
    """Whoever keeps sessions, and knows of what is beyond one."""

    @property
    def settled(self) -> bool:
        """Whether nobody is about to join who has yet to fetch older history."""
        ...

    def starting(self, session: "DatabentoSession") -> None:
        """A session is about to start: who else is to be on it may be named now."""

    def worked(self) -> None:
        """A session has caught up."""

    def crowded(self, text: str) -> FeedLost:
        """The account has too many connections: what that comes to."""
        ...

    def aged_out(self) -> None:
        """The gateway does not keep what it was asked to replay."""


class DatabentoSession:
    """Contracts on one connection."""

    def __init__(self, gateway: Gateway, context: AdapterContext, keeper: SessionOwner) -> None:
        self._gateway, self._context, self._keeper = gateway, context, keeper
        self.lines: dict[Contract, ContractQueue] = {}
        self._numbered: dict[int, ContractQueue] = {}
        self.started = False
        self._replaying = True
        self._at_ns = 0
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._joined_s = self._pulse_s = self._loop.time()
        self._paused_s: float | None = None
        gateway.hear, gateway.lose = self._hear, self.lose
        self._problem: FeedLost | None = None if gateway.open else FeedLost("disconnected")
        self._task = self._loop.create_task(self._watch(), name="databento session")

    @property
    def open(self) -> bool:
        """Whether it can still be used."""
        return self._problem is None

    # -- contracts

    def join(self, contract: Contract, symbol: str, since_ns: int) -> ContractQueue | None:
        """The line of a contract from an instant on; None where this session cannot bring it any more."""
        line = self.lines.get(contract)
        if line is None and not self.started:
            line = self.lines[contract] = ContractQueue(contract, symbol, since_ns, self._taken)
        if line is None or line.has_reader or not self.open:
            return None
        if self.started and line.begin_ns > since_ns:
            return None
        if not self.started:
            line.begin_ns = min(line.begin_ns, since_ns)
        line.has_reader, line.since_ns = True, since_ns
        self._joined_s = self._loop.time()
        return line

    def expect(self, contract: Contract, symbol: str, since_ns: int) -> None:
        """Keep a place for a contract whose reader is expected back."""
        self.lines.setdefault(contract, ContractQueue(contract, symbol, since_ns, self._taken))

    async def leave(self, line: ContractQueue) -> None:
        """The reader of a line is gone; the last to go ends the session."""
        self._let_go(line)
        if self.started and not any(line.has_reader for line in self.lines.values()):
            await self.close()

    def _let_go(self, line: ContractQueue) -> None:
        if self.lines.get(line.contract) is line:
            del self.lines[line.contract]
        self._numbered = {number: known for number, known in self._numbered.items() if known is not line}
        line.drop(FeedLost("closed"))
        self._taken()

    def _start(self) -> None:
        self._keeper.starting(self)
        latest_ns = self._context.clock.now_ns() - EARLIER_NS
        for number, line in enumerate(self.lines.values()):
            self._gateway.ask(line.symbol, min(line.begin_ns, latest_ns), number)
        self._gateway.start()
        self.started = True
        self._heard_s = self._loop.time()

    # -- what comes

    def _hear(self, what: Records | SymbolMapping | GatewayStatus | GatewayError) -> None:
        self._heard_s = self._loop.time()
        if isinstance(what, SymbolMapping):
            for line in self.lines.values():
                if line.symbol == what.symbol:
                    self._numbered[what.instrument_id] = line
                    line.stands()
        elif isinstance(what, GatewayStatus):
            self._told(what)
        elif isinstance(what, GatewayError):
            self._fault(what)
        else:
            self._trades(what)

    def _trades(self, records: Records) -> None:
        flags = int(RowFlag.BACKFILL) if self._replaying else 0
        now_ns = self._context.clock.now_ns()
        numbers = set(records["instrument_id"].tolist())
        for number in numbers:
            line = self._numbered.get(number)
            if line is not None:
                mine = records if len(numbers) == 1 else records[records["instrument_id"] == number]
                line.put_rows(live_rows(mine, now_ns, flags))
        self._has_come_to(received_until_ns(records))
        if sum(line.rows for line in self.lines.values()) > MAX_WAITING_ROWS and self._paused_s is None:
            self._paused_s = self._loop.time()
            self._gateway.pause(on=True)

    def _has_come_to(self, at_ns: int) -> None:
        """By its own clock the vendor is at an instant."""
        if not self._replaying and at_ns < self._context.clock.now_ns() + NANOS_PER_HOUR:
            self._at_ns = max(self._at_ns, at_ns - LAG_NS)
            if self._loop.time() - self._pulse_s > PULSE_S / self._context.rush:
                self._pulse()

    def _pulse(self) -> None:
        self._pulse_s = self._loop.time()
        for line in self.lines.values():
            line.put(Heartbeat(line.begin_ns if self._replaying else self._at_ns))

    def _told(self, what: GatewayStatus) -> None:
        if what.code == "replay_completed" and self._replaying:
            self._replaying = False
            self._has_come_to(what.at_ns)
            self._keeper.worked()
            for line in self.lines.values():
                at_ns = max(self._at_ns, limit_clock_skew(line.newest_ns, self._context.clock))
                line.caught_up(self._at_ns, CaughtUp(at_ns, Quality.TICKS))
        else:
            self._has_come_to(what.at_ns)

    def _fault(self, what: GatewayError) -> None:
        if what.code == "symbol_resolution_failed":
            for line in self.lines.values():
                if re.search(rf"\b{re.escape(line.symbol)}\b", what.text):
                    line.fail(FeedRefused("unknown_contract", what.text))
        elif what.code == "connection_limit_exceeded":
            self.lose(self._keeper.crowded(what.text))
        else:
            if what.code == "replay_data_aged_out":
                self._keeper.aged_out()
            self.lose(FeedLost(_ENDS.get(what.code, "vendor_error"), what.text))

    # -- its life

    def _taken(self) -> None:
        if (
            self._paused_s is not None
            and sum(line.rows for line in self.lines.values()) < MAX_WAITING_ROWS // 2
        ):
            self._paused_s = None
            self._heard_s = self._loop.time()
            self._gateway.pause(on=False)

    async def _watch(self) -> None:
        """Start when all are there; then see that the link lives, and that everybody reads."""
        rush = self._context.rush
        while self.open and not self._gathered():
            await asyncio.sleep(GATHER_S / 10 / rush)
        if self.open:
            self._start()
        while self.open:
            await asyncio.sleep(PULSE_S / 4 / rush)
            now_s = self._loop.time()
            silent_s = now_s - self._heard_s
            if self._paused_s is not None:
                self._let_go_of_idle(now_s)
            elif silent_s > (HEARTBEAT_S + SILENCE_S) / rush:
                self.lose(FeedLost("link_silent", "no data or heartbeats from the gateway"))
            elif silent_s <= HEARTBEAT_S / rush and now_s - self._pulse_s > PULSE_S / rush:
                self._pulse()

    def _gathered(self) -> bool:
        """Whether everybody is there who will come, or who has not has been waited for."""
        if not self.lines or not self._keeper.settled:
            return False
        waited_s = self._loop.time() - self._joined_s
        return waited_s > GATHER_S / self._context.rush or all(
            c in self.lines for c in self._context.select_contracts()
        )

    def _let_go_of_idle(self, now_s: float) -> None:
        """The vendor waits for us: who has most and takes nothing is not waited for any longer."""
        stall_s = STALL_S / self._context.rush
        idle = [
            line
            for line in self.lines.values()
            if not line.has_reader or now_s - max(line.read_s, self._paused_s or now_s) > stall_s
        ]
        line = max(idle, key=lambda one: one.rows, default=None)
        if line is not None and line.rows:
            line.drop(
                FeedLost(
                    "seam_overflow", f"{line.contract.key}: the reader is too slow for the incoming trades"
                )
            )
            self._let_go(line)

    def lose(self, problem: FeedLost) -> None:
        """It is over, and why: every reader is told once it has what came before."""
        if self._problem is not None:
            return
        self._problem = problem
        self._gateway.abort()
        for line in self.lines.values():
            line.fail(problem)

    async def close(self) -> None:
        """Hang up; may be called again."""
        self.lose(FeedLost("closed"))
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._gateway.over.wait()
