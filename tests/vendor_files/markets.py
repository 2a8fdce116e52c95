"""A random walk as trades and minute bars, in the hours of a market."""

import random
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tests.vendor_files.level_oracle import Bar, Trade

MINUTE = timedelta(minutes=1)


def at(day: str, clock: str, zone: str) -> datetime:
    """Return a local time as an aware datetime in UTC."""
    local = datetime.combine(date.fromisoformat(day), time.fromisoformat(clock), ZoneInfo(zone))
    return local.astimezone(ZoneInfo("UTC"))


def minutes(
    rng: random.Random,
    start: datetime,
    end: datetime,
    price: int,
    *,
    step: int = 2,
    missing: Sequence[int] = (),
) -> list[Bar]:
    """Return a bar for each minute; `missing` are minutes without trades, counted from the start."""
    found = list[Bar]()
    for number in range((end - start) // MINUTE):
        opened, price = price, price + rng.randint(-step, step)
        high = max(opened, price) + rng.choice((0, 0, 1, 2))
        low = min(opened, price) - rng.choice((0, 0, 1, 2))
        volume = int(rng.paretovariate(1.1) * 20)
        if number not in missing:
            found.append(Bar(start + number * MINUTE, opened, high, low, price, volume))
    return found


def trades(
    rng: random.Random, start: datetime, end: datetime, price: int, *, every_s: float, sizes: Sequence[int]
) -> Iterator[tuple[Trade, int]]:
    """Yield trades with random pauses, each with its nanoseconds after its microsecond."""
    now = start
    while (now := now + timedelta(microseconds=int(rng.expovariate(1 / every_s) * 1e6) + 1)) < end:
        price += rng.choice((-1, 0, 0, 0, 1))
        yield Trade(now, price, rng.choice(sizes), rng.choice("BA")), rng.randrange(1000)
