"""Updates while the chart is open: newer answers, quotes, a lost stream, and a session that has not begun."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page
from support.chart_answers import Made, answer_of, letters_of
from support.chart_page import ChartServer, browsing, drawn, pressed, serving, shown
from tests.timeouts import wait_until

WEEK = Made(seed=61)


@pytest.fixture(scope="module")
def harness() -> Iterator[ChartServer]:
    with serving() as harness:
        yield harness


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture
def chart(harness: ChartServer, page: Page) -> Page:
    """The page with the chart of a week."""
    harness.answer = answer_of(WEEK)
    shown(page, harness)
    return page


def test_a_newer_answer_of_one_session_is_merged(harness: ChartServer, chart: Page) -> None:
    newer = copy.deepcopy(harness.answer)
    last = newer["sessions"][-1]
    top = last["levels"]["high"] + 2
    last["brackets"].append(
        {**last["brackets"][-1], "letter": "J", "start": last["brackets"][-1]["start"].replace("18:", "19:")}
    )
    last["brackets"][-1] |= {"high": top, "close": top}
    last["levels"] |= {"high": top, "closePrice": top}
    last["volumes"] += [10] * 8
    newer |= {"sessions": [last], "lastPrice": top, "missing": []}
    chart.evaluate("(answer) => window.chart.update(answer)", newer)
    record = drawn(chart)
    assert list(record["sessions"]) == [session["date"] for session in harness.answer["sessions"]]
    facts = record["sessions"][last["date"]]
    assert facts["ends"]["close"] == top
    expected = letters_of(last, WEEK.tick_e9, record["rowTicks"])
    assert {float(price): letters for price, letters in facts["rows"].items()} == expected
    assert ("last", top) in {(line["kind"], line["price"]) for line in record["lines"]}


def test_what_has_been_moved_stays_where_it_is_when_something_comes(
    harness: ChartServer, chart: Page
) -> None:
    moved = pressed(chart, "+", "+")
    chart.evaluate("(answer) => window.chart.update(answer)", harness.answer | {"lastPrice": 7_000.0})
    assert drawn(chart)["slot"] == pytest.approx(moved["slot"])


def test_a_quote_moves_the_last_price_only(harness: ChartServer, chart: Page) -> None:
    before, price = drawn(chart), harness.answer["sessions"][-1]["levels"]["openPrice"]
    chart.evaluate("(price) => window.chart.quote(price)", price)
    after = drawn(chart)
    assert [line["price"] for line in after["lines"] if line["kind"] == "last"] == [price]
    assert after["sessions"] == before["sessions"]


def test_a_session_no_longer_answered_is_kept_and_grey_from_its_last_event(
    harness: ChartServer, chart: Page
) -> None:
    older = harness.answer["sessions"][:-1]
    delayed: dict[str, Any] = {
        "sessions": older, "live": False, "dataSource": "delayed", "state": "stale_link", "lastPrice": None,
        "updatedAt": None, "asOf": older[-1]["date"],
    }  # fmt: skip
    chart.evaluate("(answer) => window.chart.update(answer)", harness.answer | delayed)
    record = drawn(chart)
    assert list(record["sessions"]) == [session["date"] for session in harness.answer["sessions"]]
    assert record["stale"]["since"] == harness.answer["sessions"][-1]["levels"]["data"]["last"]
    assert record["stale"]["text"] == "No updates since 13:31"
    assert not [line for line in record["lines"] if line["kind"] == "last"]
    chart.evaluate("(answer) => window.chart.update(answer)", harness.answer)
    assert drawn(chart)["stale"] is None


def test_a_page_that_hears_nothing_says_since_when(harness: ChartServer, chart: Page) -> None:
    chart.evaluate("window.chart.pause('2026-11-20T18:12:00.000Z')")
    assert drawn(chart)["stale"]["text"] == "No updates since 13:12"
    chart.evaluate("window.chart.pause(null)")
    assert drawn(chart)["stale"] is None


def test_before_the_open_there_is_the_night_and_what_was_before(harness: ChartServer, page: Page) -> None:
    harness.answer = answer = answer_of(WEEK)
    last = answer["sessions"][-1]
    last |= {
        "levels": None, "brackets": [], "low": None, "volumes": [], "path": [], "ibExtensions": [],
        "poorHigh": None, "poorLow": None,
    }  # fmt: skip
    record = shown(page, harness)
    assert record["captions"][-1]["head"].endswith("Before the open")
    assert record["sessions"][last["date"]]["night"]["high"] == last["overnight"]["high"]
    assert {"pvah", "ppoc", "pval", "onh", "onl", "last"} <= {line["kind"] for line in record["lines"]}
    pressed(page, "ArrowLeft", "ArrowUp")
    assert page.locator("#said").inner_text() == "Before the open"


def test_a_night_of_which_only_the_range_is_known(harness: ChartServer, page: Page) -> None:
    harness.answer = answer = answer_of(WEEK)
    last = answer["sessions"][-1]
    last["overnight"] |= {"brackets": [], "volumes": []}
    night = shown(page, harness)["sessions"][last["date"]]["night"]
    assert night == {"high": last["overnight"]["high"], "low": last["overnight"]["low"], "rows": {}}


def test_with_no_session_there_is_a_sentence(harness: ChartServer, page: Page) -> None:
    harness.answer = answer_of(WEEK) | {
        "sessions": [],
        "nakedPocs": [],
        "poorHighs": [],
        "poorLows": [],
        "prior": None,
    }
    page.goto(harness.base)
    wait_until(lambda: page.evaluate("Boolean(window.chart)"))
    assert page.locator("#chart-note").is_visible()
    assert "No sessions for this symbol yet." in page.locator("#chart-note").inner_text()
    page.evaluate("(answer) => window.chart.update(answer)", answer_of(WEEK))
    drawn(page)
    assert page.locator("#chart-note").is_hidden()
