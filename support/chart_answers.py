"""Chart answers of simulated markets: a random walk per bracket from a seed, with levels computed by the core.

Tests compute the expected drawing from such an answer by the definitions (`letters_of`), not by chart code.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from outcry.market.day_type import day_type
from outcry.market.ladder import Bracket, Ladder, letter
from outcry.market.profile import SessionProfile, levels_of, profile_of

HALF_HOUR = timedelta(minutes=30)
Json = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A market for which an answer is generated.

    `open_at`: hour and minute of the open in the exchange's time zone. `periods`: number of brackets from there.
    `traded`: brackets of the last session that have begun; None if it has completed. `missing`: indexes of omitted
    sessions.
    """

    tick_e9: int = 250_000_000
    start_ticks: int = 28_400
    notation: tuple[str, int, int] = ("decimal", 2, 1)
    sessions: int = 5
    periods: int = 14
    traded: int | None = 9
    open_at: tuple[int, int] = (9, 30)
    zone: str = "America/New_York"
    missing: frozenset[int] = frozenset()
    overnight: bool = True
    swing: int = 16
    seed: int = 7


def answer_of(made: Made) -> Json:
    """Return the answer in the format of `/page/chart`."""
    chance = random.Random(made.seed)
    price = made.start_ticks
    sessions: list[Json] = []
    missing: list[str] = []
    days = _trading_days(date(2026, 11, 20), made.sessions)
    for place, day in enumerate(days):
        ended = place < made.sessions - 1 or made.traded is None
        night = _walk(chance, price, 30, made.swing // 2) if made.overnight else None
        price = night.close_ticks if night else price
        ladder = _walk(chance, price, made.periods if ended else made.traded or 1, made.swing)
        price = ladder.close_ticks
        if place in made.missing:
            missing.append(str(day))
        else:
            sessions.append(_session(made, day, ladder, night, ended=ended))
    _repair(sessions)
    return _answer(made, sessions, missing)


def letters_of(session: Json, tick_e9: int, size: int) -> dict[float, list[str]]:
    """Return letters by definition: a row has the letters of the brackets whose range includes one of its prices."""
    rows: dict[float, list[str]] = {}
    for bracket in session["brackets"]:
        low, high = (round(bracket[side] * 10**9) // tick_e9 for side in ("low", "high"))
        for row in range(low // size, high // size + 1):
            rows.setdefault(row * size * tick_e9 / 10**9, []).append(bracket["letter"])
    return rows


def volumes_of(session: Json, tick_e9: int, size: int) -> dict[float, int]:
    """Return volumes by definition: a row has the lots traded at its prices."""
    low = round(session["low"] * 10**9) // tick_e9
    rows: dict[float, int] = {}
    for place, lots in enumerate(session["volumes"]):
        price = (low + place) // size * size * tick_e9 / 10**9
        if lots:
            rows[price] = rows.get(price, 0) + lots
    return rows


def _trading_days(last: date, count: int) -> list[date]:
    days = [last]
    while len(days) < count:
        before = days[0] - timedelta(days=1)
        while before.weekday() >= 5:
            before -= timedelta(days=1)
        days.insert(0, before)
    return days


def _walk(chance: random.Random, price: int, periods: int, swing: int) -> Ladder:
    """Return overlapping brackets like those of an auction, and lots that concentrate where they overlap."""
    brackets: list[Bracket] = []
    trend = chance.choice((-1, 0, 0, 1)) * swing // 3
    for index in range(periods):
        opened = price
        reach = chance.randint(swing // 3, swing)
        low = opened - chance.randint(0, reach)
        high = max(opened, low + reach)
        price = max(low, min(high, chance.randint(low, high) + trend))
        brackets.append(Bracket(index, opened, high, low, price, index, index))
    low, high = min(b.low_ticks for b in brackets), max(b.high_ticks for b in brackets)
    volume = [0] * (high - low + 1)
    for bracket in brackets:
        for ticks in range(bracket.low_ticks, bracket.high_ticks + 1):
            volume[ticks - low] += chance.randint(20, 400)
    return Ladder(tuple(brackets), low, tuple(volume), ((low, high),), "trades")


def _session(made: Made, day: date, ladder: Ladder, night: Ladder | None, *, ended: bool) -> Json:
    opens = datetime(day.year, day.month, day.day, *made.open_at, tzinfo=ZoneInfo(made.zone))
    if made.periods > 24:  # a session of nearly a day begins on the previous evening
        opens -= timedelta(days=1)
    opens = opens.astimezone(UTC)
    profile = profile_of(ladder, 2)

    def price(ticks: int) -> float:
        return ticks * made.tick_e9 / 10**9

    last = opens + HALF_HOUR * (len(ladder.brackets) - 1) + timedelta(minutes=1)
    return {
        "date": str(day), "contract": "ESZ2026", "open": _text(opens),
        "close": _text(opens + HALF_HOUR * made.periods), "final": ended,
        "levels": _levels(profile, price, day, last, ended=ended),
        "brackets": _brackets(ladder, price, opens), "low": price(ladder.low_ticks), "volumes": list(ladder.volume),
        "path": _path(ladder, price), "ibExtensions": _extensions(profile, price),
        "overnight": night and {
            "high": price(night.high_ticks), "low": price(night.low_ticks),
            "brackets": _brackets(night, price, opens - HALF_HOUR * 31), "volumes": list(night.volume),
        },
        "poorHigh": "open" if profile.poor_high else None, "poorLow": "open" if profile.poor_low else None,
    }  # fmt: skip


def _levels(profile: SessionProfile, price: Any, day: date, last: datetime, *, ended: bool) -> Json:
    return {
        "contract": "ESZ2026", "date": str(day), "session": "rth", "final": ended,
        "poc": price(profile.poc), "vah": price(profile.vah), "val": price(profile.val), "vpoc": price(profile.vpoc),
        "high": price(profile.high), "low": price(profile.low),
        "openPrice": price(profile.open), "closePrice": price(profile.close),
        "ibHigh": price(profile.ib_high), "ibLow": price(profile.ib_low), "ibComplete": True,
        "poorHigh": profile.poor_high, "poorLow": profile.poor_low,
        "singlePrints": [{"low": price(low), "high": price(high)} for low, high in profile.single_prints],
        "dayType": day_type(profile, None).value, "dayTypeFinal": ended, "data": {"last": _text(last)},
    }  # fmt: skip


def _brackets(ladder: Ladder, price: Any, opens: datetime) -> list[Json]:
    return [
        {
            "letter": letter(bracket.index), "start": _text(opens + HALF_HOUR * bracket.index),
            "open": price(bracket.open_ticks), "high": price(bracket.high_ticks),
            "low": price(bracket.low_ticks), "close": price(bracket.close_ticks),
        }
        for bracket in ladder.brackets
    ]  # fmt: skip


def _path(ladder: Ladder, price: Any) -> list[Json]:
    points: list[Json] = []
    for bracket in ladder.brackets:
        until = ladder.until(bracket.index)
        assert until is not None
        poc, low, high, _ = levels_of(until.tpo_counts())
        at = until.low_ticks
        points.append(
            {
                "letter": letter(bracket.index),
                "poc": price(at + poc),
                "vah": price(at + high),
                "val": price(at + low),
            }
        )
    return points


def _extensions(profile: SessionProfile, price: Any) -> list[Json]:
    balance = profile.ib_high - profile.ib_low
    found: list[Json] = []
    for percent in (150, 200, 300):
        beyond = -(-balance * (percent - 100) // 100)
        up, down = profile.ib_high + beyond, profile.ib_low - beyond
        found.append(
            {
                "percent": percent,
                "up": price(up),
                "down": price(down),
                "upReached": False,
                "downReached": False,
            }
        )
    return found


def _repair(sessions: Sequence[Json]) -> None:
    for place, session in enumerate(sessions):
        later = [one["levels"] for one in sessions[place + 1 :]]
        if session["poorHigh"] and any(one["high"] > session["levels"]["high"] for one in later):
            session["poorHigh"] = "repaired"
        if session["poorLow"] and any(one["low"] < session["levels"]["low"] for one in later):
            session["poorLow"] = "repaired"


def _answer(made: Made, sessions: list[Json], missing: list[str]) -> Json:
    kind, decimals, parts = made.notation
    last, live = sessions[-1], made.traded is not None
    described = sessions[:-1] if live else sessions
    prior = described[-1]["levels"] if described else None
    night = last["overnight"]
    return {
        "symbol": "ES", "name": "An invented market", "contract": "ESZ2026", "tickSize": made.tick_e9 / 10**9,
        "notation": {"kind": kind, "decimals": decimals, "parts": parts}, "timeZone": made.zone,
        "dataSource": "shared" if live else "delayed", "live": live, "asOf": None if live else last["date"],
        "updatedAt": last["levels"]["data"]["last"] if live else None,
        "state": "live" if live else "closed", "invented": True,
        "lastPrice": last["levels"]["closePrice"] if live else None, "averageRange": None,
        "prior": prior and {name: prior[name] for name in ("poc", "vah", "val")},
        "overnight": night and {"high": night["high"], "low": night["low"]},
        "nakedPocs": _naked(described, made.tick_e9),
        "poorHighs": [_dated(one, "high") for one in described[::-1] if one["poorHigh"] == "open"],
        "poorLows": [_dated(one, "low") for one in described[::-1] if one["poorLow"] == "open"],
        "touchedPocs": [], "repairedHighs": [], "repairedLows": [],
        "sessions": sessions, "missing": missing, "method": {},
    }  # fmt: skip


def _dated(session: Json, level: str) -> Json:
    return {"price": session["levels"][level], "date": session["date"]}


def _naked(sessions: Sequence[Json], tick_e9: int) -> list[Json]:
    """Return the POCs at which no later session has traded, newest first."""
    found = [
        _dated(session, "poc")
        for place, session in enumerate(sessions)
        if not any(
            session["levels"]["poc"] in letters_of(one, tick_e9, 1) for one in sessions[place + 1 :]
        )
    ]  # fmt: skip
    return found[::-1][:10]


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
