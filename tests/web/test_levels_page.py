"""The Levels page shows what the API returns in every status, and updates with it."""

import html
import json
import re
from datetime import datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page
from tests.web.browsing import Opened
from tests.web.harness import SHOWS, WebHarness

from outcry.answers.wording import STATES
from outcry.web.language import Languages
from outcry.web.status_labels import status_label

_ROW = re.compile(r'<tr id="row-(\w+)" class="(.*?)" data-symbol.*?</tr>', re.DOTALL)
_CELL = re.compile(
    r'<td class="number level(.*?)" data-column="(\w+)".*?(?:data-price="(.*?)".*?)?>([^<]*)</td>'
)
FIELDS = {
    "vah": ("developing", "vah"), "poc": ("developing", "poc"), "val": ("developing", "val"),
    "ib_high": ("developing", "ibHigh"), "ib_low": ("developing", "ibLow"),
    "on_high": ("overnight", "high"), "on_low": ("overnight", "low"),
    "prior_vah": ("prior", "vah"), "prior_poc": ("prior", "poc"), "prior_val": ("prior", "val"),
}  # fmt: skip


def rows(harness: WebHarness, path: str = "/") -> dict[str, tuple[str, str]]:
    """Each row of the page without scripts: its classes and its HTML."""
    reply = harness.visitor().get(path)
    assert reply.status == 200
    return {found[1]: (found[2], found[0]) for found in _ROW.finditer(reply.text)}


def cells(row: str) -> dict[str, tuple[str, float | None, str]]:
    """Classes, price and text of each level of a row."""
    return {
        found[2]: (found[1], float(found[3]) if found[3] else None, html.unescape(found[4]))
        for found in _CELL.finditer(row)
    }


def asked(harness: WebHarness, path: str) -> Any:
    return json.loads(harness.visitor().get(path).text)


def expected_ticks(level: float, price: float, tick: float) -> str:
    ticks = round((level - price) / tick)
    return "0" if ticks == 0 else f"{'+' if ticks > 0 else '−'}{abs(ticks)}"


def test_a_live_row_is_the_levels_answer_minus_its_last_price(harness: WebHarness) -> None:
    _, row = rows(harness)["ES"]
    answer = asked(harness, "/page/levels?symbol=ES")
    found = cells(row)
    match = re.search(r'data-last="(.*?)"', row)
    assert match
    # The market may have moved between the two requests, so only prices are compared.
    last = float(match[1])
    for column, (part, name) in FIELDS.items():
        price = answer[part][name] if answer[part] else None
        if answer["lastPrice"] == last:
            assert found[column][1] == price, column
        if found[column][1] is not None:
            assert found[column][2] == expected_ticks(found[column][1], last, 0.25)
    naked = [each["price"] for each in answer["nakedPocs"]]
    if naked and answer["lastPrice"] == last:
        assert found["naked_above"][1] == min((price for price in naked if price >= last), default=None)
        assert found["naked_below"][1] == max((price for price in naked if price < last), default=None)


def test_a_row_without_a_last_price_is_measured_from_the_close_and_says_so(harness: WebHarness) -> None:
    symbol = SHOWS["delayed"][0]
    _, row = rows(harness)[symbol]
    history = asked(harness, f"/page/history?symbol={symbol}")
    close = history["sessions"][-1]["closePrice"]
    levels = asked(harness, f"/page/levels?symbol={symbol}")
    found = cells(row)
    assert "close-word" in row
    assert levels["lastPrice"] is None
    tick = 0.015625
    assert found["prior_poc"][1] == levels["prior"]["poc"]
    assert found["prior_poc"][2] == expected_ticks(levels["prior"]["poc"], close, tick)
    assert found["poc"] == (" missing", None, "–")  # nothing develops


@pytest.mark.parametrize("state", ["stale", "error"])
def test_a_row_that_may_be_old_is_dimmed_and_near_to_nothing(harness: WebHarness, state: str) -> None:
    classes, row = rows(harness)[SHOWS[state][0]]
    assert "paused" in classes
    assert not any("near" in found[0].split() for found in cells(row).values())


