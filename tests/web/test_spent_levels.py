"""Every page shows which earlier levels the open session has tested, and says when the service is unreachable."""

import re
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import expect
from support.chart_answers import Made, answer_of
from support.chart_page import browsing, serving, shown
from tests.web.browsing import Opened
from tests.web.harness import WebHarness

from outcry.access.licences import Grant, Scope
from outcry.answers.scanning import ScanRow
from outcry.sessions.opening_hours import OpeningHours
from outcry.web.language import Languages
from outcry.web.levels.scan import row_of
from outcry.web.status_labels import status_label
from outcry.web.symbol.ladder import Rung, rungs
from outcry.web.symbol.outlook import Gatherer, Outlook
from outcry.wire.answers import DatedLevel
from outcry.wire.chart import TouchedPoc

WORDS = Languages.words("en")
AT = "2026-11-20T14:52:25.443Z"
VISITOR = Scope(
    1, (Grant("everyone", "completed", (), None, None, 0), Grant("everyone", "live", (), None, None))
)


def looked(harness: WebHarness) -> Outlook:
    reference = harness.installation.reference
    gatherer = Gatherer(harness.installation.query, reference.universe, OpeningHours(reference.calendar))
    return gatherer.outlook(VISITOR, "ES", 2, harness.clock.now_ns())


def used_up(outlook: Outlook) -> Outlook:
    """The same with three days' POCs naked before today, those of the prior session and the oldest touched today; the
    prior high and the oldest low repaired today, another high not."""
    assert outlook.prior is not None
    day, price = outlook.prior.date, outlook.prior.poc
    pocs = [DatedLevel(price=price, date=day), DatedLevel(price=1.0, date="2026-11-10"),
            DatedLevel(price=2.0, date="2026-11-09")]  # fmt: skip
    highs = [DatedLevel(price=outlook.prior.high, date=day), DatedLevel(price=3.0, date="2026-11-11")]
    lows = [DatedLevel(price=4.0, date="2026-11-12")]
    touched = [TouchedPoc(price=price, date=day, at=AT), TouchedPoc(price=2.0, date="2026-11-09", at=None)]
    chart = structs.replace(
        outlook.chart, touched_pocs=touched, repaired_highs=highs[:1], repaired_lows=lows, naked_pocs=pocs
    )
    levels = structs.replace(outlook.levels, naked_pocs=pocs, poor_highs=highs, poor_lows=lows)
    return replace(outlook, levels=levels, chart=chart)


def only(found: list[Rung], **wanted: Any) -> Rung:
    [rung] = [rung for rung in found if all(getattr(rung, name) == value for name, value in wanted.items())]
    return rung


def test_the_ladder_says_what_today_has_used_up(harness: WebHarness) -> None:
    found = rungs(used_up(looked(harness)), WORDS, lambda _: 1)
    prior = only(found, name="pPOC")
    assert (prior.naked, prior.touched) == (False, "touched 09:52 EST")
    assert only(found, name="Naked POC").price == 1.0
    touched = only(found, name="POC")
    assert (touched.price, touched.kind, touched.touched) == (2.0, "prior", "touched today")
    high = only(found, name="Prior high")
    assert (high.poor, high.repaired) == (False, True)
    assert only(found, name="Poor high").repaired is False
    assert only(found, name="Poor low").repaired is True


def test_the_initial_balance_stands_in_the_ladder_before_its_hour_is_over(harness: WebHarness) -> None:
    outlook = looked(harness)
    session = structs.replace(outlook.session, ib_complete=False, ib_high=7000.0, ib_low=6990.0, final=False)
    so_far = replace(outlook, context=structs.replace(outlook.context, session=session))
    found = rungs(so_far, WORDS, lambda _: 1)
    assert (only(found, name="IBH so far").price, only(found, name="IBL so far").price) == (7000.0, 6990.0)
    assert not [rung for rung in found if rung.kind == "extension"]


