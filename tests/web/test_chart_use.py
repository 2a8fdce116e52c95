"""Using the chart: keyboard, pointer, toolbar, URL, size, theme, language."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from support.chart_answers import Made, answer_of, letters_of
from support.chart_page import ChartServer, browsing, browsing_beside, drawn, pressed, serving, shown
from tests.timeouts import wait_until

WEEK = Made(seed=61)


@pytest.fixture(scope="module")
def harness() -> Iterator[ChartServer]:
    with serving() as harness:
        harness.answer = answer_of(WEEK)
        yield harness


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture
def chart(harness: ChartServer, page: Page) -> Page:
    """The page with the chart of a week, focused."""
    harness.answer = answer_of(WEEK)
    shown(page, harness)
    page.locator("#chart").focus()
    return page


def announcement(page: Page) -> str:
    return page.locator("#said").inner_text()


def test_the_cursor_goes_by_period_and_row_and_says_what_is_there(harness: ChartServer, chart: Page) -> None:
    last = harness.answer["sessions"][-1]
    record = pressed(chart, "ArrowRight")  # it begins at the newest period, at the POC
    newest = last["brackets"][-1]
    poc = row_of(last["levels"]["poc"], record["rowTicks"])
    assert record["cursor"] == {"date": last["date"], "slot": len(last["brackets"]) - 1, "row": poc}
    assert f"{newest['letter']} from" in announcement(chart)
    letters = letters_of(last, WEEK.tick_e9, record["rowTicks"])[poc]
    assert " ".join(letters) in announcement(chart)
    assert f"TPO {len(letters)}" in announcement(chart)

    record = pressed(chart, "ArrowLeft", "ArrowLeft")
    bracket = last["brackets"][-3]
    assert record["cursor"]["slot"] == len(last["brackets"]) - 3
    assert f"open {bracket['open']:,.2f}, high {bracket['high']:,.2f}" in announcement(chart)

    record = pressed(chart, "ArrowUp")
    above = poc + record["rowTicks"] * WEEK.tick_e9 / 10**9
    assert record["cursor"]["row"] == above
    assert announcement(chart).startswith(f"{above:,.2f}")


def test_the_cursor_goes_by_session(harness: ChartServer, chart: Page) -> None:
    dates = [session["date"] for session in harness.answer["sessions"]]
    assert pressed(chart, "Home")["cursor"]["date"] == dates[0]
    assert pressed(chart, "]")["cursor"]["date"] == dates[1]
    assert pressed(chart, "]", "]", "[")["cursor"]["date"] == dates[2]
    assert pressed(chart, "End")["cursor"]["date"] == dates[-1]
    first_of_last = pressed(chart, *["ArrowLeft"] * (WEEK.traded or 0))
    assert first_of_last["cursor"]["date"] == dates[-2]  # over the open into the session before
    assert pressed(chart, "Escape")["cursor"] is None


def test_the_cursor_is_brought_into_sight(chart: Page) -> None:
    near = pressed(chart, "End", *["+"] * 8)
    assert len(near["captions"]) < 3
    far = pressed(chart, "Home")
    assert far["cursor"]["date"] in far["sessions"]


def test_zoom_and_fit(chart: Page) -> None:
    begun = drawn(chart)
    assert pressed(chart, "+")["slot"] > begun["slot"] * 1.2
    assert pressed(chart, "-", "-")["slot"] < begun["slot"]
    assert pressed(chart, "0")["slot"] == pytest.approx(begun["slot"], rel=0.01)


def test_keys_switch_layout_letters_and_parts_and_the_toolbar_and_address_follow(chart: Page) -> None:
    assert pressed(chart, "s")["layout"] == "split"
    assert announcement(chart) == "Split."
    assert chart.locator('input[name="layout"]:checked').input_value() == "split"
    assert pressed(chart, "b", "b")["mode"] == "blocks"
    assert not any("volume" in facts for facts in pressed(chart, "v")["sessions"].values())
    assert announcement(chart) == "Volume off."
    assert all("path" in facts for facts in pressed(chart, "p")["sessions"].values())
    query = parse_qs(urlsplit(chart.url).query)
    assert (query["layout"], query["letters"]) == (["split"], ["blocks"])
    assert "path" in query["show"]
    assert "volume" not in query["show"]


def test_the_address_brings_the_same_view_back(harness: ChartServer, chart: Page) -> None:
    before = pressed(chart, "s", "b", "v", "p")
    chart.reload()
    after = drawn(chart)
    volatile = {"revision"}
    assert {k: v for k, v in after.items() if k not in volatile} == {
        k: v for k, v in before.items() if k not in volatile
    }


def test_the_toolbar_changes_the_chart_and_the_address(chart: Page) -> None:
    chart.get_by_role("radio", name="Candles").check()
    chart.locator('select[name="row"]').select_option("4")
    chart.locator('input[name="show"][value="ib"]').uncheck()
    record = drawn(chart)
    assert (record["layout"], record["rowTicks"]) == ("candles", 4)
    assert not any("ib" in facts for facts in record["sessions"].values())
    query = parse_qs(urlsplit(chart.url).query)
    assert (query["layout"], query["row"]) == (["candles"], ["4"])
    assert "ib" not in query["show"]


def test_keys_with_control_are_the_browsers(chart: Page) -> None:
    before = drawn(chart)
    chart.keyboard.press("Control+s")
    chart.keyboard.press("Alt+b")
    assert drawn(chart)["layout"] == before["layout"]


def test_keys_elsewhere_are_not_the_charts(chart: Page) -> None:
    chart.locator('select[name="sessions"]').focus()
    assert pressed(chart, "s")["layout"] == "collapsed"


def test_the_pointer_reads_what_is_under_it(harness: ChartServer, chart: Page) -> None:
    record = drawn(chart)
    line = next(line for line in record["lines"] if line["kind"] == "dpoc")
    box = chart.locator(".chart-pane").bounding_box()
    assert box is not None
    chart.mouse.move(box["x"] + record["right"] - 60, box["y"] + line["y"])
    text = chart.locator(".chart-readout").inner_text()
    letters = letters_of(harness.answer["sessions"][-1], WEEK.tick_e9, record["rowTicks"])
    assert " ".join(letters[row_of(line["price"], record["rowTicks"])]) in text
    assert "POC." in text
    assert text.startswith("Fri 20 Nov")
    chart.mouse.move(box["x"] + 10, box["y"] - 40)
    wait_until(lambda: chart.evaluate("document.querySelector('.chart-readout').textContent === ''"))


def test_dragging_pans_and_keeps_the_scale(chart: Page) -> None:
    before = drawn(chart)
    box = chart.locator(".chart-pane").bounding_box()
    assert box is not None
    chart.mouse.move(box["x"] + 300, box["y"] + 200)
    chart.mouse.down()
    chart.mouse.move(box["x"] + 700, box["y"] + 200, steps=6)
    chart.mouse.up()
    after = drawn(chart)
    assert after["slot"] == pytest.approx(before["slot"])
    assert len(after["captions"]) < len(before["captions"])


def test_a_box_that_changes_its_size_shows_the_same_sessions(chart: Page) -> None:
    before = drawn(chart)
    chart.set_viewport_size({"width": 900, "height": 700})
    small = drawn(chart)
    assert small["width"] < before["width"]
    assert [c["date"] for c in small["captions"]] == [c["date"] for c in before["captions"]]
    assert small["sessions"].keys() == before["sessions"].keys()
    chart.set_viewport_size({"width": 1400, "height": 840})
    assert drawn(chart)["slot"] == pytest.approx(before["slot"], rel=0.01)


def test_another_theme_draws_it_anew(chart: Page) -> None:
    dark = drawn(chart)
    chart.evaluate("document.documentElement.dataset.theme = 'light'")
    light = drawn(chart)
    assert light["background"] != dark["background"]
    assert light["revision"] > dark["revision"]
    assert light["sessions"] == dark["sessions"]


@pytest.mark.parametrize(
    ("language", "caption", "read", "mark"),
    [
        ("en", "Mon 16 Nov 2026", "Fri 20 Nov 2026, ", "Nov 20, 2026"),
        ("de", "Mo 16 Nov 2026", "Fr 20 Nov 2026, ", "20. Nov. 2026"),
    ],
)
def test_dates_of_another_year_show_it(
    harness: ChartServer, page: Page, language: str, caption: str, read: str, mark: str
) -> None:
    """Looked at in 2027, the week from 16 to 20 November 2026."""
    harness.answer, harness.year = answer_of(WEEK), 2027
    try:
        record = shown(page, harness, f"lang={language}&sessions=5")
    finally:
        harness.year = 2026
    heads = {each["date"]: each["head"] for each in record["captions"]}
    assert heads["2026-11-16"].startswith(caption)
    page.locator("#chart").focus()
    pressed(page, "End")
    assert announcement(page).startswith(read)
    page.evaluate("window.chart.note({})")
    assert page.evaluate(
        """async ([language]) => {
            const { Wording } = await import("/js/chart/wording.js");
            return new Wording({ year: 2027 }, language).monthDay("2026-11-20");
        }""",
        [language],
    ) == mark.removesuffix(".")


def test_in_german_dates_and_counts_are_german_and_prices_the_exchanges(
    harness: ChartServer, page: Page
) -> None:
    harness.answer = answer_of(WEEK)
    record = shown(page, harness, "lang=de")
    assert record["captions"][-1]["head"].startswith("Heute, Fr 20")
    assert all(re.match(r"7,\d{3}\.\d\d", tag["text"]) for tag in record["tags"])
    page.locator("#chart").focus()
    page.keyboard.press("End")
    assert re.search(r"Volumen \d{1,3}(\.\d{3})*", announcement(page))


def test_on_a_page_from_right_to_left_the_chart_goes_from_left_to_right(
    harness: ChartServer, page: Page
) -> None:
    harness.answer = answer_of(WEEK)
    record = shown(page, harness, "dir=rtl")
    assert [
        caption["date"] for caption in sorted(record["captions"], key=lambda caption: caption["left"])
    ] == [session["date"] for session in harness.answer["sessions"]]
    assert page.evaluate("getComputedStyle(document.getElementById('chart')).direction") == "ltr"


def test_two_pixels_a_pixel_draw_the_same(harness: ChartServer, page: Page) -> None:
    harness.answer = answer_of(WEEK)
    single = shown(page, harness, "row=4")
    with browsing_beside(page, ratio=2) as double_page:
        double = shown(double_page, harness, "row=4")
    assert double["ratio"] == 2
    assert double["sessions"] == single["sessions"]
    assert [tag["text"] for tag in double["tags"]] == [tag["text"] for tag in single["tags"]]


def test_on_a_phone_tags_are_names_and_nothing_sticks_out(harness: ChartServer, page: Page) -> None:
    harness.answer = answer_of(WEEK)
    page.set_viewport_size({"width": 360, "height": 760})
    try:
        record = shown(page, harness, "sessions=2")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        page.set_viewport_size({"width": 1400, "height": 840})
    assert {"dPOC", "dVAH"} <= {part for tag in record["tags"] for part in tag["text"].split(" · ")}
    assert record["right"] > record["width"] / 2


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_toolbar_and_box_can_be_used_by_all(harness: ChartServer, chart: Page, theme: str) -> None:
    chart.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    found = Axe().run(chart, context="main")
    assert found.violations_count == 0, found.generate_report()


def test_destroyed_it_leaves_the_box_as_it_was(chart: Page) -> None:
    chart.evaluate("window.chart.press('+'), window.chart.destroy()")
    chart.evaluate("document.documentElement.dataset.theme = 'light'")
    # Work that waits for a frame has no effect.
    chart.evaluate("new Promise((done) => setTimeout(done, 200))")
    assert chart.locator("#chart canvas").count() == 0
    assert chart.locator("#chart-note").is_visible()


def test_without_scripts_there_are_the_form_and_the_way_to_the_table(
    harness: ChartServer, page: Page
) -> None:
    harness.answer = answer_of(WEEK)
    with browsing_beside(page, java_script_enabled=False) as plain:
        plain.goto(harness.base)
        assert plain.locator("#chart-note a").get_attribute("href") == "/?view=table"
        plain.get_by_role("radio", name="Split").check()
        plain.locator('input[name="show"][value="volume"]').uncheck()
        plain.get_by_role("button", name="Show").click()
        query = parse_qs(urlsplit(plain.url).query)
        assert query["layout"] == ["split"]
        assert "volume" not in query["show"]
        assert plain.locator('input[name="layout"]:checked').input_value() == "split"


def row_of(price: float, size: int) -> float:
    return round(price * 10**9) // WEEK.tick_e9 // size * size * WEEK.tick_e9 / 10**9
