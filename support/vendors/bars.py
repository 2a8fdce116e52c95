"""Bars computed from trades one at a time, independently of the code under test."""

from outcry.trades.records import Rows


def bars_by_hand(rows: Rows, length_ns: int) -> list[tuple[int, ...]]:
    """Return bars (start, open, high, low, close, volume) of the trades, sorted by start."""
    found: dict[int, list[int]] = {}
    for row in rows:
        start, price, size = (
            int(row["ts_event"]) // length_ns * length_ns,
            int(row["price"]),
            int(row["size"]),
        )
        bar = found.setdefault(start, [price, price, price, price, 0])
        bar[1], bar[2], bar[3] = max(bar[1], price), min(bar[2], price), price
        bar[4] += size
    return [(start, *bar) for start, bar in sorted(found.items())]
