"""The profile view of a symbol's page: choice in form and URL, drawing, tables, errors, and live updates."""

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect
from tests.web.account_harness import Member
from tests.web.browsing import NARROW, Opened, Window, wait_on_page, window
from tests.web.harness import WebHarness
from tests.web.recorded_harness import recorded_service

from outcry.answers.query import Query
from outcry.api import recorded_examples
from outcry.base.errors import Occupied
from outcry.market.methods import PRESETS
from outcry.market.saved_setting import setting_of
from outcry.people.preset_store import SqlPresets
from outcry.web.symbol.profile_choice import ProfileChoice, choice_of
from outcry.web.symbol.profile_drawing import Level, drawing_of
from outcry.wire.profile import ProfileAnswer

METHODS = tuple(PRESETS)
EXAMPLES = json.loads(Path(recorded_examples.__file__).with_name("examples.json").read_text())
VIEW = "/s/ESU2024?view=profile"
WEEK = f"{VIEW}&period=week&date=2024-07-02&delta=1"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with recorded_service(tmp_path_factory.mktemp("recorded")) as harness:
        yield harness


@pytest.fixture
def tab_on(browser: Browser, recorded: WebHarness) -> Iterator[Callable[..., Window]]:
    """Opens a tab on the recording: `tab_on(WEEK, scripts=False)`."""
    opened: list[Any] = []

    def opens(path: str, **options: Any) -> Window:
        context = window(browser, recorded, **options)
        tab = context.__enter__()
        opened.append(context)
        tab.go(path)
        return tab

    yield opens
    for context in opened:
        context.__exit__(None, None, None)


def page(harness: WebHarness, path: str, language: str = "en") -> str:
    reply = harness.visitor(language).get(path)
    assert reply.status == 200, (path, reply.status)
    return html.unescape(reply.text)


def answer_of(harness: WebHarness, query: str) -> Mapping[str, Any]:
    reply = harness.visitor().get(f"/page/profile?{query}")
    assert reply.status == 200, reply.text
    return json.loads(reply.body)


def cells(text: str) -> list[tuple[str, ...]]:
    """The cells of the table of rows, without markup."""
    table = text[text.index('id="profile-rows"') :].partition("</table>")[0]
    rows = re.findall(r"<tr class=.*?</tr>", table, re.DOTALL)
    return [
        tuple(re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)) for row in rows
    ]


# -- the choice


CHOICES = st.builds(
    ProfileChoice, period=st.sampled_from(["day", "week", "month", "quarter"]),
    hours=st.sampled_from(["rth", "overnight", "full"]), date=st.dates().map(str) | st.just(""),
    bracket=st.sampled_from([15, 30, 60]), row=st.none() | st.integers(1, 400), method=st.sampled_from(METHODS),
    delta=st.booleans(), vwap=st.sampled_from(["bands", "line", "off"]),
    anchor=st.sampled_from(["", "2024-07-02T10:00"]),
) | st.builds(ProfileChoice, period=st.just("range"), first=st.dates().map(str), last=st.dates().map(str))  # fmt: skip


@given(choice=CHOICES)
def test_the_url_holds_the_whole_choice(choice: ProfileChoice) -> None:
    assert choice_of(dict(choice.entries()), METHODS) == choice


def test_an_anchor_is_exchange_time_unless_it_has_an_offset() -> None:
    """In summer New York is four hours behind UTC: 10:00 is 14:00 UTC, 1719928800 s after 1970."""
    for text in ("2024-07-02T10:00", "2024-07-02T14:00:00Z", "2024-07-02T16:00+02:00"):
        choice = ProfileChoice(anchor=text)
        assert choice.anchor_ns("America/New_York") == 1_719_928_800 * 10**9
        assert choice.anchor_there("America/New_York") == "2024-07-02T10:00"


@pytest.mark.parametrize(
    "query",
    [
        "period=%00&session=x&bracket=7&row=-1&method=%3Cb%3E&delta=2&vwap=9",
        "row=401&row=x&bracket=30.0",
        "from=1&to=2",
    ],
)
def test_values_that_the_form_does_not_offer_are_ignored(recorded: WebHarness, query: str) -> None:
    title = '<h2 id="profile-title">Regular hours, Wed, Jul 3, 2024'
    assert title in page(recorded, f"{VIEW}&{query}")


