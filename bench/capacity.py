"""Capacity of a cluster, computed from measurements.

`python -m bench.capacity` prints the table of `docs/explanation/scaling.md`. A test compares that page with the
output. Each input is a stated assumption or a measurement with its source on that page. All other values are products
of these.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

#: Planned utilisation of a processor.
FILLED = 0.6


@dataclass(frozen=True, slots=True)
class Load:
    """Assumed load.

    moving: personal feeds whose market trades at the same time. trades_s, pushes_s, states_s: rates of one of these at
    a busy hour: trades, pushes, and states published to the answering processes. own_share: share of requests for a
    moving stream that was not requested since it moved. minute_s: time within which an alert reaches all subscribers.
    """

    feeds: int = 100_000
    moving: int = 20_000
    trades_s: float = 10.0
    pushes_s: float = 4.0
    states_s: float = 0.2
    keys: int = 1_000_000
    requests_s: int = 100_000
    own_share: float = 0.05
    subscribers: int = 100_000
    minute_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured costs: processor time in microseconds, memory and network traffic in bytes.

    docs/explanation/scaling.md states where each was measured.
    """

    fold_us: float = 16.7
    append_us: float = 104.0
    node_append_us: float = 50.0
    renewal_us: float = 10.0 / 40
    state_write_us: float = 600.0
    feed_trade_us: float = 150.0
    answer_us: float = 14.9
    verdict_us: float = 0.62
    own_answer_us: float = 2_000.0
    state_read_us: float = 50.0
    worker_us: float = 655.0
    database_us: float = 1126.0
    log_trade_bytes: float = 42.2
    state_bytes: float = 1_233
    answer_bytes: float = 2_000
    message_bytes: float = 3_000
    engine_stream_bytes: float = 620_000
    mirror_stream_bytes: float = 15_000
    connection_bytes: float = 2.6 * 2**20
    key_bytes: float = 541
    process_bytes: float = 110 * 2**20
    #: Maximum states per second that an answering process receives.
    mirror_states_s: float = 2_000


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `cpus`: fully used processors; `held`: bytes of memory; `wire`: bytes per second."""

    role: str
    work: str
    cpus: float
    held: float = 0.0
    wire: float = 0.0


def rows(load: Load, cost: Measured) -> Iterator[Row]:
    """Return the work of each role over all its processes; memory that each answering process needs is per process."""
    trades_s, pushes_s = load.moving * load.trades_s, load.moving * load.pushes_s
    states_s, log_s = load.moving * load.states_s, trades_s * cost.log_trade_bytes
    cpu_us = trades_s * cost.feed_trade_us
    yield Row("feeds", f"{trades_s:,.0f} trades/s", cpu_us / 1e6, load.feeds * cost.connection_bytes, log_s)
    cpu_us = trades_s * cost.fold_us + pushes_s * cost.append_us + states_s * cost.state_write_us
    cpu_us += load.requests_s * cost.renewal_us
    work = f"{pushes_s:,.0f} pushes/s, {states_s:,.0f} states/s"
    wire = log_s + states_s * cost.state_bytes
    yield Row("engine", work, cpu_us / 1e6, load.feeds * cost.engine_stream_bytes, wire)
    cpu_us = 3 * pushes_s * cost.node_append_us
    work = f"{pushes_s:,.0f} appends/s on 3 nodes"
    yield Row("JetStream", work, cpu_us / 1e6, 3 * load.feeds * cost.state_bytes, 3 * log_s)
    cpu_us = load.requests_s * (cost.answer_us + cost.verdict_us + load.own_share * cost.own_answer_us)
    work = f"{load.requests_s:,} requests/s"
    yield Row("api", work, cpu_us / 1e6, 0, load.requests_s * cost.answer_bytes)
    taken_s = min(states_s, cost.mirror_states_s)
    held = cost.process_bytes + load.feeds * cost.mirror_stream_bytes + load.keys * cost.key_bytes
    work = f"{taken_s:,.0f} states/s read"
    yield Row("… each process", work, taken_s * cost.state_read_us / 1e6, held, taken_s * cost.state_bytes)
    messages_s = load.subscribers / load.minute_s
    work, wire = f"{messages_s:,.0f} messages/s", messages_s * cost.message_bytes
    yield Row("deliver", work, messages_s * cost.worker_us / 1e6, 0, wire)
    work = f"{messages_s:,.0f} claims and results/s"
    yield Row("PostgreSQL", work, messages_s * cost.database_us / 1e6)


def table(load: Load, cost: Measured) -> Sequence[str]:
    """Return the lines of the table, in Markdown."""
    lines = [
        "| role | work | cores used | cores at 60 % | memory | network |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows(load, cost):
        cells = (row.role, row.work, f"{row.cpus:.1f}", f"{ceil(row.cpus / FILLED)}", _bytes(row.held))
        lines.append("| " + " | ".join((*cells, _bytes(row.wire, "/s"))) + " |")
    return lines


def _bytes(count: float, per: str = "") -> str:
    if not count:
        return ""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}{per}"
    return f"{count / 1e3:,.0f} kB{per}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table(Load(), Measured())) + "\n")
