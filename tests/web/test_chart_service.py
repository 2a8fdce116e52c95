"""The chart of a running service agrees with its other answers: profiles, history, levels, context."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from support.chart_page import ChartServer, browsing, drawn, serving, shown
from tests.web.harness import Visitor, WebHarness, demo_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    folder: Path = tmp_path_factory.mktemp("service")
    with demo_service(folder) as service:
        yield service


@pytest.fixture(scope="module")
def harness() -> Iterator[ChartServer]:
    with serving() as harness:
        yield harness


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browsing(width=1500, height=1600) as page:
        yield page


def asked(visitor: Visitor, path: str) -> Any:
    reply = visitor.get(path)
    assert reply.status == 200, (path, reply.text)
    return json.loads(reply.body)


def charted(visitor: Visitor, harness: ChartServer, page: Page, root: str, query: str) -> tuple[Any, Any]:
    """The answer for a chart, and what was drawn of it."""
    harness.answer = asked(visitor, f"/page/chart?symbol={root}&sessions=5")
    return harness.answer, shown(
        page, harness, f"sessions=5&parts=1&show=volume&show=poor&show=singles&{query}"
    )


@pytest.mark.parametrize("root", ["ES", "ZN", "6J"])
def test_completed_sessions_are_drawn_as_profile_and_history_give_them(
    service: WebHarness, harness: ChartServer, page: Page, root: str
) -> None:
    visitor = service.visitor()
    answer, record = charted(visitor, harness, page, root, "letters=letters&row=1")
    completed = [session["date"] for session in answer["sessions"] if session["final"]]
    assert len(completed) >= 4
    history = asked(visitor, f"/page/history?symbol={root}&from={completed[0]}&to={completed[-1]}")
    by_date = {session["date"]: session for session in history["sessions"]}
    for date in completed:
        facts, levels = record["sessions"][date], by_date[date]
        profile = asked(visitor, f"/page/profile?symbol={root}&date={date}")
        expected = {row["price"]: list(row["letters"]) for row in profile["rows"] if row["letters"]}
        assert {float(price): letters for price, letters in facts["rows"].items()} == expected
        volumes = {row["price"]: row["volume"] for row in profile["rows"] if row["volume"]}
        assert {float(price): lots for price, lots in facts["volume"].items()} == volumes
        value = {name: facts["value"][name] for name in ("poc", "vah", "val")}
        assert value == {name: levels[name] for name in ("poc", "vah", "val")}
        assert facts["vpoc"] == levels["vpoc"]
        assert facts.get("singles", []) == levels["singlePrints"]
        assert set(facts.get("poor", {})) == {
            side for side in ("high", "low") if levels[f"poor{side.capitalize()}"]
        }


def of_one_instant(visitor: Visitor) -> tuple[Any, Any, Any]:
    """Levels, chart and context; the market goes on, so until all of them were asked of the same instant."""
    for _ in range(100):
        levels = asked(visitor, "/page/levels?symbol=ES")
        chart = asked(visitor, "/page/chart?symbol=ES&sessions=5")
        context = asked(visitor, "/page/context?symbol=ES")
        if levels["updatedAt"] == chart["updatedAt"] == context["updatedAt"]:
            return levels, chart, context
    pytest.fail("the answers are never of one instant")


def test_the_open_session_is_drawn_as_levels_and_context_give_it(
    service: WebHarness, harness: ChartServer, page: Page
) -> None:
    visitor = service.visitor()
    before, answer, _ = of_one_instant(visitor)
    harness.answer = answer
    record = shown(page, harness, "sessions=5&row=1")
    facts = record["sessions"][answer["sessions"][-1]["date"]]
    developing = before["developing"]
    value = {name: facts["value"][name] for name in ("poc", "vah", "val")}
    assert value == {name: developing[name] for name in ("poc", "vah", "val")}
    assert facts["vpoc"] == developing["vpoc"]
    assert facts["ib"] == {"high": developing["ibHigh"], "low": developing["ibLow"]}
    assert max(map(float, facts["volume"])) == developing["high"]
    assert min(map(float, facts["volume"])) == developing["low"]

    drawn_at = {(line["kind"], line["price"]) for line in record["lines"]}
    expected = {(f"d{name}", developing[name]) for name in ("poc", "vah", "val")}
    expected |= {(f"p{name}", before["prior"][name]) for name in ("poc", "vah", "val")}
    expected |= {("onh", before["overnight"]["high"]), ("onl", before["overnight"]["low"])}
    expected |= {("ibh", developing["ibHigh"]), ("ibl", developing["ibLow"]), ("last", before["lastPrice"])}
    in_sight = {one for one in expected if one in drawn_at}
    assert in_sight >= {one for one in expected if one[0][0] != "p"}
    naked = {(one["price"], one["date"]) for one in before["nakedPocs"]}
    assert {(line["price"], line["date"]) for line in record["lines"] if line["kind"] == "npoc"} <= naked
    # The initial balance still forms, so its multiples are unknown.
    if len(answer["sessions"][-1]["brackets"]) <= 2:
        assert record["extensions"] == []


def test_multiples_of_the_initial_balance_are_drawn_once_it_is_made(
    service: WebHarness, harness: ChartServer, page: Page
) -> None:
    visitor = service.visitor()
    service.forward(2 * 3600)
    for _ in range(200):
        _, answer, context = of_one_instant(visitor)
        if len(answer["sessions"][-1]["brackets"]) > 3:
            break
        page.wait_for_timeout(100)
    harness.answer = answer
    record = shown(page, harness, "sessions=5&row=1")
    extensions = {
        (one["percent"], side, one[side]) for one in context["ibExtensions"] for side in ("up", "down")
    }
    drawn = {(one["percent"], one["side"], one["price"]) for one in record["extensions"]}
    assert drawn
    assert drawn <= extensions


def test_the_symbols_page_shows_the_chart_and_stays_live(service: WebHarness, page: Page) -> None:
    page.goto(f"{service.base}/s/ES?sessions=2&parts=1&show=path")
    assert drawn(page)["symbol"] == "ES"
    page.locator("#chart").focus()
    page.keyboard.press("s")
    begun = drawn(page)
    assert begun["layout"] == "split"
    assert "layout=split" in page.url
    service.forward(1800)  # a period later
    last = max(begun["sessions"])
    page.wait_for_function(
        "([date, count]) => window.__profile.describe().sessions[date].path.length > count",
        arg=[last, len(begun["sessions"][last]["path"])], timeout=60_000,
    )  # fmt: skip