@pytest.mark.parametrize(
    "values",
    [
        {"row": 8, "label": "middle", "hours": "full"},
        {"placement": "close_up", "basis": "volume"},
        {"bars": 15},
    ],
)
def test_a_setting_of_the_users_own(recorded: WebHarness, values: dict[str, object]) -> None:
    """The form offers it, and it decides hours, bracket and row unless the user chooses them."""
    ann, store = Member(recorded, "ann@example.com"), SqlPresets(recorded.installation.database)
    number = store.add(ann.user.id, "desk", setting_of("desk", values), 7)
    shown = html.unescape(ann.get(f"{VIEW}&method=desk&date=2024-07-02").text)
    assert '<option value="desk" selected' in shown
    assert "method desk" in shown
    assert ("rows of 8 ticks" in shown) == ("row" in values)
    assert "rows of 20 ticks" in html.unescape(ann.get(f"{VIEW}&method=desk&date=2024-07-02&row=20").text)
    visitor = page(recorded, f"{VIEW}&method=desk&date=2024-07-02")
    assert "You have no saved setting named “desk”." in html.unescape(visitor)
    assert 'value="desk"' not in page(recorded, f"{VIEW}&date=2024-07-02")
    store.delete(ann.user.id, number)


# -- drawing and tables


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        ("period=week&date=2024-07-02&delta=1", "period=week&date=2024-07-02&delta=1"),
        ("session=overnight&date=2024-07-02", "session=overnight&date=2024-07-02"),
        (
            "period=month&date=2024-06-28&method=tradingview",
            "period=month&date=2024-06-28&method=tradingview",
        ),
        (
            "period=range&from=2024-07-01&to=2024-07-02&session=full&bracket=15",
            "from=2024-07-01&to=2024-07-02&session=full&bracket=15",
        ),
    ],
)
def test_the_page_shows_the_answer_of_the_api(recorded: WebHarness, chosen: str, asked: str) -> None:
    answer = answer_of(recorded, f"symbol=ESU2024&{asked}&row=4")
    text = page(recorded, f"{VIEW}&{chosen}&row=4")
    rows = cells(text)
    with_delta = answer["profile"]["delta"] is not None
    assert with_delta == ("delta=1" in asked)
    assert [row[:4] for row in rows] == [
        (f"{row['price']:,.2f}", row["letters"], str(row["tpos"]), f"{row['volume']:,}")
        for row in answer["rows"]
    ]
    profile = answer["profile"]
    lowest = profile["poc"] // 1  # a row of four ticks is a point
    assert f'is-poc"><th scope="row" class="number">{lowest:,.2f}<' in text
    for name in ("poc", "vah", "val", "vpoc", "volumeVah", "volumeVal"):
        assert f"{profile[name]:,.2f}" in text
    assert f'VWAP +1σ</th><td class="number">{profile["vwap"]["bands"][0]["upper"]:,.2f}' in text
    if with_delta:
        assert [int(row[4].replace("−", "-").replace(",", "")) for row in rows] == [
            row["delta"] for row in answer["rows"]
        ]


def test_the_request_of_the_api_that_the_page_names_has_the_same_levels(recorded: WebHarness) -> None:
    text = page(recorded, f"{VIEW}&period=range&from=2024-07-01&to=2024-07-02&anchor=2024-07-01T12:00")
    found = re.search(r'class="profile-api">/api/profile\?([^<]+)<', text)
    assert found is not None
    answer = answer_of(recorded, found[1])
    shown = re.search(r"Anchored VWAP</th><td class=\"number\">([0-9,.]+)<", text)
    assert shown is not None
    assert shown[1] == f"{answer['profile']['anchoredVwap']['price']:,.2f}"
    assert [row[2] for row in cells(text)] == [str(row["tpos"]) for row in answer["rows"]]


def test_vwap_and_delta_can_be_left_out(recorded: WebHarness) -> None:
    line, off = (page(recorded, f"{VIEW}&vwap={choice}") for choice in ("line", "off"))
    assert ('class="vwap"' in line, 'class="band"' in line) == (True, False)
    assert ('class="vwap"' in off, 'class="profile-delta"' in off) == (False, False)


