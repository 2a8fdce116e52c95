"""Detect delivery workers that ended, by PostgreSQL advisory locks.

Each worker holds a lock on a dedicated connection. The server releases it when the connection ends. A worker whose
network stalls keeps its lock and counts as alive. With SQLite, and if a machine disappears without closing its
connection, only the expiry of leases shows that a worker ended.
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

#: A worker without a connection for this long has ended. A live one has reconnected by then, even after a restart of
#: the server.
LOST_AFTER_NS = 10 * NANOS_PER_SECOND
#: How long a connection may stall before it is closed.
_PATIENCE_S = 45.0
#: Namespace of our locks among others in the database.
_SEATS = 0x4F75_7477  # "Outw"
_QUEUES = schema.lanes.c
_HOLD = text("SELECT pg_try_advisory_lock_shared(:seats, :number)")
_HELD = text(
    "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = :seats AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class WorkerPresence:
    """The lock that shows that this worker is alive, and a view of other workers' locks. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looking = Lock()
        self._seat: Connection | None = None
        self._missed_ns: dict[str, int] = {}

    def look(self, worker: str, now_ns: int) -> Sequence[str]:
        """Acquire this worker's lock if needed, and return the workers that have ended.

        A worker has ended if it leases queues but has had no lock for `LOST_AFTER_NS`. Raises `StoreBusy`.
        """
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
            return [name for name, since_ns in self._missed_ns.items() if now_ns - since_ns >= LOST_AFTER_NS]

    def _taken(self, worker: str) -> Connection | None:
        seat = self._database.persistent_connection(_PATIENCE_S)
        if seat is not None:
            seat.execute(_HOLD, {"seats": _SEATS, "number": _number(worker)})
        return seat

    def leave(self) -> None:
        """Release this worker's lock."""
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.invalidate()
            seat.close()


def let_go(connection: Connection, workers: Sequence[str], now_ns: int) -> int:
    """Release the queues that these workers lease, so that they are due now; return the number of queues."""
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
    return crc32(worker.encode()) >> 1  # fits the unsigned half of a lock's number


def _holder() -> Any:
    """Return the SQL expression for the worker's name in a queue's claim. A claim is named `worker/…`."""
    return func.split_part(_QUEUES.worker, "/", 1)


def _holding(now_ns: int) -> Any:
    """Return the SQL query for the workers that lease queues now.

    The due time of a leased queue is the end of its lease, so the index on due times finds these queues.
    """
    return select(_holder()).where(*_held(now_ns)).distinct()


def _held(now_ns: int) -> Any:
    return (_QUEUES.due_ns > now_ns, _QUEUES.leased_until_ns > now_ns, _QUEUES.worker != "")