def test_each_state_has_its_word_its_reason_and_somewhere_to_go(harness: WebHarness) -> None:
    found = rows(harness)
    for state, kind in (
        ("live", "live"), ("stale", "stale"), ("closed", "closed"), ("connecting", "connecting"), ("error", "error"),
        ("delayed", "delayed"), ("empty", "none"),
    ):  # fmt: skip
        _, row = found[SHOWS[state][0]]
        chip = re.search(r'<a class="chip (\w+)" href="(/[^"]+)"[^>]*? title="([^"]+)"', row)
        assert chip, state
        assert chip[1] == kind
        assert len(chip[3]) > 15


def test_a_closed_market_says_when_it_opens() -> None:
    at_ns = 1_772_751_600 * 10**9  # 2026-03-05 18:00 in New York
    words = Languages().words
    assert (
        status_label(words("en"), "closed", opens_ns=at_ns, zone="America/New_York").note == "opens 18:00 EST"
    )
    assert (
        status_label(words("de"), "closed", opens_ns=at_ns, zone="America/New_York").note
        == "öffnet 18:00 EST"
    )


@pytest.mark.parametrize(
    ("now", "opens", "english", "german"),
    [
        ("2026-11-21T12:00", "2026-11-22T18:00", "opens Sun 18:00 EST", "öffnet So 18:00 EST"),  # a Saturday
        ("2026-11-20T17:30", "2026-11-22T18:00", "opens Sun 18:00 EST", "öffnet So 18:00 EST"),
        ("2026-11-22T00:01", "2026-11-22T18:00", "opens 18:00 EST", "öffnet 18:00 EST"),
        ("2026-11-19T23:30", "2026-11-20T08:30", "opens Fri 08:30 EST", "öffnet Fr 08:30 EST"),
    ],
)
def test_the_day_of_an_opening_is_said_where_it_is_not_today(
    now: str, opens: str, english: str, german: str
) -> None:
    at_ns, opens_ns = (
        int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("America/New_York")).timestamp()) * 10**9
        for text in (now, opens)
    )
    languages = Languages()
    for language, note in (("en", english), ("de", german)):
        state = status_label(
            languages.words(language), "closed", now_ns=at_ns, opens_ns=opens_ns, zone="America/New_York"
        )
        assert state.note == note


def test_every_state_is_worded_in_german_too() -> None:
    english, german = Languages().words("en"), Languages().words("de")
    for code in {*STATES, "not_authorized"}:
        assert status_label(german, code).reason != status_label(english, code).reason, code


def test_near_is_within_a_twentieth_of_the_average_range(harness: WebHarness) -> None:
    for _, row in rows(harness).values():
        average = re.search(r'data-range="(.*?)"', row)
        last = re.search(r'data-last="(.*?)"', row)
        if not average or not last:
            continue
        for classes, price, _ in cells(row).values():
            if price is not None:
                near = abs(price - float(last[1])) / float(average[1]) <= 0.05
                assert ("near" in classes.split()) == near


def test_what_is_looked_at_is_in_the_address(harness: WebHarness) -> None:
    everything = rows(harness)
    assert set(rows(harness, "/?sector=energy")) == {
        each["symbol"] for each in asked(harness, "/page/symbols")["symbols"] if each["sector"] == "energy"
    }
    assert set(rows(harness, "/?state=stale")) == {"NQ"}
    assert set(rows(harness, "/?q=crude")) == {"CL"}
    assert set(rows(harness, "/?q=MES")) == {"ES"}  # the micro's levels are those of its parent
    assert list(rows(harness, "/?sort=symbol")) == sorted(everything)
    # the market goes on between two questions, and with it which level is nearest
    assert any(
        list(rows(harness, "/?units=furlongs&sector=tulips&sort=luck")) == list(rows(harness))
        for _ in range(10)
    )
    points = cells(rows(harness, "/?units=points")["ES"][1])["prior_poc"]
    assert re.fullmatch(r"[+−]?\d+\.\d\d", points[2])
    assert "No matches" in harness.visitor().get("/?q=nonesuch").text