def test_balances_are_links_to_the_merged_profile(recorded: WebHarness) -> None:
    answer = answer_of(recorded, "symbol=ESU2024&period=week&date=2024-07-02")
    balance = answer["window"]["balances"][0]
    link = f"{VIEW}&period=range&from={balance['from']}&to={balance['to']}"
    assert link in page(recorded, f"{VIEW}&period=week&date=2024-07-02")
    merged = page(recorded, link)
    assert f"{balance['sessions']} sessions (ESU2024)" in merged
    day = page(
        recorded, f"{VIEW}&date={balance['to']}"
    )  # a single day belongs to a balance with days around it
    assert "Merge " in day[day.index("Overlapping value areas") :]


def test_naked_pocs_of_weeks_and_months_are_listed_beside_the_chart_and_in_the_profile(
    harness: WebHarness,
) -> None:
    """A POC within the range of today's regular session has traded, so it is not naked any more."""
    context = json.loads(harness.visitor().get("/page/context?symbol=ES").body)
    pocs = context["nakedWeeklyPocs"] + context["nakedMonthlyPocs"]
    assert pocs
    session = context["session"]
    spent = sum(session["low"] <= poc["price"] <= session["high"] for poc in pocs)
    for view, table in (("", "rungs"), ("?view=profile&session=full", "profile-levels")):
        text = page(harness, f"/s/ES{view}")
        levels = text[text.index(f'"{table}"') :].partition("</table>")[0]
        listed = re.findall(r"(Naked )?(?:weekly|monthly) POC", levels, re.IGNORECASE)
        assert (listed.count("Naked "), listed.count("")) == (len(pocs) - spent, spent), view


