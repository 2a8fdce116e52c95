"""The chart draws what its answer contains: in each layout, at each row size, as letters and as blocks."""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import pytest
from playwright.sync_api import Page
from support.chart_answers import Json, Made, answer_of, letters_of, volumes_of
from support.chart_page import ChartServer, browsing, drawn, serving, shown
from tests.timeouts import wait_until

LAYOUTS = ("collapsed", "split", "candles")
PARTS = ["volume", "naked", "prior", "ib", "overnight", "singles", "poor", "path", "candles"]
MARKETS = {
    "five days": Made(),
    "all completed": Made(traded=None, seed=3),
    "days missing": Made(sessions=6, missing=frozenset({1, 2, 4}), seed=11),
    "below zero": Made(tick_e9=10_000_000, start_ticks=-30, swing=30, seed=5),
    "bonds in halves of 32nds": Made(
        tick_e9=15_625_000, start_ticks=7_200, notation=("32nds", 9, 2), seed=13
    ),
    "a tick of 0.0000005": Made(tick_e9=500, start_ticks=13_640, notation=("decimal", 7, 1), seed=17),
    "a tick of 5": Made(tick_e9=5_000_000_000, start_ticks=7_000, notation=("decimal", 0, 1), seed=19),
    "a minute old": Made(sessions=2, traded=1, seed=23),
    "46 periods": Made(sessions=3, periods=46, traded=40, open_at=(18, 0), overnight=False, seed=29),
    "no night, one day": Made(sessions=1, overnight=False, seed=31),
    "hours that change": Made(sessions=24, zone="Europe/Berlin", seed=37),
}


@pytest.fixture(scope="module")
def harness() -> Iterator[ChartServer]:
    with serving() as harness:
        yield harness


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browsing(width=1300, height=860) as page:
        yield page


def look(page: Page, **view: Any) -> Json:
    """Set a view as the toolbar would; return what was drawn."""
    usual: Json = {"layout": "collapsed", "letters": "auto", "row": None, "sessions": 60, "show": PARTS}
    page.evaluate("(view) => window.chart.set({ ...view, show: new Set(view.show) })", usual | view)
    return drawn(page)


@pytest.mark.parametrize("name", MARKETS)
def test_everything_drawn_is_of_the_answer(harness: ChartServer, page: Page, name: str) -> None:
    made = MARKETS[name]
    harness.answer = answer = answer_of(made)
    shown(page, harness)
    for layout, row, letters in product(LAYOUTS, (None, 1, 4), ("auto", "letters", "blocks")):
        if layout == "candles" and letters != "auto":
            continue
        record = look(page, layout=layout, row=row, letters=letters)
        assert record["layout"] == layout
        assert (
            row is None or record["rowTicks"] == row or (row * record["rowHeight"] / record["rowTicks"] < 1)
        )
        if layout == "candles":
            assert record["mode"] == "candles"
        elif letters != "auto":
            assert record["mode"] == letters
        else:
            assert record["mode"] == (
                "letters" if record["rowHeight"] >= 8.5 and record["slot"] >= 5.5 else "blocks"
            )
        check_sessions(record, answer, made.tick_e9)
        check_levels(record, answer)
        check_tags(record)


def check_sessions(record: Json, answer: Json, tick_e9: int) -> None:
    size = record["rowTicks"]
    assert list(record["sessions"]) == [session["date"] for session in answer["sessions"]]
    for session in answer["sessions"]:
        facts, levels = record["sessions"][session["date"]], session["levels"]
        expected = letters_of(session, tick_e9, size)
        counts = {price: len(letters) for price, letters in expected.items()}
        if record["mode"] == "letters":
            assert prices(facts["rows"]) == expected
        assert prices(facts.get("blocks", {})) == (counts if record["mode"] == "blocks" else {})
        assert prices(facts["volume"]) == volumes_of(session, tick_e9, size)
        assert facts["vpoc"] == levels["vpoc"]
        value = facts["value"]
        assert {name: value[name] for name in ("poc", "vah", "val")} == {
            name: levels[name] for name in ("poc", "vah", "val")
        }
        assert value["pocRow"] == row_of(levels["poc"], tick_e9, size)
        assert facts["ib"] == {"high": levels["ibHigh"], "low": levels["ibLow"]}
        assert facts.get("singles", []) == levels["singlePrints"]
        assert facts["path"] == session["path"]
        assert facts.get("live") == (None if session["final"] else session["brackets"][-1]["letter"])
        assert facts["candles"] == [
            {name: bracket[name] for name in ("letter", "open", "high", "low", "close")}
            for bracket in session["brackets"]
        ]
        check_edges(facts, session, tick_e9, size, ends=record["slot"] >= 2.5)


