"""A fake vendor in a separate process: `python -m bench.vendor NAME AHEAD_NS SECONDS`.

It plays at realistic rates in real time, and prints its endpoints and accepted entries on its first line. Its current
time is the machine's clock plus AHEAD_NS, at which a market is open whenever the bench runs.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from support.vendors.peer import FakePeer

from outcry.connections.contract_selection import contract_selector
from outcry.market.instruments import Contract
from outcry.trades.records import TRADE, Rows
from outcry.trades.reference_tables import load_reference

#: Trades per second of each contract while the market is busy: five of the most traded products.
RATES = {"ES": 12.0, "NQ": 12.0, "CL": 4.0, "GC": 4.0, "ZN": 3.0}
PRICES = {
    "ES": (26_800, 250_000_000), "NQ": (98_000, 250_000_000), "CL": (6_000, 10_000_000),
    "GC": (40_000, 100_000_000), "ZN": (7_200, 15_625_000),
}  # fmt: skip
PEERS = {"databento": "DatabentoPeer", "tradovate": "TradovatePeer", "massive": "MassivePeer"}
SECOND = 1_000_000_000
PAST_S = 50 * 3600
STEP_S = 0.005


@dataclass(frozen=True, slots=True)
class Ahead:
    """The machine's clock, moved to an open market."""

    ahead_ns: int

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ns  # noqa: TID251 - a market that is open now


def tape_of(contract: Contract, now_ns: int, seconds: float, resolution_ns: int) -> Rows:
    """Return two days with one trade a minute, followed by trades at the rates of `RATES`."""
    root = contract.root
    chance = np.random.default_rng(len(root) + ord(root[0]) + contract.month)
    past = np.arange(now_ns - PAST_S * SECOND, now_ns, 60 * SECOND)
    coming = now_ns + np.sort(chance.integers(0, round(seconds * SECOND), round(seconds * RATES[root])))
    times = np.concatenate([past, coming])
    rows = np.zeros(len(times), TRADE)
    base, tick_e9 = PRICES[root]
    rows["ts_event"] = times // resolution_ns * resolution_ns
    rows["price"] = (base + np.cumsum(chance.integers(-1, 2, len(times))) // 4) * tick_e9
    rows["size"], rows["side"] = chance.integers(1, 9, len(times)), b"B"
    rows["sequence"] = np.arange(1, len(times) + 1)
    return rows


async def serve(name: str, ahead_ns: int, seconds: float) -> None:
    """Play until the process is asked to end."""
    peer: FakePeer = getattr(import_module(f"support.vendors.{name}_peer"), PEERS[name])()
    if hasattr(peer, "beat_s"):
        peer.beat_s = 1.0  # type: ignore[attr-defined]
    clock = Ahead(ahead_ns)
    peer.now_ns = clock.now_ns()
    for contract in contract_selector(load_reference().universe, list(RATES), clock)():
        peer.tape(contract, tape_of(contract, peer.now_ns, seconds, peer.resolution_ns))
    await peer.start()
    print(json.dumps({"places": dict(peer.places), "given": dict(peer.given)}), flush=True)
    while True:
        await peer.advance(max(peer.now_ns, clock.now_ns()))
        await asyncio.sleep(STEP_S)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
