"""The page `/match`: results in words, and errors beside the fields that they concern."""

import html
import json
import re

import pytest
from tests.web.account_harness import Member
from tests.web.harness import WebHarness

from outcry.answers.charting import notation_of
from outcry.trades.reference_tables import load_reference
from outcry.web.symbol.matching import row_price_text

QUERY = "symbol=ES&date=2026-03-03&poc={}&vah={}&val={}"


def test_our_own_levels_are_found_and_others_come_near(harness: WebHarness) -> None:
    """The levels are those of the API for the same session."""
    visitor = harness.visitor()
    session = next(
        each
        for each in json.loads(visitor.get("/page/history?symbol=ES").body)["sessions"]
        if each["date"] == "2026-03-03"
    )
    levels = [session[name] for name in ("poc", "vah", "val")]
    exact = visitor.get(f"/match?{QUERY.format(*levels)}")
    assert exact.status == 200
    assert "These settings reproduce your levels" in exact.text
    assert "this is Outcry's own setting" in html.unescape(exact.text)
    near = visitor.get(f"/match?{QUERY.format('7,000', '9,000.5', 5000)}").text
    assert "these come nearest" in near
    by_volume = [session[name] for name in ("vpoc", "volumeVah", "volumeVal")]
    assert "It counts volume (contracts)." in visitor.get(f"/match?{QUERY.format(*by_volume)}").text


def test_errors_are_shown_beside_their_fields(harness: WebHarness) -> None:
    visitor = harness.visitor()
    wrong = visitor.get(f"/match?{QUERY.format('6650,25', 1, '')}")
    assert wrong.status == 422
    assert (
        wrong.text.count("Enter a price such as 6650.25.") == 4
    )  # of two fields, in the summary and beside them
    swapped = visitor.get(f"/match?{QUERY.format(6650, 6600, 6700)}")
    assert swapped.status == 422
    assert "VAH is below VAL." in swapped.text
    missing = visitor.get("/match?symbol=ES&date=2020-01-02&poc=1&vah=2&val=1")
    assert missing.status == 422
    assert 'href="#f-date"' in missing.text
    unknown = visitor.get("/match?symbol=NOTHING&date=2026-03-03&poc=1&vah=2&val=1")
    assert 'href="#f-symbol"' in unknown.text


def test_the_symbol_page_links_to_it(harness: WebHarness) -> None:
    assert 'href="/match?symbol=ES"' in harness.visitor().get("/s/ES").text


def test_a_search_saves_a_setting_with_one_click(harness: WebHarness) -> None:
    ann = Member(harness, "ann-of-match@example.com")
    found = ann.get("/match?symbol=ES&date=2026-03-03&poc=7000&vah=7010&val=6990").text
    form = re.search(r'<form method="post" action="/account/presets".*?</form>', found, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[0]))
    made = ann.send(
        "/account/presets", {name: html.unescape(value) for name, value in fields.items() if name != "csrf"}
    )
    assert made.headers["location"].endswith("?done=added")
    stored = json.loads(ann.get("/account/presets/file").body)["my-setting"]
    assert {name: str(value) for name, value in stored.items()} == {
        n: v for n, v in fields.items() if n != "csrf"
    }
    assert "Save this setting" not in harness.visitor().get(f"/match?{QUERY.format(7000, 7010, 6990)}").text


@pytest.mark.parametrize(
    ("root", "price", "text"),
    [
        ("ES", 7101.0, "7,101.00"),
        ("ES", 7101.125, "7,101.125"),
        ("6J", 0.00682575, "0.00682575"),
        ("ZN", 110.25, "110'080"),
    ],
)
def test_a_price_between_two_ticks_keeps_its_decimals(root: str, price: float, text: str) -> None:
    product = load_reference().universe.products[root]
    assert row_price_text(price, product.tick_e9 / 1e9, notation_of(product)) == text
