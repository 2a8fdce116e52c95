"""Server and scripts format prices alike.

Expected texts follow the exchange: CME writes bonds with 32nds after the apostrophe, then the first digit of a half,
quarter or eighth of one.
"""

from typing import Any

import pytest
from tests.web.browsing import Opened

from outcry.answers.charting import Notation
from outcry.web.number_format import (
    age_text,
    lots_text,
    percent_text,
    points_text,
    price_text,
    share_text,
    ticks_between,
    ticks_text,
)

#: price, decimals (negative: parts of a 32nd), text
PRICES = [
    (6912.25, 2, "6,912.25"),
    (6912.0, 2, "6,912.00"),
    (49820.0, 0, "49,820"),
    (1234567.5, 1, "1,234,567.5"),
    (0.0064715, 7, "0.0064715"),
    (1.15835, 5, "1.15835"),
    (-37.63, 2, "−37.63"),
    (0.0, 2, "0.00"),
    (114.78125, -1, "114'25"),
    (114.0, -1, "114'00"),
    (112.640625, -2, "112'205"),
    (112.625, -2, "112'200"),
    (109.8828125, -4, "109'282"),
    (109.8984375, -4, "109'287"),
    (104.19921875, -8, "104'063"),
    (104.21484375, -8, "104'068"),
]
#: level, price it is measured from, tick, decimals, ticks, points
DISTANCES = [
    (6912.25, 6914.75, 0.25, 2, "−10", "−2.50"),
    (6914.75, 6912.25, 0.25, 2, "+10", "+2.50"),
    (6912.25, 6912.25, 0.25, 2, "0", "0.00"),
    (1.1, 1.0995, 0.00005, 5, "+10", "+0.00050"),
    (0.0064715, 0.0064955, 0.0000005, 7, "−48", "−0.0000240"),
    (112.640625, 113.0, 0.015625, -2, "−23", "−0'115"),
    (-37.63, -40.0, 0.01, 2, "+237", "+2.37"),
    (26000.0, 24750.0, 0.25, 2, "+5000", "+1250.00"),
]
#: level, price, average daily range, text
SHARES = [
    (105.0, 100.0, 20.0, "+25"),
    (99.9, 100.0, 40.0, "0"),
    (99.0, 100.0, 200.0, "−1"),
    (80.0, 100.0, 16.0, "−125"),
]
#: change in percent, text
PERCENTS = [
    (0.125, "+0.13"),
    (-0.125, "−0.13"),
    (0.0049, "0.00"),
    (-0.0049, "0.00"),
    (1234.5, "+1,234.50"),
    (-3.0, "−3.00"),
]
LOTS = [
    (0, "0"), (999, "999"), (43_399, "43,399"), (1_045_038, "1,045,038"),
    (1.623, "1.623"), (0.5, "0.5"), (12_345_678.123, "12,345,678.123"), (0.00000001, "0.00000001"),
]  # fmt: skip
#: ms, text
AGES = [
    (-500, "0.0 s"),
    (310, "0.3 s"),
    (250, "0.3 s"),
    (9_900, "9.9 s"),
    (9_960, "10 s"),
    (44_500, "45 s"),
    (99_600, "2 min"),
    (150_000, "3 min"),
    (240_000, "4 min"),
    (5_400_000, "2 h"),
    (9_000_000, "3 h"),
    (129_600_000, "2 d"),
    (216_000_000, "3 d"),
    (300_000_000, "3 d"),
]


def _notation(decimals: int) -> Notation:
    if decimals < 0:
        return Notation(kind="32nds", decimals=6, parts=-decimals)
    return Notation(kind="decimal", decimals=decimals, parts=1)


@pytest.mark.parametrize(("price", "decimals", "text"), PRICES)
def test_a_price_is_written_the_exchanges_way(price: float, decimals: int, text: str) -> None:
    assert price_text(price, _notation(decimals)) == text


@pytest.mark.parametrize(("level", "price", "tick", "decimals", "ticks", "points"), DISTANCES)
def test_a_distance_is_the_level_minus_the_price(
    level: float, price: float, tick: float, decimals: int, ticks: str, points: str
) -> None:
    assert ticks_text(ticks_between(level, price, tick)) == ticks
    assert points_text(level, price, _notation(decimals)) == points


@pytest.mark.parametrize(("level", "price", "average", "text"), SHARES)
def test_a_share_is_in_percent_of_the_average_range(
    level: float, price: float, average: float, text: str
) -> None:
    assert share_text(level, price, average) == text


def test_no_price_is_a_dash() -> None:
    assert price_text(None, _notation(2)) == "–"


@pytest.mark.parametrize(("age_ms", "text"), AGES)
def test_an_age_is_written_alike_in_every_language(age_ms: int, text: str) -> None:
    assert age_text(age_ms * 10**6) == text


@pytest.mark.parametrize(("percent", "text"), PERCENTS)
def test_a_change_in_percent_has_its_sign_and_no_sign_of_nothing(percent: float, text: str) -> None:
    assert percent_text(percent) == text


@pytest.mark.parametrize(("lots", "text"), LOTS)
def test_lots_are_grouped_the_exchanges_way(lots: float, text: str) -> None:
    assert lots_text(lots) == text


@pytest.mark.parametrize("language", ["en", "de"])
def test_an_age_keeps_its_form_when_the_page_comes_to_life(opened: Opened, language: str) -> None:
    with opened(language=language) as tab:
        tab.page.clock.set_fixed_time(1_700_000_000_000)  # ages are those of the table, and stay so
        tab.go("/errors")
        found = tab.page.evaluate(
            """async (ages) => {
              const js = await import(document.querySelector('script[src*="js/common.js"]').src);
              const part = document.createElement("div");
              for (const ms of ages) {
                const time = document.createElement("time");
                time.dataset.since = "";
                time.dateTime = new Date(js.marketNow() - ms).toISOString();
                part.append(time);
              }
              js.refreshAges(part);
              return [...part.children].map((time) => time.textContent);
            }""",
            [case[0] for case in AGES],
        )
    assert found == [text for _, text in AGES]


def _as_script(decimals: int) -> dict[str, Any]:
    return (
        {"kind": "32nds", "parts": -decimals} if decimals < 0 else {"kind": "decimal", "decimals": decimals}
    )


def test_the_script_writes_every_one_of_these_the_same(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/errors")
        found = tab.page.evaluate(
            """async ([prices, distances, shares, percents, lots]) => {
              const page = document.querySelector('script[type=module]').src;
              const js = await import(new URL("prices.js", page));
              return [
                prices.map(([price, notation]) => js.formatPrice(price, notation)),
                distances.map(([level, price, tick, notation]) =>
                  [js.formatTicks(js.ticksBetween(level, price, tick)), js.formatPoints(level, price, notation)]),
                shares.map(([level, price, average]) => js.formatShare(level, price, average)),
                percents.map(js.formatPercent),
                lots.map(js.formatLots),
                js.formatPrice(null, prices[0][1]),
              ];
            }""",
            [
                [[price, _as_script(decimals)] for price, decimals, _ in PRICES],
                [
                    [level, price, tick, _as_script(decimals)]
                    for level, price, tick, decimals, _, _ in DISTANCES
                ],
                [list(case[:3]) for case in SHARES],
                [percent for percent, _ in PERCENTS],
                [lots for lots, _ in LOTS],
            ],
        )
    assert found == [
        [text for *_, text in PRICES],
        [[ticks, points] for *_, ticks, points in DISTANCES],
        [text for *_, text in SHARES],
        [text for _, text in PERCENTS],
        [text for _, text in LOTS],
        "–",
    ]