def test_the_nearest_is_first_and_what_cannot_be_near_is_last(harness: WebHarness) -> None:
    order = list(rows(harness))
    live = [order.index(symbol) for symbol in ("ES", "6J")]
    dead = [order.index(SHOWS[state][0]) for state in ("stale", "error", "empty")]
    assert max(live) < order.index(SHOWS["delayed"][0]) < min(dead)


@pytest.mark.parametrize(
    "hostile",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' OR 1=1 --", "%s{{7*7}}", "\u202e\0x"],
)
def test_hostile_text_is_only_text(harness: WebHarness, hostile: str) -> None:
    for path in ("/?q=", "/go?symbol=", "/?units=", "/?sector="):
        reply = harness.visitor().get(path + quote(hostile))
        assert reply.status in {200, 404}
        assert "<script>alert" not in reply.text
        assert "<img" not in reply.text
        assert "49" not in re.findall(r'value="(.*?)"', reply.text)


@pytest.mark.parametrize(
    ("typed", "leads"),
    [("es", "/s/es"), ("ESH6", "/s/ESH6"), ("/ES", "/s/%2FES"), ("E-mini S&P 500", "/s/ES")],
)
def test_go_leads_to_a_symbol_however_it_is_written(harness: WebHarness, typed: str, leads: str) -> None:
    reply = harness.visitor().get(f"/go?symbol={quote(typed)}")
    assert (reply.status, reply.headers["location"]) == (303, leads)


def test_go_keeps_what_was_typed_and_says_what_was_meant(harness: WebHarness) -> None:
    reply = harness.visitor().get("/go?symbol=gold%20bars")
    assert reply.status == 404
    assert 'value="gold bars"' in reply.text
    assert 'role="alert"' in reply.text
    assert '<a href="/s/GC">' in harness.visitor().get("/go?symbol=gol").text


def test_without_any_data_it_says_what_is_missing(bare: WebHarness) -> None:
    token = bare.token(bare.person("owner@example.com", operator=True))
    visitor = bare.visitor()
    visitor.cookies["outcry-local"] = token
    reply = visitor.get("/")
    assert reply.status == 200
    assert reply.text.count('class="chip none"') == reply.text.count("<tr id=") > 20
    assert "outcry import FILE" in reply.text


# -- with scripts


def last_price(page: Page, symbol: str) -> str:
    return page.locator(f"#row-{symbol} [data-last-price]").inner_text()


def wait_for_change(page: Page, symbol: str, before: str) -> None:
    page.wait_for_function(
        "([symbol, before]) => document.querySelector(`#row-${symbol} [data-last-price]`).textContent !== before",
        arg=[symbol, before],
        timeout=60_000,
    )


def test_it_is_live_without_a_reload_and_no_row_moves(opened: Opened, harness: WebHarness) -> None:
    with opened() as tab:
        tab.go("/")
        tab.page.evaluate("window.sameDocument = true")
        order = tab.page.locator("#rows tr[data-symbol]").evaluate_all("rows => rows.map(row => row.id)")
        before = last_price(tab.page, "ES")
        wait_for_change(tab.page, "ES", before)
        now = tab.page.evaluate(
            """async () => {
              const row = document.querySelector("#row-ES");
              const last = Number(row.querySelector("[data-last-price]").textContent.replaceAll(",", ""));
              return [last, [...row.querySelectorAll("[data-column][data-price]")].map((cell) =>
                [Number(cell.dataset.price), cell.textContent])];
            }"""
        )
        for price, text in now[1]:
            assert text == expected_ticks(price, now[0], 0.25)
        assert tab.page.evaluate("window.sameDocument")
        assert order == tab.page.locator("#rows tr[data-symbol]").evaluate_all(
            "rows => rows.map(row => row.id)"
        )
        assert tab.errors.found(tab.page) == {}