@given(
    prices=st.lists(st.integers(-40, 140), max_size=40),
    rows=st.integers(1, 300).flatmap(lambda rows: st.tuples(st.just(rows), st.sampled_from([1, 4, 25]))),
)
def test_labels_never_overlap_and_stay_in_the_drawing(prices: list[int], rows: tuple[int, int]) -> None:
    count, row_ticks = rows
    answer = profile_of_rows(count, row_ticks)
    span = count * row_ticks
    levels = [Level(5000 + 0.25 * (share * span // 100), "poc", "x", "x") for share in prices]
    drawing = drawing_of(answer, levels)
    places = [label.at for label in drawing.labels]
    assert all(lower - upper >= 13.9 for upper, lower in pairwise(places))
    assert all(0 <= place <= drawing.height for place in places)
    lines = [label.y for label in drawing.labels]
    assert lines == sorted(lines)
    assert all(0 <= y <= drawing.height for y in lines)
    for bar in drawing.bars:
        assert 0 <= bar.y <= bar.y + bar.height <= drawing.height + 0.2


def profile_of_rows(count: int, row_ticks: int) -> ProfileAnswer:
    """Rows of one letter from 5,000 on; all else is of an answer of the API."""
    rows = [
        {"price": 5000 + 0.25 * row_ticks * row, "tpos": 1, "letters": "A", "volume": 1, "delta": None}
        for row in reversed(range(count))
    ]
    top = rows[0]["price"]
    raw = json.loads(json.dumps(EXAMPLES["getProfile"]["profile"]["value"]))
    raw["rows"], raw["tickSize"] = rows, 0.25
    raw["method"]["rowTicks"] = row_ticks
    raw["profile"] |= {
        "poc": 5000.0, "vah": top, "val": 5000.0, "vpoc": top, "volumeVah": top, "volumeVal": 5000.0,
        "high": top, "low": 5000.0, "singlePrints": [], "highVolumeNodes": [], "lowVolumeNodes": [],
    }  # fmt: skip
    return msgspec.convert(raw, ProfileAnswer, strict=False)


def test_a_row_is_marked_as_single_print_only_if_all_its_ticks_are(harness: WebHarness) -> None:
    """In rows of one tick a single print has one TPO. In rows of four ticks all four of them must be such rows."""
    dates = [
        each["date"] for each in json.loads(harness.visitor().get("/page/history?symbol=CL").body)["sessions"]
    ]
    zones = 0
    for day in dates:
        fine = answer_of(harness, f"symbol=CL&session=rth&bracket=60&date={day}")
        ticks = {round(row["price"] * 100) for row in fine["rows"] if row["tpos"] == 1}
        text = page(harness, f"/s/CL?view=profile&bracket=60&row=4&date={day}")
        for row in cells(text):
            low = round(float(row[0].replace(",", "")) * 100)
            if "Single print" in row[-1]:
                zones += 1
                assert {low, low + 1, low + 2, low + 3} <= ticks
    assert zones


# -- errors


@pytest.mark.parametrize(
    ("query", "says", "remedy"),
    [
        ("date=2020-01-01", "No session of ES is stored", "Show the newest day"),
        ("period=range&from=2024-07-03&to=2024-07-01", "The first day is after the last day.", "Show the newest day"),
        ("period=range&to=2024-07-01", "The first day is missing.", "Show the newest day"),
        ("date=yesterday", "“yesterday” is not a date.", "Show the newest day"),
        ("anchor=noon", "The anchor is not a time.", "Show the newest day"),
        ("period=quarter&date=2024-07-01&delta=1", "limited to 23 trade dates", "Turn delta off"),
        ("period=range&from=2020-01-01&to=2024-07-01", "at most 260 trade dates", "Show the newest day"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do_and_the_links_lead_to_a_profile(
    recorded: WebHarness, query: str, says: str, remedy: str
) -> None:
    text = page(recorded, f"{VIEW}&{query}")
    assert says in text
    link = re.search(rf'<a class="button small" href="([^"]+)">{remedy}</a>', text)
    assert link is not None
    assert 'class="profile-plot' in page(recorded, link[1])


def test_brackets_of_15_minutes_without_trades_offer_30(harness: WebHarness) -> None:
    """The simulated past has no trades on tape."""
    text = page(harness, "/s/ZN?view=profile&bracket=15")
    assert "are not stored on this server" in text
    assert "Use brackets of 30 minutes" in text
    assert "nicht gespeichert" in page(harness, "/s/ZN?view=profile&bracket=15", "de")
    assert "No delta:" in page(harness, "/s/ZN?view=profile&delta=1")


def test_an_update_keeps_the_profile_while_the_service_is_busy(recorded: WebHarness) -> None:
    assert 'data-part="profile"' in page(recorded, "/s/ESU2024/rail?view=profile")
    busy = Occupied("rate_limited", retry_after_ms=1000)
    with patch.object(Query, "chosen_profile", side_effect=busy):
        update, whole = page(recorded, "/s/ESU2024/rail?view=profile"), page(recorded, VIEW)
    assert 'data-part="profile"' not in update
    assert 'data-part="rail"' in update
    assert "Other requests are reading trades right now." in whole


# -- in a browser


def test_without_scripts_the_form_shows_the_chosen_profile(tab_on: Callable[..., Window]) -> None:
    tab = tab_on(VIEW, scripts=False)
    form = tab.page.get_by_role("form", name="Profile settings")
    form.get_by_role("combobox", name="Profile").select_option("week")
    form.get_by_role("combobox", name="Hours").select_option("full")
    form.get_by_label("Delta").check()
    form.locator("[name=date]").fill("2024-07-02")
    form.get_by_role("button", name="Show").click()
    assert {"period=week", "session=full", "delta=1"} <= set(tab.page.url.partition("?")[2].split("&"))
    expect(tab.page.get_by_role("heading", name="Full day, Mon, Jul 1, 2024")).to_be_visible()
    assert tab.page.locator(".profile-delta rect").count() > 5
    assert form.get_by_label("Delta").is_checked()
    tab.page.get_by_text("Rows as a table").click()
    assert tab.page.locator(".profile-rows tbody tr").first.is_visible()
    tab.page.get_by_role("link", name="Previous").click()
    expect(tab.page.get_by_role("heading", name="Full day, Mon, Jun 24, 2024")).to_be_visible()


def test_a_change_of_the_form_shows_the_profile_in_place(tab_on: Callable[..., Window]) -> None:
    tab = tab_on(VIEW)
    tab.page.evaluate("window.sameDocument = true")
    period = tab.page.get_by_role("combobox", name="Profile")
    period.focus()
    period.select_option("week")
    expect(tab.page.get_by_role("heading", name="Regular hours, Mon, Jul 1, 2024")).to_be_visible()
    assert "period=week" in tab.page.url
    assert "anchor=" not in tab.page.url
    expect(tab.page.locator("#said")).to_contain_text("Regular hours, Mon, Jul 1, 2024")
    assert tab.page.evaluate("window.sameDocument && document.activeElement.name") == "period"
    # a range begins with the days that are shown
    period.select_option("range")
    wait_on_page(tab.page, lambda: "from=2024-07-01" in tab.page.url, "the URL has the range")
    assert tab.page.get_by_label("First day").input_value() == "2024-07-01"
    assert tab.page.locator("[name=date]").is_hidden()
    tab.page.get_by_label("First day").fill("2024-07-09")
    expect(tab.page.locator("#profile-problem")).to_contain_text("The first day is after the last day.")
    tab.page.reload()
    expect(tab.page.locator("#profile-problem")).to_be_visible()
    assert tab.errors.found(tab.page) == {}


def test_lines_lie_in_the_rows_of_their_prices(tab_on: Callable[..., Window]) -> None:
    tab = tab_on(f"{WEEK}&row=8")
    boxes = tab.page.evaluate(
        """() => Object.fromEntries([[".profile-lines .poc", "line"], [".poc-row", "row"], [".as-blocks .poc", "bar"],
          [".profile-labels text.poc", "label"], [".profile-plot", "plot"]].map(([at, name]) => {
            const box = document.querySelector(at).getBoundingClientRect();
            return [name, [box.top, box.bottom, box.left, box.right]]; }))"""
    )
    line, row, plot = boxes["line"], boxes["row"], boxes["plot"]
    assert row[0] - 1 <= line[0] <= row[1] + 1
    assert plot[2] <= row[2] < row[3] <= plot[3]
    assert boxes["label"][2] >= row[3]


@pytest.mark.parametrize("width", [NARROW, 1440])
def test_the_drawing_fits_the_window_with_letters_or_blocks(
    tab_on: Callable[..., Window], width: int
) -> None:
    tab = tab_on(f"{VIEW}&session=full&date=2024-07-02", width=width)
    letters, blocks = tab.page.locator(".as-letters"), tab.page.locator(".as-blocks")
    assert (letters.is_visible(), blocks.is_visible()) == (
        (False, True) if width == NARROW else (True, False)
    )
    assert tab.overflow(width) == []
    widths = tab.page.evaluate(
        """() => [document.querySelector(".profile-panel").getBoundingClientRect().width,
          ...[...document.querySelectorAll(".profile-labels text")].map((each) =>
            each.getBoundingClientRect().right)]"""
    )
    assert widths[0] > 60
    assert len(widths) > 5
    assert max(widths[1:]) <= width


@pytest.mark.parametrize(("theme", "language"), [("dark", "en"), ("light", "de")])
def test_a_profile_with_delta_is_accessible(tab_on: Callable[..., Window], theme: str, language: str) -> None:
    tab = tab_on(WEEK, theme=theme, language=language)
    assert tab.violations() == []
    name = tab.page.get_by_role("img").get_attribute("aria-labelledby")
    assert name is not None
    for part in name.split():
        assert "POC" in tab.page.locator(f"#{part}").inner_text() or part == "profile-title"
    assert tab.errors.found(tab.page) == {}


def test_an_open_session_keeps_updating(own_harness: WebHarness, tabs: Callable[..., Window]) -> None:
    tab = tabs(own_harness)
    tab.go("/s/ES?view=profile")
    tab.page.evaluate("window.sameDocument = true")
    counted = """[...document.querySelectorAll('.profile-rows tbody tr')]
        .reduce((count, row) => count + Number(row.cells[2].textContent), 0)"""
    before = tab.page.evaluate(counted)
    own_harness.forward(1800)
    wait_on_page(tab.page, lambda: tab.page.evaluate(counted) > before, "the profile gets more TPOs")
    assert tab.page.evaluate("window.sameDocument")
    assert tab.errors.found(tab.page) == {}


def test_the_views_link_to_each_other(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/s/ES")
        tab.page.get_by_role("link", name="Profile", exact=True).click()
        tab.page.wait_for_url("**/s/ES?view=profile")
        expect(tab.page.locator(".profile-plot")).to_be_visible()
        tab.page.keyboard.press("[")
        tab.page.wait_for_url("**date=*")
        tab.page.keyboard.press("t")
        tab.page.wait_for_url("**/s/ES")
