"""The symbol page shows what the API returns in every status, at one URL, with and without scripts."""

import csv
import html
import io
import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, Route, expect
from tests.web.browsing import Opened, wait_on_page
from tests.web.harness import SHOWS, WebHarness

from outcry.answers.charting import Notation
from outcry.sessions.opening_hours import OpeningHours
from outcry.trades.reference_tables import load_reference
from outcry.web.formatter import Clock, Formatter
from outcry.web.language import Languages
from outcry.web.symbol.chart_view import ChartView
from outcry.web.symbol.downloads import csv_bytes, safe_cell
from outcry.web.symbol.parts import ChosenView, session_clock

_RUNG = re.compile(r'<tr data-price="(.*?)".*?</span>(.*?)</th>.*?<td class="number">(.*?)</td>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


def asked(harness: WebHarness, path: str) -> Any:
    reply = harness.visitor().get(path)
    assert reply.status == 200, path
    return json.loads(reply.body)


def page(harness: WebHarness, path: str, language: str = "en") -> str:
    reply = harness.visitor(language).get(path)
    assert reply.status == 200, path
    return reply.text


def plain(markup: str) -> str:
    """What is read: no tags, blanks single."""
    return " ".join(html.unescape(_TAG.sub(" ", markup)).split())


def rungs(text: str) -> dict[str, list[float]]:
    """Prices of the ladder by the name of the level."""
    found: dict[str, list[float]] = {}
    for price, name, _ in _RUNG.findall(text):
        found.setdefault(plain(name.partition("<")[0]), []).append(float(price))
    return found


# -- addresses


@pytest.mark.parametrize("spelled", ["es", "MES", "mes", "@ES"])
def test_every_spelling_leads_to_the_ticker(harness: WebHarness, spelled: str) -> None:
    reply = harness.visitor().get(f"/s/{spelled}?layout=split&show=path&parts=1")
    assert (reply.status, reply.headers["location"]) == (302, "/s/ES?layout=split&show=path&parts=1")


def test_a_contract_has_the_address_of_its_whole_year(harness: WebHarness) -> None:
    reply = harness.visitor().get("/s/ESH6")
    assert (reply.status, reply.headers["location"]) == (302, "/s/ESH2026")
    assert '<h1 class="symbol-name"><span>ESH2026</span>' in page(harness, "/s/ESH2026")


def test_an_unknown_symbol_is_missing_and_others_are_suggested(harness: WebHarness) -> None:
    reply = harness.visitor().get("/s/ESS")
    assert reply.status == 404
    assert '<a class="button" href="/s/ES">ES</a>' in reply.text


def test_a_hostile_symbol_is_shown_as_it_is_and_does_nothing(harness: WebHarness) -> None:
    reply = harness.visitor().get("/s/%3Cscript%3Ealert(1)%3C%2Fscript%3E".replace("%2F", "_"))
    assert reply.status == 404
    assert "<script>alert" not in reply.text
    assert "&lt;script&gt;alert(1)&lt;_script&gt;" in reply.text


def test_what_an_address_has_wrong_is_as_if_it_were_not_there(harness: WebHarness) -> None:
    page(
        harness,
        "/s/ES?layout=%00&row=-1&sessions=9e9&letters='&date=yesterday&view=%3Cb%3E&show=&parts=%22&from=1e9&to=nan",
    )
    page(harness, "/s/ES?view=table&date=1999-01-01&sessions=1000000")


def test_how_it_is_looked_at_comes_back_from_its_own_address() -> None:
    usual = ChartView()
    view = ChartView("split", "blocks", 4, 20, frozenset({"volume", "path"}), (120.0, -8.5))
    assert ChosenView(usual, table=False, date="").entries() == []
    assert ChosenView(view, table=True, date="2026-03-03").entries() == [
        ("layout", "split"), ("letters", "blocks"), ("row", "4"), ("sessions", "20"), ("date", "2026-03-03"),
        ("view", "table"), ("parts", "1"), ("show", "volume"), ("show", "path"),
        ("from", "120.0"), ("to", "-8.5"),
    ]  # fmt: skip


def test_nobody_sees_anything_where_visitors_may_not(bare: WebHarness) -> None:
    for path in ("/s/ES", "/s/ES/rail", "/s/ES/levels.csv", "/s/ES/levels.json", "/s/ES/profile.csv"):
        reply = bare.visitor().get(path)
        assert (reply.status, reply.headers["location"]) == (303, f"/sign-in?next={path}")


# -- live


def test_the_ladder_has_every_level_of_the_answer(harness: WebHarness) -> None:
    levels, context = (asked(harness, f"/page/{kind}?symbol=ES") for kind in ("levels", "context"))
    found = rungs(page(harness, "/s/ES"))
    developing, prior, night = levels["developing"], levels["prior"], levels["overnight"]
    assert found["dVAH"] == [developing["vah"]]
    assert found["dVAL"] == [developing["val"]]
    assert found["dPOC"] == [developing["poc"]]
    assert found["dVPOC"] == [developing["vpoc"]]
    assert (found["pVAH"], found["pPOC"], found["pVAL"]) == ([prior["vah"]], [prior["poc"]], [prior["val"]])
    assert (found["ONH"], found["ONL"]) == ([night["high"]], [night["low"]])
    if context["session"]["ibComplete"]:
        assert (found["IBH"], found["IBL"]) == ([developing["ibHigh"]], [developing["ibLow"]])
    before = asked(harness, "/page/history?symbol=ES")["sessions"][-1]
    old = [level["price"] for level in levels["nakedPocs"] if level["date"] != before["date"]]
    assert sorted(found.get("Naked POC", [])) == sorted(old)
    assert found["Prior high"] == [before["high"]]
    assert found["Prior close"] == [before["closePrice"]]
    in_order = [float(price) for price, _, _ in _RUNG.findall(page(harness, "/s/ES"))]
    assert in_order == sorted(in_order, reverse=True)


def test_the_bias_has_its_five_votes(harness: WebHarness) -> None:
    votes = asked(harness, "/page/context?symbol=ES")["biasVotes"]
    text = page(harness, "/s/ES")
    bias = text[text.index('<ul class="reasons">') : text.index("</ul>", text.index('<ul class="reasons">'))]
    signs = [{"+": 1, "−": -1, "0": 0}[sign] for sign in re.findall(r'<b aria-hidden="true">(.)</b>', bias)]
    assert sorted(signs) == sorted(vote for name, vote in votes.items() if name != "total")
    assert sum(signs) == votes["total"]


def test_every_scenario_has_its_card(harness: WebHarness) -> None:
    scenarios = asked(harness, "/page/levels?symbol=ES")["playbook"]["scenarios"]
    text = page(harness, "/s/ES")
    found = dict(re.findall(r'<details class="scenario (\w+)" id="scenario-(\w+)"', text))
    assert {id_: status for status, id_ in re.findall(r'scenario (\w+)" id="scenario-(\w+)"', text)} == {
        each["id"]: each["status"] for each in scenarios
    }
    assert found
    assert "bracket_close" not in text


def test_the_page_speaks_german(harness: WebHarness) -> None:
    announced = plain(page(harness, "/s/ES", "de"))
    for text in (
        "Handelssitzung",
        "Vortagesschluss",
        "Würde zu",
        "Bestätigt durch",
        "Alerts, ",
    ):
        assert text in announced
    for text in ("Would be consistent", "Prior close", "half-hour", "session ago", "Speaks"):
        assert text not in announced


# -- other states


def test_a_delayed_page_is_of_the_completed_session_and_says_what_to_do(harness: WebHarness) -> None:
    symbol = SHOWS["delayed"][0]
    levels, session = (
        asked(harness, f"/page/levels?symbol={symbol}"),
        asked(harness, f"/page/context?symbol={symbol}")["session"],
    )
    text = page(harness, f"/s/{symbol}")
    found = rungs(text)
    assert (found["POC"], found["VAH"], found["VAL"]) == tuple(
        [levels["prior"][name]] for name in ("poc", "vah", "val")
    )
    assert found["Session high"] == [session["high"]]
    assert "dPOC" not in found
    assert 'href="/account/brokers"' in text
    assert "Paused. Bias needs an open session with a live feed." in text
    assert '<details class="scenario' not in text
    assert "is-stale" not in text


@pytest.mark.parametrize("state", ["stale", "error"])
def test_a_feed_that_stopped_dims_what_stands_still(harness: WebHarness, state: str) -> None:
    symbol, code = SHOWS[state]
    text = page(harness, f"/s/{symbol}")
    assert f'data-state="{code}"' in text
    assert "symbol-head is-stale" in text
    assert "Paused. The playbook needs an open session with a live feed." in text


def test_the_foot_names_the_feed_and_its_newest_event(harness: WebHarness) -> None:
    context = asked(harness, "/page/context?symbol=ES")
    foot = re.search(r'<p class="symbol-foot.*?</p>', page(harness, "/s/ES"), re.DOTALL)
    assert foot is not None
    footer = plain(foot[0])
    assert footer.startswith(f"Feed: {context['feed']} , simulated Last update ")
    at = re.search(r'datetime="([^"]+)"', foot[0])
    assert at is not None
    there = datetime.fromisoformat(at[1]).astimezone(ZoneInfo("America/New_York"))
    assert f"Last update {there:%H:%M:%S} EST · " in footer
    assert "Letzte Aktualisierung" in page(harness, "/s/ES", "de")


def test_the_foot_of_a_completed_session_names_its_source_and_no_age(harness: WebHarness) -> None:
    data = asked(harness, f"/page/context?symbol={SHOWS['delayed'][0]}")["session"]["data"]
    foot = re.search(r'<p class="symbol-foot.*?</p>', page(harness, f"/s/{SHOWS['delayed'][0]}"), re.DOTALL)
    assert foot is not None
    assert f"Source: {data['source']} " in plain(foot[0])
    assert "datetime" not in foot[0]


def test_a_symbol_with_nothing_to_show_says_why(harness: WebHarness) -> None:
    symbol = SHOWS["empty"][0]
    text = page(harness, f"/s/{symbol}")
    assert f"No {symbol} data available to you yet." in text
    assert 'href="/broker-guide"' in text


@pytest.mark.parametrize(
    ("now", "language", "opens", "left", "open_now"),
    [
        ("2026-11-21T12:00", "en", "Closed, opens Sun 18:00 EST", "45:30:00", False),  # a Saturday
        ("2026-11-19T17:30", "de", "Geschlossen, öffnet Do 18:00 EST", "16:00:00", False),  # the daily break
        ("2026-11-20T08:47:50", "en", "", "42:10", False),
        ("2026-11-20T10:20", "en", "", "71:10:00", True),
    ],
)
def test_the_session_clock_of_a_page_that_is_not_live(
    now: str, language: str, opens: str, left: str, open_now: bool
) -> None:
    at_ns = int(datetime.fromisoformat(now).replace(tzinfo=ZoneInfo("America/New_York")).timestamp()) * 10**9
    hours = OpeningHours(load_reference().calendar).at("ES", at_ns)
    outlook: Any = SimpleNamespace(hours=hours, at_ns=at_ns, live=False, regular=True)
    formatter = Formatter(
        Notation(kind="decimal", decimals=2, parts=1),
        Clock(Languages.words(language), "America/New_York", "Europe/Berlin", 2026),
    )
    found = session_clock(outlook, formatter)
    assert (found["opens"], found["left"], found["open_now"]) == (opens, left, open_now)


# -- table and downloads


@pytest.mark.parametrize("symbol", ["ES", SHOWS["delayed"][0]])
def test_the_table_has_the_rows_of_the_profile(harness: WebHarness, symbol: str) -> None:
    day = asked(harness, f"/page/history?symbol={symbol}")["sessions"][-2]["date"]
    profile = asked(harness, f"/page/profile?symbol={symbol}&date={day}")
    text = page(harness, f"/s/{symbol}?view=table&date={day}")
    body = text[text.index("profile-rows") : text.index("</table>", text.index("profile-rows"))]
    rows = re.findall(
        r'<td class="letters number">(.*?)</td><td class="number">(.*?)</td><td class="number">(.*?)</td>',
        body,
    )
    assert rows == [(row["letters"], str(row["tpos"]), f"{row['volume']:,}") for row in profile["rows"]]
    assert body.count("is-poc") == 1


def test_the_table_lists_the_sessions_the_chart_draws(harness: WebHarness) -> None:
    chart = asked(harness, "/page/chart?symbol=ES&sessions=5")
    text = page(harness, "/s/ES?view=table")
    linked = re.findall(r"date=([\d-]+)", text[text.index("sessions-title") :])
    assert linked == [session["date"] for session in reversed(chart["sessions"])]


def test_levels_can_be_taken_along(harness: WebHarness) -> None:
    symbol = SHOWS["delayed"][0]  # it stands still
    answer = harness.visitor().get(f"/page/levels?symbol={symbol}")
    assert harness.visitor().get(f"/s/{symbol}/levels.json").body == answer.body
    reply = harness.visitor().get(f"/s/{symbol}/levels.csv")
    assert reply.headers["content-disposition"] == f'attachment; filename="{symbol}-levels.csv"'
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    levels = json.loads(answer.body)
    by_name = {row["level"]: float(row["price"]) for row in rows}
    assert {name: by_name[f"prior_{name}"] for name in ("poc", "vah", "val")} == levels["prior"]
    naked = [(float(row["price"]), row["made_on"]) for row in rows if row["level"] == "naked_poc"]
    assert naked == [(level["price"], level["date"]) for level in levels["nakedPocs"]]
    assert {row["as_of"] for row in rows} == {levels["asOf"]}


def test_a_profile_can_be_taken_along(harness: WebHarness) -> None:
    symbol = SHOWS["delayed"][0]
    profile = asked(harness, f"/page/profile?symbol={symbol}")
    reply = harness.visitor().get(f"/s/{symbol}/profile.csv")
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    assert [(float(row["price"]), row["letters"], int(row["tpos"]), int(row["volume"])) for row in rows] == [
        (row["price"], row["letters"], row["tpos"], row["volume"]) for row in profile["rows"]
    ]
    assert harness.visitor().get(f"/s/{symbol}/profile.csv?date=1999-01-01").status == 404
    assert harness.visitor().get(f"/s/{symbol}/profile.csv?date=today").status == 404
    assert harness.visitor().get("/s/NOPE/levels.csv").status == 404


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        ("=1+1", "'=1+1"), ("@SUM(A1)", "'@SUM(A1)"), ("+cmd", "'+cmd"), ("-x", "'-x"), ("\tx", "'\tx"), ("|x", "'|x"),
        (-37.5, "-37.5"), ("-37.50", "-37.50"), ("+3", "+3"), (None, ""), ("ES", "ES"),
    ],
)  # fmt: skip
def test_no_cell_is_a_formula(cell: object, safe: str) -> None:
    assert safe_cell(cell) == safe
    assert next(csv.reader(io.StringIO(csv_bytes([(cell, "x")]).decode(), newline=""))) == [safe, "x"]