def check_edges(facts: Json, session: Json, tick_e9: int, size: int, *, ends: bool) -> None:
    levels, night = session["levels"], session["overnight"]
    poor = {
        side: {"state": session[name], "price": levels[side]}
        for side, name in (("high", "poorHigh"), ("low", "poorLow"))
        if session[name]
    }
    assert facts.get("poor", {}) == poor
    if ends:
        assert facts["ends"] == {"open": levels["openPrice"], "close": levels["closePrice"]}
    if night is None:
        assert "night" not in facts
        return
    assert (facts["night"]["high"], facts["night"]["low"]) == (night["high"], night["low"])
    rows = letters_of(night, tick_e9, size)
    assert prices(facts["night"]["rows"]) == {price: len(letters) for price, letters in rows.items()}


def check_levels(record: Json, answer: Json) -> None:
    """Every line is one of the answer's, and each of these that is in sight is drawn."""
    last, live = answer["sessions"][-1], answer["live"]
    levels = last["levels"]
    expected = {(f"{'d' if live else ''}{name}", levels[name]) for name in ("poc", "vah", "val")}
    expected |= {("ibh", levels["ibHigh"]), ("ibl", levels["ibLow"])}
    expected |= {("npoc", one["price"]) for one in answer["nakedPocs"]}
    for kind, name in (("poor-high", "poorHigh"), ("poor-low", "poorLow")):
        expected |= {(kind, one["price"]) for one in answer[f"{name}s"]}
        if live and last[name] == "open":
            expected.add((kind, levels["high" if name == "poorHigh" else "low"]))
    if answer["overnight"]:
        expected |= {("onh", answer["overnight"]["high"]), ("onl", answer["overnight"]["low"])}
    if live:
        expected.add(("last", answer["lastPrice"]))
    if live and answer["prior"]:
        expected |= {(f"p{name}", answer["prior"][name]) for name in ("poc", "vah", "val")}
    found = {(line["kind"], line["price"]) for line in record["lines"]}
    assert found <= expected
    assert expected - found <= {one for one in expected if one[0] in {"npoc", "poor-high", "poor-low"}}
    high = max(one["levels"]["high"] for one in answer["sessions"])
    low = min(one["levels"]["low"] for one in answer["sessions"])
    assert not [one for one in expected - found if low <= one[1] <= high]
    extensions = {
        (one["percent"], side, one[side]) for one in last["ibExtensions"] for side in ("up", "down")
    }
    assert {(one["percent"], one["side"], one["price"]) for one in record["extensions"]} <= extensions
    named = [day for gap in record["gaps"] for day in answer["missing"] if gap["from"] <= day <= gap["until"]]
    assert named == answer["missing"]


def check_tags(record: Json) -> None:
    """Each line drawn has its tag, none covers another, all are on the pane."""
    tags = sorted(record["tags"], key=lambda tag: tag["y"])
    assert {kind for tag in tags for kind in tag["kinds"]} == {line["kind"] for line in record["lines"]}
    for upper, lower in pairwise(tags):
        assert lower["y"] - upper["y"] >= upper["height"] - 0.01
        assert upper["price"] >= lower["price"]
    for tag in tags:
        assert tag["y"] - tag["height"] / 2 >= 0
        assert tag["y"] + tag["height"] / 2 <= record["height"]
        assert record["right"] <= tag["left"] < tag["right"]


def prices(rows: Json) -> dict[float, Any]:
    return {float(price): found for price, found in rows.items()}


def row_of(price: float, tick_e9: int, size: int) -> float:
    return round(price * 10**9) // tick_e9 // size * size * tick_e9 / 10**9


def test_sixty_sessions_are_all_there(harness: ChartServer, page: Page) -> None:
    made = Made(sessions=60, seed=41)
    harness.answer = answer = answer_of(made)
    shown(page, harness, "sessions=60")
    for view in ({}, {"letters": "letters"}, {"layout": "split", "row": 4}):
        record = look(page, **view)
        check_sessions(record, answer, made.tick_e9)
        check_levels(record, answer)


def test_parts_not_wanted_are_not_drawn(harness: ChartServer, page: Page) -> None:
    harness.answer = answer_of(Made(seed=43))
    shown(page, harness)
    facts_of = {
        "volume": "volume", "ib": "ib", "overnight": "night", "singles": "singles", "poor": "poor", "path": "path",
        "candles": "candles",
    }  # fmt: skip
    whole = look(page)
    for part, name in facts_of.items():
        assert any(name in facts for facts in whole["sessions"].values()), name
        record = look(page, show=[one for one in PARTS if one != part])
        assert not any(name in facts for facts in record["sessions"].values()), name
    kinds = {
        "naked": {"npoc"},
        "prior": {"pvah", "ppoc", "pval"},
        "ib": {"ibh", "ibl"},
        "overnight": {"onh", "onl"},
    }
    for part, removed_kind in kinds.items():
        record = look(page, show=[one for one in PARTS if one != part])
        assert removed_kind <= {line["kind"] for line in whole["lines"]}
        assert not removed_kind & {line["kind"] for line in record["lines"]}