def test_a_state_that_changes_is_told_in_words_of_the_server(opened: Opened, own_harness: WebHarness) -> None:
    from tests.web.browsing import window

    browser = opened.args[0]  # type: ignore[attr-defined]
    with window(browser, own_harness) as tab:
        tab.go("/")
        assert tab.page.locator("#row-ES .chip.live").count() == 1
        own_harness.force("ES", "stale_market")
        tab.page.wait_for_selector("#row-ES.paused .chip.stale", timeout=60_000)
        own_harness.force("ES", None)
        tab.page.wait_for_selector("#row-ES:not(.paused) .chip.live", timeout=60_000)


def test_choices_take_effect_without_a_reload_and_with_the_way_back(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/")
        tab.page.evaluate("window.sameDocument = true")
        tab.page.get_by_role("link", name="Points").focus()
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**/?units=points")
        assert tab.page.evaluate("document.activeElement.textContent") == "Points"
        assert re.fullmatch(
            r"[+−]?\d+\.\d\d", tab.page.locator("#row-ES [data-column=prior_poc]").inner_text()
        )
        tab.page.get_by_role("searchbox").fill("crude")
        tab.page.wait_for_url("**q=crude**")
        assert tab.page.locator("#rows tr[data-symbol]").count() == 1
        tab.page.go_back()
        tab.page.wait_for_function("() => document.querySelectorAll('#rows tr[data-symbol]').length > 5")
        assert tab.page.evaluate("window.sameDocument")


def test_a_lost_stream_is_said_and_so_is_its_return(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/")
        wait_for_change(tab.page, "ES", last_price(tab.page, "ES"))
        tab.context.set_offline(True)
        tab.page.wait_for_selector("#stream-lost:not([hidden])", timeout=60_000)
        assert ":" in tab.page.locator("#stream-lost").inner_text()
        tab.context.set_offline(False)
        tab.page.wait_for_selector("#stream-lost", state="hidden", timeout=60_000)


def test_keys_lead_to_symbols_and_pages_but_never_while_one_types(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/")
        tab.page.keyboard.press("/")
        box = tab.page.get_by_role("combobox", name="Symbol or name")
        box.wait_for()
        box.press_sequentially("g")
        tab.page.keyboard.press("l")
        assert box.input_value() == "gl"
        box.fill("gold")
        tab.page.wait_for_selector("#symbol-dialog-list [aria-selected=true]")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**/s/GC*")
        tab.page.keyboard.press("g")
        tab.page.keyboard.press("l")
        tab.page.wait_for_url(tab.harness.base + "/")


def test_a_name_that_nothing_matches_is_answered(opened: Opened) -> None:
    with opened(language="de") as tab:
        tab.go("/")
        tab.page.keyboard.press("/")
        tab.page.wait_for_selector("#symbol-dialog-list [role=option]")
        nothing = tab.page.get_by_text("Keine passenden Symbole.")
        assert nothing.is_hidden()
        tab.page.keyboard.type("zzzz")
        nothing.wait_for(state="visible")
        tab.page.keyboard.press("Backspace")
        for _ in range(3):
            tab.page.keyboard.press("Backspace")
        nothing.wait_for(state="hidden")


@pytest.mark.parametrize("note", ["Wed, Sep 30, 2013", "Mi., 30. Sept. 2013"])
def test_a_state_with_a_date_of_another_year_stays_in_its_column(opened: Opened, note: str) -> None:
    with opened() as tab:
        tab.go("/")
        over = tab.page.evaluate(
            """(note) => {
                const chip = document.querySelector("tr[data-state=delayed] .chip");
                chip.querySelector(".number").textContent = note;
                return chip.getBoundingClientRect().right - chip.closest("td").getBoundingClientRect().right;
            }""",
            note,
        )
        assert over <= 0