# -- in a browser


def test_without_scripts_the_table_stands_in_the_place_of_the_chart(
    harness: WebHarness, opened: Opened
) -> None:
    with opened(scripts=False) as tab:
        tab.go("/s/ES?sessions=2")
        expect(tab.page.get_by_role("heading", name="Bias")).to_be_visible()
        expect(tab.page.get_by_role("heading", name="Profile, ")).to_be_visible()
        expect(tab.page.locator(".chart-part")).to_be_hidden()
        tab.page.get_by_role("combobox", name="Sessions").select_option("10")
        tab.page.get_by_role("button", name="Show").click()
        assert "sessions=10" in tab.page.url
        expect(tab.page.get_by_role("heading", name="Profile, ")).to_be_visible()


def test_keys_lead_to_the_table_and_through_its_sessions(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/s/ES")
        tab.page.keyboard.press("t")
        tab.page.wait_for_url("**/s/ES?view=table")
        first = tab.page.locator("#rows-title").inner_text()
        tab.page.keyboard.press("[")
        tab.page.wait_for_url("**date=*")
        assert tab.page.locator("#rows-title").inner_text() != first
        tab.page.keyboard.press("]")
        tab.page.wait_for_function(
            "first => document.getElementById('rows-title').innerText === first", arg=first
        )
        tab.page.keyboard.press("t")
        tab.page.wait_for_url(lambda url: "view=table" not in url)
        assert tab.errors.found(tab.page) == {}


def test_what_a_key_reads_is_announced_at_once_and_updates_wait(opened: Opened) -> None:
    """Without a moment going by; an update has to wait until five seconds after the last reading."""
    with opened() as tab:
        tab.go(f"/s/{SHOWS['delayed'][0]}")
        page, announced = tab.page, tab.page.locator("#said")
        page.locator("#chart canvas").first.wait_for()
        page.clock.install(time=datetime(2026, 11, 20, 16, tzinfo=UTC))
        page.clock.pause_at(datetime(2026, 11, 20, 16, 1, tzinfo=UTC))
        page.locator("#chart").focus()
        read: list[str] = []
        for key in ("End", "ArrowLeft", "ArrowUp", "ArrowUp", "ArrowDown", "v"):
            page.keyboard.press(key)
            read.append(announced.inner_text())
            assert read[-1] == page.locator(".chart-readout").inner_text()
        assert read[1].count("open ") == 1
        assert len(set(read)) >= 5
        page.evaluate(
            """async () => {
                const { say } = await import(document.querySelector('script[src*="js/common"]').src);
                say("an older update");
                say("the newest update");
            }"""
        )
        assert announced.inner_text() == read[-1]
        page.clock.run_for(4_999)
        assert announced.inner_text() == read[-1]
        page.clock.run_for(1)
        assert announced.inner_text() == "the newest update"


def test_how_the_chart_is_drawn_is_kept_in_the_address(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/s/ES")
        tab.page.wait_for_selector("#chart canvas")
        tab.page.keyboard.press("s")
        tab.page.wait_for_url("**layout=split*")
        href = tab.page.locator("#to-table").get_attribute("href") or ""
        assert "layout=split" in href
        assert "view=table" in href
        tab.page.reload()
        assert tab.page.locator("input[name=layout]:checked").get_attribute("value") == "split"


def test_a_live_page_goes_on_without_being_loaded_again(own_harness: WebHarness, tabs: Any) -> None:
    tab = tabs(own_harness)
    tab.go("/s/ES")
    tab.page.evaluate("window.__same = true")
    link = tab.page.get_by_role("link", name="levels.csv")
    link.focus()
    before = tab.page.locator(".symbol-last").inner_text()
    alerts = tab.page.locator(".rail-alerts li").count()
    own_harness.forward(2 * 3600)
    wait_on_page(
        tab.page, lambda: tab.page.locator(".symbol-last").inner_text() != before, "the price stands still"
    )
    wait_on_page(tab.page, lambda: tab.page.locator(".rail-alerts li").count() > alerts, "no alert arrives")
    expect(tab.page.locator(".symbol-facts")).to_contain_text("period F")
    newest = asked(own_harness, "/page/alerts/history?symbol=ES")["alerts"][0]
    expect(tab.page.locator(f".rail-alerts li[data-seq='{newest['seq']}']")).to_be_visible()
    assert tab.page.evaluate("window.__same") is True
    assert tab.page.evaluate("document.activeElement.textContent") == "levels.csv"
    assert tab.errors.found(tab.page) == {}


def test_the_price_has_its_place_in_the_ladder(own_harness: WebHarness, tabs: Any) -> None:
    tab = tabs(own_harness)
    tab.go("/s/ES")
    own_harness.forward(600)
    tab.page.wait_for_timeout(3000)
    rows = tab.page.evaluate(
        "[...document.querySelectorAll('[data-rungs] tr')].map(r => "
        "[r.matches('[data-last-rung]'), Number(r.dataset.price), r.cells[1].textContent, r.cells[2].textContent])"
    )
    (place,) = [at for at, row in enumerate(rows) if row[0]]
    last = float(rows[place][2].replace(",", ""))
    assert all(price > last for _, price, _, _ in rows[:place])
    assert all(price <= last for _, price, _, _ in rows[place + 1 :])
    for _, price, _, distance in (row for row in rows if not row[0]):
        assert float(distance.replace("−", "-")) == pytest.approx(price - last)


def test_a_feed_that_stops_and_goes_on_is_told_at_once(own_harness: WebHarness, tabs: Any) -> None:
    tab = tabs(own_harness)
    tab.go("/s/ES")
    expect(tab.page.locator(".symbol-head .chip")).to_contain_text("Live")
    own_harness.force("ES", "stale_link")
    expect(tab.page.locator(".symbol-head .chip")).to_contain_text("Stale")
    expect(tab.page.locator(".rail-part").first).to_contain_text("Paused")
    assert tab.page.locator(".symbol-head.is-stale").count() == 1
    own_harness.force("ES", None)
    expect(tab.page.locator(".symbol-head .chip")).to_contain_text("Live")
    expect(tab.page.locator(".symbol-head.is-stale")).to_have_count(0)


def test_copying_gives_what_the_link_gives(harness: WebHarness, opened: Opened) -> None:
    symbol = SHOWS["delayed"][0]
    with opened(permissions=["clipboard-read", "clipboard-write"]) as tab:
        tab.go(f"/s/{symbol}")
        tab.page.get_by_role("button", name="CSV").click()
        expect(tab.page.get_by_role("button", name="✓")).to_be_visible()
        copied = tab.page.evaluate("navigator.clipboard.readText()")
        assert copied.replace("\r\n", "\n") == harness.visitor().get(f"/s/{symbol}/levels.csv").text.replace(
            "\r\n", "\n"
        )


def test_a_lost_connection_is_told_with_its_time_and_forgotten_when_it_is_back(
    own_harness: WebHarness, tabs: Any
) -> None:
    tab = tabs(own_harness)
    tab.go("/s/ES")
    tab.page.wait_for_timeout(1500)
    tab.context.set_offline(True)
    expect(tab.page.locator("#lost")).to_be_visible(timeout=60_000)
    assert re.search(r"of 10:\d\d:\d\d", tab.page.locator("#lost").inner_text())
    assert tab.page.locator("#symbol.is-stale").count() == 1
    tab.context.set_offline(False)
    expect(tab.page.locator("#lost")).to_be_hidden(timeout=60_000)
    expect(tab.page.locator("#symbol.is-stale")).to_have_count(0)


# -- pages that stay open


#: Keeps a page from being told of states, as a stream that is resumed may not tell of one that has come and gone.
MISSING_STATE = """(() => {
  const listen = EventSource.prototype.addEventListener;
  EventSource.prototype.addEventListener = function (name, ...rest) {
    if (name !== "state") listen.call(this, name, ...rest);
  };
})()"""
_FOLLOW_ALL = """async () => {
  const { follow } = await import(document.querySelector('script[src*="js/common.js"]').src);
  follow(null, () => {});
}"""


def head_of(page: Page) -> tuple[str, str]:
    """The change in points as it stands, and the prior close it is measured from."""
    return page.evaluate(
        "() => { const box = document.querySelector('[data-change]');"
        " return [box.querySelector('[data-change-points]').textContent, box.dataset.priorClose]; }"
    )


def test_the_change_is_measured_from_the_prior_close_of_the_head_as_it_is_now(
    own_harness: WebHarness, tabs: Any
) -> None:
    tab = tabs(own_harness)
    first = asked(own_harness, "/page/history?symbol=ES")["sessions"][-1]
    shown = own_harness.visitor().get("/s/ES").text
    assert f'data-prior-close="{first["closePrice"]}"' in shown
    # another day's head, as a page that stands open overnight is given one
    moved = f'data-prior-close="{first["closePrice"] - 100}"'

    def another_day(route: Route) -> None:
        # fetched here: a page that goes on meanwhile takes what it fetched itself with it
        url = urlsplit(route.request.url)
        rail = own_harness.visitor().get(f"{url.path}?{url.query}").text
        body = re.sub(r'data-prior-close="[\d.]+"', moved, rail)
        route.fulfill(body=body, content_type="text/html; charset=utf-8")

    tab.page.route("**/s/ES/rail*", another_day)
    tab.go("/s/ES")
    own_harness.forward(120)  # levels move: what is in words is asked for anew
    wait_on_page(tab.page, lambda: moved.split('"')[1] == head_of(tab.page)[1], "the head is not swapped", 45)
    tab.page.wait_for_timeout(1500)
    points, last = head_of(tab.page)[0], tab.page.locator(".symbol-last").inner_text()
    expected = float(last.replace(",", "")) - (first["closePrice"] - 100)
    assert float(points.replace("−", "-")) == pytest.approx(expected)


def test_a_state_missed_while_nothing_was_heard_is_in_the_next_snapshot(
    own_harness: WebHarness, tabs: Any
) -> None:
    tab = tabs(own_harness)
    tab.context.add_init_script(MISSING_STATE)
    tab.go("/s/ES")
    expect(tab.page.locator(".symbol-head .chip")).to_contain_text("Live")
    tab.page.wait_for_timeout(1500)
    own_harness.force("ES", "closed")
    tab.page.wait_for_timeout(1000)
    tab.page.evaluate(_FOLLOW_ALL)  # more is wanted: the stream begins anew, with a snapshot
    expect(tab.page.locator(".symbol-head .chip")).to_contain_text("Closed")
    expect(tab.page.locator(".rail-part").first).to_contain_text("Paused")


def test_a_chart_that_cannot_be_fetched_says_so_and_is_tried_again(
    own_harness: WebHarness, tabs: Any
) -> None:
    tab = tabs(own_harness)
    routes: list[Route] = []

    def hold(route: Route) -> None:
        routes.append(route)

    tab.page.route("**/page/chart*", hold)
    tab.go("/s/ES")
    note = tab.page.locator("#chart-note")
    expect(note).to_contain_text("Loading the chart…")
    wait_on_page(tab.page, lambda: bool(routes), "the chart is not asked for")
    routes[0].abort()
    expect(note).to_contain_text("The chart could not be loaded")
    expect(note.get_by_role("link")).to_be_visible()
    tab.page.unroute("**/page/chart*")
    tab.errors.expects.add(503)
    tab.page.route("**/page/chart*", lambda route: route.fulfill(status=503, body="{}"))
    for route in routes[1:]:
        route.abort()
    tab.page.wait_for_timeout(3000)
    expect(note).to_contain_text("The chart could not be loaded")
    tab.page.unroute("**/page/chart*")
    expect(tab.page.locator("#chart canvas").first).to_be_visible(timeout=60_000)
    expect(note).to_be_hidden()
    assert tab.errors.errors == []


def test_a_contract_that_the_stream_does_not_tell_of_is_asked_for_now_and_then(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outcry.web.symbol.page._follows", lambda *_: False)
    with opened() as tab:
        asked_for: list[str] = []
        tab.page.on("request", lambda request: asked_for.append(request.url))
        tab.go("/s/ESH2026")
        wait_on_page(
            tab.page, lambda: sum("/page/chart" in url for url in asked_for) > 1, "the chart stands still"
        )
        wait_on_page(tab.page, lambda: any("/rail" in url for url in asked_for), "the rail stands still")


def test_what_is_in_view_is_kept_in_the_address(opened: Opened) -> None:
    with opened() as tab:
        tab.go("/s/ES")
        tab.page.wait_for_selector("#chart canvas")
        assert tab.page.url.endswith("/s/ES")
        tab.page.locator("#chart").focus()
        tab.page.keyboard.press("+")
        tab.page.keyboard.press("+")
        tab.page.wait_for_url("**from=*")
        tab.page.wait_for_timeout(600)
        url = tab.page.url
        assert "from=" in (tab.page.locator("#to-table").get_attribute("href") or "")
        tab.go(url.removeprefix(tab.harness.base))
        tab.page.wait_for_selector("#chart canvas")
        tab.page.wait_for_timeout(1000)
        assert tab.page.url == url
        tab.page.locator("#chart").focus()
        tab.page.keyboard.press("0")
        tab.page.wait_for_url(lambda found: "from=" not in found)


def test_a_tag_says_how_old_a_level_is_in_the_words_of_the_ladder(
    harness: WebHarness, opened: Opened
) -> None:
    text = page(harness, "/s/ES")
    words = json.loads(re.findall(r'id="dated-words">(.*?)</script>', text, re.DOTALL)[0])
    levels = asked(harness, "/page/levels?symbol=ES")
    dates = {each["date"] for kind in ("nakedPocs", "poorHighs", "poorLows") for each in levels[kind]}
    assert dates
    assert set(words) == dates
    days = [session["date"] for session in asked(harness, "/page/history?symbol=ES")["sessions"]]
    today = asked(harness, "/page/context?symbol=ES")["session"]["date"]
    for date, announced in words.items():
        ago = sum(date <= day < today for day in days)
        month_day = datetime.fromisoformat(date).strftime("%b %-d")
        assert announced == f"{month_day} · {ago} session{'' if ago == 1 else 's'}"


def test_the_page_says_what_complete_means_and_which_sessions_are_not(harness: WebHarness) -> None:
    shown = page(harness, "/s/ES")
    (part,) = re.findall(r'<details class="symbol-complete.*?</details>', shown, re.DOTALL)
    assert "A session is complete when it has ended and has no gap longer than is usual" in part
    assert re.search(r"<summary>(No|\d+) sessions? missing or incomplete</summary>", part)