def test_the_next_naked_poc_of_the_levels_page_is_one_that_is_naked_still(harness: WebHarness) -> None:
    scanned = next(
        row
        for row in harness.installation.query.scan(VISITOR, harness.clock.now_ns())
        if row.state.symbol == "ES"
    )
    assert scanned.levels is not None
    last = scanned.levels.last_price
    assert last is not None
    near, far = DatedLevel(price=last + 1, date="2026-11-19"), DatedLevel(price=last + 9, date="2026-11-18")
    levels = structs.replace(scanned.levels, naked_pocs=[near, far])
    state = status_label(WORDS, "live")

    def above(row: ScanRow) -> float | None:
        return row_of(row, state, "ticks", "en", 2026).cells["naked_above"].price

    assert above(replace(scanned, levels=levels)) == near.price
    assert above(replace(scanned, levels=levels, touched=[near])) == far.price


def test_a_ray_ends_where_the_session_begins_that_has_used_its_level_up() -> None:
    answer = answer_of(Made(seed=47))
    first, second = (session["date"] for session in answer["sessions"][:2])
    price = answer["sessions"][-1]["levels"]["poc"]
    answer["nakedPocs"] = [{"price": price + 1, "date": first}, {"price": price - 1, "date": second}]
    answer["touchedPocs"] = [{"price": price + 1, "date": first, "at": AT}]
    answer["poorHighs"] = answer["repairedHighs"] = [{"price": price + 2, "date": first}]
    with serving() as chart, browsing(width=1300, height=860) as page:
        chart.answer = answer
        record = shown(page, chart)
    ends = {(line["kind"], line["price"]): line["to"] for line in record["lines"]}
    begins = next(
        caption for caption in record["captions"] if caption["date"] == answer["sessions"][-1]["date"]
    )
    assert ends["npoc", price - 1] == record["right"]
    assert ends["npoc", price + 1] == ends["poor-high", price + 2] < record["right"]
    assert ends["npoc", price + 1] == pytest.approx(begins["left"], abs=1)
    texts = " ".join(tag["text"] for tag in record["tags"])
    assert "nPOC touched 09:52" in texts
    assert "poor high repaired" in texts


@pytest.mark.parametrize("path", ["/", "/s/ES"])
def test_no_chip_says_live_while_nothing_is_heard(opened: Opened, path: str) -> None:
    with opened() as tab:
        tab.go(path)
        chip = tab.page.locator(".chip[data-state=live]").first
        expect(chip).to_have_class(re.compile(r"\blive\b"))
        tab.page.wait_for_timeout(1500)
        tab.context.set_offline(True)
        tab.page.wait_for_selector(".chip.lost", timeout=60_000)
        assert tab.page.locator(".chip.live, .count.live").count() == 0
        assert "offline" in tab.page.locator(".chip.lost").first.inner_text().casefold()
        if path == "/":
            assert "offline" in tab.page.locator(".count.lost").inner_text()
            tab.page.wait_for_selector("#stream-lost:not([hidden])", timeout=60_000)
            assert re.search(r"\d\d:\d\d:\d\d E[SD]T", tab.page.locator("#stream-lost").inner_text())
        tab.context.set_offline(False)
        tab.page.wait_for_selector(".chip.live", timeout=60_000)
        assert tab.page.locator(".chip.lost").count() == 0


def test_a_contract_nobody_shows_is_named_and_leads_to_the_one_that_trades(harness: WebHarness) -> None:
    reply = harness.visitor().get("/s/ESH7")
    assert "<h1>ESH2027" in reply.text
    assert "No ESH2027 data available to you yet." in reply.text
    assert 'href="/s/ES"' in reply.text


def test_without_scripts_a_table_stands_for_the_chart(harness: WebHarness, opened: Opened) -> None:
    with opened(scripts=False) as tab:
        tab.go("/s/ES")
        assert tab.page.locator("#chart").is_hidden()
        assert tab.page.locator(".profile-rows tbody tr").count() > 20
    reply = harness.visitor().get("/favicon.ico")
    assert reply.headers["location"].endswith("/icon.svg")


def test_heads_of_the_levels_page_sort_it_and_the_total_follows_the_filter(harness: WebHarness) -> None:
    text = harness.visitor().get("/?sort=symbol&sector=energy").text
    roots = re.findall(r'<tr id="row-(\w+)"', text)
    assert roots == sorted(roots)
    assert re.search(rf'<b class="number">{len(roots)}</b> of <b class="number">\d\d</b> symbols', text)
    assert 'aria-sort="ascending"><a href="/?sector=energy&amp;sort=symbol"' in text