def test_a_balance_still_forming_has_no_multiples(harness: ChartServer, page: Page) -> None:
    answer = answer_of(Made(seed=7))
    last = answer["sessions"][-1]
    assert not last["final"]
    edge = last["levels"]["high"]
    last["ibExtensions"] = [
        {"percent": 150, "up": edge, "down": edge, "upReached": True, "downReached": True}
    ]
    harness.answer = answer
    shown(page, harness)
    assert [one["price"] for one in look(page)["extensions"]] == [edge, edge]
    last["levels"]["ibComplete"] = False
    shown(page, harness)
    assert look(page)["extensions"] == []


def test_naked_rays_begin_at_their_session_and_end_at_the_tags(harness: ChartServer, page: Page) -> None:
    harness.answer = answer = answer_of(Made(sessions=10, seed=47))
    record = shown(page, harness, "sessions=10")
    rays = [line for line in record["lines"] if line["kind"] == "npoc"]
    assert rays
    begins = {caption["date"]: caption["right"] for caption in record["captions"]}
    for ray in rays:
        assert {"price": ray["price"], "date": ray["date"]} in answer["nakedPocs"]
        assert ray["from"] == pytest.approx(begins[ray["date"]], abs=1)
        assert ray["to"] == record["right"]


def test_a_naked_poc_says_of_its_day_what_the_page_says_of_it(harness: ChartServer, page: Page) -> None:
    harness.answer = answer = answer_of(Made(seed=47))
    answer["nakedPocs"] = [{"price": answer["sessions"][0]["levels"]["poc"], "date": "2026-11-16"}]
    page.set_viewport_size({"width": 2200, "height": 900})
    record = shown(page, harness)
    tag = next(tag for tag in record["tags"] if "npoc" in tag["kinds"])
    assert "nPOC Mon 16 Nov" in tag["text"]  # as long as the page says nothing of it
    page.evaluate("window.chart.note({ '2026-11-16': 'Nov 16 · 4 sessions' })")
    tag = next(tag for tag in drawn(page)["tags"] if "npoc" in tag["kinds"])
    assert "nPOC Nov 16 · 4 sessions" in tag["text"]
    page.set_viewport_size({"width": 1280, "height": 800})
    wait_until(lambda: page.evaluate("window.chart.describe().width < 1300"))
    tag = next(tag for tag in drawn(page)["tags"] if "npoc" in tag["kinds"])
    assert tag["text"].endswith("nPOC Nov 16")  # what there is no room for is left out from the end


def test_only_the_sessions_asked_for_are_in_sight(harness: ChartServer, page: Page) -> None:
    harness.answer = answer = answer_of(Made(sessions=10, seed=53))
    record = shown(page, harness, "sessions=2")
    assert [caption["date"] for caption in record["captions"]] == [
        one["date"] for one in answer["sessions"][-2:]
    ]


def test_a_bracket_off_the_half_hours_after_a_break_has_a_slot_of_its_own(
    harness: ChartServer, page: Page
) -> None:
    made = Made(sessions=1, traded=6, seed=59)
    harness.answer = answer = answer_of(made)
    session = answer["sessions"][0]
    session["brackets"][3]["start"] = session["brackets"][2]["start"].replace(":00.000Z", ":59.000Z")
    shown(page, harness)
    record = look(page, layout="split", letters="letters", row=1)
    facts = record["sessions"][session["date"]]
    assert prices(facts["rows"]) == letters_of(session, made.tick_e9, 1)


def test_rows_too_low_to_be_seen_are_drawn_several_as_one(harness: ChartServer, page: Page) -> None:
    """A session of sixty thousand ticks has no row for each of them, and none is lost."""
    made = Made(sessions=3, swing=20_000, start_ticks=200_000, seed=67)
    harness.answer = answer = answer_of(made)
    shown(page, harness)
    record = look(page, row=4, letters="blocks")
    assert record["rowTicks"] % 4 == 0
    assert 0.4 <= record["rowHeight"] < 1.2
    check_sessions(record, answer, made.tick_e9)


def test_where_there_is_no_room_for_all_tags_the_least_important_are_left_out(
    harness: ChartServer, page: Page
) -> None:
    harness.answer = answer_of(Made(sessions=40, seed=71))
    page.set_viewport_size({"width": 1300, "height": 300})
    try:
        record = shown(page, harness, "sessions=20&layout=split")
    finally:
        page.set_viewport_size({"width": 1300, "height": 860})
    tags = sorted(record["tags"], key=lambda tag: tag["y"])
    assert len(tags) < len({line["price"] for line in record["lines"]})
    assert {"last", "dpoc", "dvah", "dval"} <= {kind for tag in tags for kind in tag["kinds"]}
    for upper, lower in pairwise(tags):
        assert lower["y"] - upper["y"] >= upper["height"] - 0.01
    assert tags[-1]["y"] + tags[-1]["height"] / 2 <= record["height"]
