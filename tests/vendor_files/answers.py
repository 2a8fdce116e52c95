"""Compare the answers of a service with levels computed by `level_oracle`."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.vendor_files import level_oracle as oracle
from tests.vendor_files.level_oracle import Bar, Profile, Trade
from tests.vendor_files.service import Service

Day = tuple[str, Profile, Sequence[Trade | Bar]]


class Expected:
    """Levels in ticks as the numbers of answers. tick: the tick size. steps: parts of a lot that a size counts."""

    def __init__(self, tick: Fraction, steps: int = 1) -> None:
        self._tick, self._steps = tick, steps

    def price(self, ticks: Fraction | int) -> float:
        return float(ticks * self._tick)

    def size(self, steps: int) -> float:
        return steps / self._steps

    def levels(self, found: Profile) -> dict[str, Any]:
        """Return the levels of one session."""
        low, high = oracle.value_area(found.tpos)
        volume_low, volume_high = oracle.value_area(found.volumes)
        upper, lower = oracle.tails(found)
        assert found.hour is not None
        prices = {
            "poc": oracle.poc(found.tpos), "vah": high, "val": low, "vpoc": oracle.poc(found.volumes),
            "volumeVah": volume_high, "volumeVal": volume_low, "high": found.high, "low": found.low,
            "openPrice": found.opened, "closePrice": found.closed, "ibLow": found.hour[0], "ibHigh": found.hour[1],
        }  # fmt: skip
        return {name: self.price(ticks) for name, ticks in prices.items()} | {
            "pocCandidates": [self.price(row) for row in oracle.candidates(found.tpos)],
            "upperTailTicks": upper, "lowerTailTicks": lower,
            "singlePrints": [
                {"low": self.price(low), "high": self.price(high)} for low, high in oracle.single_prints(found)
            ],
        }  # fmt: skip

    def rows(self, found: Profile) -> list[tuple[float, int, str, float]]:
        """Return price, TPOs, letters and volume of each row, highest first, of one session."""
        return [
            (self.price(tick), len(found.letters[tick]), oracle.letter_text(found.letters[tick]),
             self.size(found.volume.get(tick, 0)))
            for tick in range(found.high, found.low - 1, -1)
            if found.letters.get(tick) or found.volume.get(tick)
        ]  # fmt: skip

    def listed(self, found: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
        return [{"price": self.price(price), "date": name} for price, name in found]


def check_levels(service: Service, symbol: str, days: Sequence[Day], expected: Expected) -> None:
    """Compare `/api/levels` after the last of these days."""
    answer = service.get("/api/levels", symbol=symbol)
    levels = expected.levels(days[-1][1])
    assert (answer["dataSource"], answer["live"], answer["asOf"]) == ("delayed", False, days[-1][0])
    assert answer["prior"] == {name: levels[name] for name in ("poc", "vah", "val")}
    assert answer["nakedPocs"] == expected.listed(oracle.naked(days))
    assert answer["poorHighs"] == expected.listed(oracle.poor(days, high=True))
    assert answer["poorLows"] == expected.listed(oracle.poor(days, high=False))


def check_profiles(service: Service, symbol: str, days: Sequence[Day], expected: Expected) -> None:
    """Compare `/api/profile` of each day: all levels and every row."""
    for name, found, _ in days:
        answer = service.get("/api/profile", symbol=symbol, date=name)
        levels, profile = expected.levels(found), answer["profile"]
        assert {key: answer["levels"][key] for key in levels} == levels, name
        same = levels.keys() & profile.keys()
        assert {key: profile[key] for key in same} == {key: levels[key] for key in same}, name
        assert (profile["excessHigh"], profile["excessLow"]) == oracle.excess(found), name
        rows = [(row["price"], row["tpos"], row["letters"], row["volume"]) for row in answer["rows"]]
        assert [row for row in rows if row[1] or row[3]] == expected.rows(found), name
        check_vwap(profile["vwap"], found, expected)


def check_vwap(answer: dict[str, Any], found: Profile, expected: Expected) -> None:
    """Compare a VWAP: both are rounded to nine decimals, so allow two units of the last one."""
    mean, variance = oracle.vwap(found.volumes)
    unit = 10**12
    deviation = oracle.root(variance, unit)
    assert abs(answer["price"] - expected.price(mean)) < 3e-9
    assert abs(answer["deviation"] - expected.price(deviation)) < 3e-9
    for band in answer["bands"]:
        assert abs(band["upper"] - expected.price(mean + band["deviations"] * deviation)) < 1e-8
        assert abs(band["lower"] - expected.price(mean - band["deviations"] * deviation)) < 1e-8


def check_composite(
    service: Service, symbol: str, found: Profile, expected: Expected, *, row: int, **window: str
) -> dict[str, Any]:
    """Compare a profile of several days in rows of several ticks; return the answer."""
    answer = service.get("/api/profile", symbol=symbol, row=row, **window)
    profile = answer["profile"]
    tpos, volumes = oracle.tpos_in_rows(found.letters, row), oracle.in_rows(found.volumes, row)
    (low, high), (volume_low, volume_high) = oracle.value_area(tpos), oracle.value_area(volumes)
    middle, top = (row - 1) // 2, row - 1
    prices = {
        "poc": oracle.poc(tpos) * row + middle, "val": low * row, "vah": high * row + top,
        "vpoc": oracle.poc(volumes) * row + middle, "volumeVal": volume_low * row, "volumeVah": volume_high * row + top,
        "high": found.high, "low": found.low, "openPrice": found.opened, "closePrice": found.closed,
    }  # fmt: skip
    assert {name: profile[name] for name in prices} == {
        name: expected.price(ticks) for name, ticks in prices.items()
    }
    assert [(one["price"], one["tpos"], one["volume"]) for one in answer["rows"] if one["tpos"]] == [
        (expected.price(number * row), tpos[number], expected.size(volumes[number]))
        for number in sorted(tpos, reverse=True)
        if tpos[number]
    ]
    check_vwap(profile["vwap"], found, expected)
    return answer
