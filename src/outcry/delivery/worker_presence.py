"""Which of the processes that deliver are there, as PostgreSQL itself knows it: each holds a lock by a connection of
its own, which the server lets go when that connection ends, however it does.

Rule kept: who is merely not heard, behind a link or a machine that stands still, is there. A machine that went without
a word is known to be gone by its leases alone, when they run out; and so is whoever delivers from SQLite.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, func, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from outcry.database import schema
from outcry.database.database import Database, busy
from outcry.market.units import NANOS_PER_SECOND

#: Whose connection is gone so long is gone: a live one has made another by then, also where the server was restarted.
GONE_AFTER_NS = 10 * NANOS_PER_SECOND
#: As long as a line may stall without its connection being given up.
_PATIENCE_S = 45.0
#: Names our locks among whatever else uses the database.
_SEATS = 0x4F75_7477  # "Outw"
_QUEUES = schema.lanes.c
_HOLD = text("SELECT pg_try_advisory_lock_shared(:seats, :number)")
_HELD = text(
    "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = :seats AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class WorkerPresence:
    """The seat of one worker, and who else has one. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looking = Lock()
        self._seat: Connection | None = None
        self._missed_ns: dict[str, int] = {}

    def look(self, worker: str, now_ns: int) -> Sequence[str]:
        """Have a seat; of the workers that hold queues now, return those that have had none for long enough. Raises
        `StoreBusy`."""
        with self._looking:
            try:
                seat = self._seat = self._seat or self._taken(worker)
                if seat is None:
                    return ()
                there = set(seat.execute(_HELD, {"seats": _SEATS}).scalars())
                holding = set(seat.execute(_holding(now_ns)).scalars())
            except SQLAlchemyError as problem:
                self.leave()
                raise busy(problem) from problem
            missed = (name for name in holding if _number(name) not in there)
            self._missed_ns = {name: self._missed_ns.get(name, now_ns) for name in missed}
            return [name for name, since_ns in self._missed_ns.items() if now_ns - since_ns >= GONE_AFTER_NS]

    def _taken(self, worker: str) -> Connection | None:
        seat = self._database.kept_open(_PATIENCE_S)
        if seat is not None:
            seat.execute(_HOLD, {"seats": _SEATS, "number": _number(worker)})
        return seat

    def leave(self) -> None:
        """Give the seat up."""
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.invalidate()
            seat.close()


def let_go(connection: Connection, workers: Sequence[str], now_ns: int) -> int:
    """Let go of the queues that these hold, to be looked at now; return how many."""
    theirs = (
        select(_QUEUES.subscription_id)
        .where(*_held(now_ns), _holder().in_(workers))
        .order_by(_QUEUES.subscription_id)
        .with_for_update(skip_locked=True)
    )
    freed = {"worker": "", "leased_until_ns": 0, "due_ns": now_ns}
    return connection.execute(
        update(schema.lanes).where(_QUEUES.subscription_id.in_(theirs)).values(freed)
    ).rowcount


def _number(worker: str) -> int:
    return crc32(worker.encode()) >> 1  # as many bits as a lock's number has, and its sign none


def _holder() -> Any:
    """The worker of a queue's claim, which is named `worker/…`."""
    return func.split_part(_QUEUES.worker, "/", 1)


def _holding(now_ns: int) -> Any:
    """Workers whose leases are not over; such queues are due when these are, and so come by the index."""
    return select(_holder()).where(*_held(now_ns)).distinct()


def _held(now_ns: int) -> Any:
    return (_QUEUES.due_ns > now_ns, _QUEUES.leased_until_ns > now_ns, _QUEUES.worker != "")
