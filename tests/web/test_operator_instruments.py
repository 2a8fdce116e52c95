"""The operator's pages of instruments: what they show, what they check before saving, and whose changes are refused."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from re import DOTALL, search

import pytest
from tests.web.account_harness import Member, Read, account_service, unconfirmed
from tests.web.harness import Reply, WebHarness

from outcry.recordings.file_model import ReadOptions

PRODUCTS = """\
root,name,exchange,sector,parent,tick,multiplier,size_step,unit,months,serial,skipped,zone,settle,expiry_rule,\
notice_rule,roll_sessions,projectx,aliases,source,checked_on,note
TEA,Tea <b>future</b>,COLOMBO,tea,,0.5,10,,rupees,,,,Asia/Colombo,,,,,,,exchange,2026-11-23,
"""
HOURS = """\
roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note
TEA,,Mon-Fri,2020-01-01,,09:00-12:00 13:00-16:00,09:00-16:00,exchange,2026-11-23,
"""
EDIT = "/operator/instruments/edit"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WebHarness]:
    with account_service(tmp_path) as made:
        yield made


@pytest.fixture
def boss(harness: WebHarness) -> Member:
    return Member(harness, "boss@example.com", operator=True)


def folder(harness: WebHarness) -> Path:
    return harness.installation.settings.folder / "instruments"


def files(harness: WebHarness) -> dict[str, str]:
    return {path.name: path.read_bytes().decode() for path in folder(harness).glob("*")}


def texts_of(reply: Reply) -> dict[str, str]:
    """Return the entries of the form with tables as a browser reads them."""
    found = {"version": Read(reply).entry("version")}
    for name in ("products", "sessions", "holidays", "activity"):
        area = search(rf'<textarea[^>]* name="{name}"[^>]*>\n(.*?)</textarea>', reply.text, DOTALL)
        assert area is not None
        found[name] = unescape(area[1]).replace("\n", "\r\n")
    return found


def submitted(
    boss: Member, action: str, entries: dict[str, str] | None = None, **changed: str
) -> tuple[Reply, dict[str, str]]:
    """Submit the form, with the entries of an earlier page or those of now."""
    entries = {**(entries or texts_of(boss.get(EDIT))), **changed, "action": action}
    return boss.send(EDIT, entries), entries


def test_a_product_is_checked_then_saved_and_shown_until_the_restart(
    harness: WebHarness, boss: Member
) -> None:
    checked, _ = submitted(boss, "check", products=PRODUCTS, sessions=HOURS)
    assert checked.status == 200
    assert "No errors found. Nothing was saved yet. Products with data of yours: TEA." in Read(checked).text
    assert texts_of(checked)["sessions"].replace("\r\n", "\n") == HOURS
    assert not folder(harness).exists()
    saved, _ = submitted(boss, "save", products=PRODUCTS, sessions=HOURS)
    assert saved.headers["location"] == "/operator/instruments?done=saved"
    assert files(harness) == {"products.csv": PRODUCTS, "sessions.csv": HOURS}
    shown = boss.follow(saved)
    text = Read(shown).text
    assert "Tables saved." in text
    assert "still uses the tables that it read at its start. Restart it" in text
    assert "TEA Tea <b>future</b> COLOMBO Asia/Colombo 0.5 1 – Your tables: Products, Trading hours" in text
    assert "<b>future</b>" not in shown.text
    product = Read(boss.get("/operator/instruments/products/TEA")).text
    assert "Mon-Fri 09:00-12:00 13:00-16:00 09:00-16:00 Your tables exchange , 2026-11-23" in product
    assert "America/New_York" in Read(boss.get("/operator/instruments/products/ES")).text
    assert boss.get("/operator/instruments/products/NOPE").status == 404
    log = Read(boss.get("/account/log")).text
    assert "Instrument tables changed" in log
    assert "products.csv sessions.csv" in log


def test_an_unchanged_form_writes_nothing(harness: WebHarness, boss: Member) -> None:
    """Browsers submit line breaks as CR LF; the files keep theirs, and a new table needs more than its header."""
    assert submitted(boss, "save")[0].status == 303
    assert not folder(harness).exists()
    submitted(boss, "save", products=PRODUCTS, sessions=HOURS)
    before = {path: path.stat().st_mtime_ns for path in folder(harness).iterdir()}
    assert submitted(boss, "save")[0].status == 303
    assert {path: path.stat().st_mtime_ns for path in folder(harness).iterdir()} == before


@pytest.mark.parametrize("action", ["check", "save"])
def test_an_invalid_row_is_named_and_the_text_stays(action: str, harness: WebHarness, boss: Member) -> None:
    """The same words as `outcry instruments check` has; the file is beside its table."""
    wrong = HOURS.replace("09:00-16:00", "0900-16:00")
    reply, _ = submitted(boss, action, products=PRODUCTS, sessions=wrong)
    assert reply.status == 422
    assert "sessions.csv, row 2, column rth: '0900-16:00' is not" in Read(reply).text
    assert 'aria-describedby="e-sessions"' in reply.text
    assert texts_of(reply)["sessions"].replace("\r\n", "\n") == wrong
    missing, _ = submitted(boss, action, products=PRODUCTS)
    assert "sessions.csv, row 1, column roots: TEA has no hours" in Read(missing).text
    assert not folder(harness).exists()


def test_errors_are_placed_in_german(harness: WebHarness) -> None:
    boss = Member(harness, "chefin@example.com", operator=True, language="de")
    reply, _ = submitted(boss, "check", products=PRODUCTS.replace(",0.5,", ",-1,"), sessions=HOURS)
    assert "products.csv, Zeile 2, Spalte tick:" in Read(reply).text
    assert "Beispiele hinzufügen" in Read(boss.get("/operator/instruments")).text


def test_the_second_of_two_people_to_save_sees_what_the_first_saved(
    harness: WebHarness, boss: Member
) -> None:
    """Nothing of the first is lost unless the second person, who has seen it, saves again."""
    submitted(boss, "save", products=PRODUCTS, sessions=HOURS)
    opened = texts_of(boss.get(EDIT))
    first = PRODUCTS.replace(",exchange,2026", ",notice 7,2026")
    submitted(boss, "save", products=first)
    second = PRODUCTS.replace("Tea <b>future</b>", "Black tea")
    refused, _ = submitted(boss, "save", opened, products=second)
    assert refused.status == 422
    text = Read(refused).text
    assert "Somebody changed the tables since you opened this page. Nothing was saved." in text
    assert "notice 7" in text
    assert "Black tea" in texts_of(refused)["products"]
    assert files(harness)["products.csv"] == first
    both = first.replace("Tea <b>future</b>", "Black tea")
    saved, _ = submitted(boss, "save", texts_of(refused), products=both)
    assert saved.status == 303
    assert files(harness)["products.csv"] == both


def test_a_change_by_an_editor_in_between_is_not_lost_either(harness: WebHarness, boss: Member) -> None:
    submitted(boss, "save", products=PRODUCTS, sessions=HOURS)
    opened = texts_of(boss.get(EDIT))
    by_hand = HOURS.replace("16:00", "15:00")
    (folder(harness) / "sessions.csv").write_text(by_hand)
    refused, _ = submitted(boss, "save", opened, products=PRODUCTS.replace("rupees", "LKR"))
    assert refused.status == 422
    assert files(harness) == {"products.csv": PRODUCTS, "sessions.csv": by_hand}


def test_examples_are_added(harness: WebHarness, boss: Member) -> None:
    none = boss.send("/operator/instruments/examples", {})
    assert none.status == 422
    assert "Choose examples from the list." in Read(none).text
    added = boss.send("/operator/instruments/examples", {"examples": ["FESX", "SPY"]})
    text = Read(boss.follow(added)).text
    assert "Examples added." in text
    assert "FESX,EURO STOXX 50" in files(harness)["products.csv"]
    again = boss.send("/operator/instruments/examples", {"examples": "FESX"})
    assert "Your tables already have this product." in Read(again).text
    assert 'value="FDAX"' in again.text
    assert 'value="FESX"' not in again.text


def test_stored_sessions_that_a_change_affects_are_named_before_it_is_saved(
    harness: WebHarness, boss: Member, tmp_path: Path
) -> None:
    """One session of ES is stored. Own hours without the quarter of an hour after the cash close change it."""
    recording = tmp_path / "ESZ6.csv"
    recording.write_text("ts,price,size\n2026-11-19T15:00:00Z,6000,1\n2026-11-19T20:00:00Z,6001.25,2\n")
    installation = harness.installation
    installation.importer.run(recording, 0, ReadOptions(), installation.clock.now_ns())
    hours = HOURS.replace("TEA", "ES").replace(
        "09:00-12:00 13:00-16:00,09:00-16:00", "<18:00-17:00,09:30-16:00"
    )
    checked, _ = submitted(boss, "check", sessions=hours)
    assert "Affected stored sessions ES : 1 session, Nov 19, 2026 – Nov 19, 2026" in Read(checked).text
    assert "outcry refold" in checked.text
    submitted(boss, "save", sessions=hours)
    assert "ES : 1 session, Nov 19, 2026" in Read(boss.get("/operator/instruments")).text


def test_a_tick_that_differs_from_stored_data_is_refused(
    harness: WebHarness, boss: Member, tmp_path: Path
) -> None:
    recording = tmp_path / "ESZ6.csv"
    recording.write_text("ts,price,size\n2026-11-19T15:00:00Z,6000,1\n")
    installation = harness.installation
    installation.importer.run(recording, 0, ReadOptions(), installation.clock.now_ns())
    row = PRODUCTS.splitlines()[0] + (
        "\nES,E-mini,CME,index,,0.5,50,,points,HMUZ,,,America/New_York,15:59:30-16:00:00,third_friday,none,1,,,me,"
        "2026-11-23,\n"
    )
    refused, _ = submitted(boss, "save", products=row)
    assert refused.status == 422
    assert "The tick of ES is 0.5, but its stored data was recorded with 0.25." in Read(refused).text
    assert not folder(harness).exists()


def test_tables_that_are_broken_by_hand_are_named_and_can_be_mended(
    harness: WebHarness, boss: Member
) -> None:
    folder(harness).mkdir()
    (folder(harness) / "products.csv").write_text(PRODUCTS.replace(",0.5,", ",x,"))
    (folder(harness) / "sessions.csv").write_text(HOURS)
    page = boss.get("/operator/instruments")
    assert page.status == 200
    text = Read(page).text
    assert "The service will not start with them. products.csv, row 2, column tick:" in text
    saved, _ = submitted(boss, "save", products=PRODUCTS)
    assert saved.status == 303
    (folder(harness) / "strange.csv").write_text("x\n")
    assert "strange.csv, row 1: the table has an unknown name" in Read(boss.get("/operator/instruments")).text
    assert "strange.csv" in Read(boss.get(EDIT)).text


def test_saving_needs_a_recent_confirmation_and_keeps_the_text(harness: WebHarness, boss: Member) -> None:
    with unconfirmed():
        reply, _ = submitted(boss, "save", products=PRODUCTS, sessions=HOURS)
        assert reply.status == 422
        assert "Confirm your identity first. Your text stays in this form." in Read(reply).text
        assert texts_of(reply)["products"].replace("\r\n", "\n") == PRODUCTS
        examples = boss.send("/operator/instruments/examples", {"examples": ["FESX"]})
        assert examples.headers["location"].startswith("/confirm?next=/operator/instruments")
    assert not folder(harness).exists()
    assert 'value="FESX" checked' in boss.get("/operator/instruments").text


def test_nobody_else_sees_or_changes_them(harness: WebHarness, boss: Member) -> None:
    ann = Member(harness, "ann@example.com")
    entries = {**texts_of(boss.get(EDIT)), "products": PRODUCTS, "sessions": HOURS, "action": "save"}
    for path in ("/operator/instruments", EDIT, "/operator/instruments/products/ES"):
        assert ann.get(path).status == 403
        assert harness.visitor().get(path).headers["location"].startswith("/sign-in")
    assert ann.send(EDIT, entries).status == 403
    assert ann.send("/operator/instruments/examples", {"examples": "FESX"}).status == 403
    assert harness.visitor().post(EDIT, entries).status in {303, 400}
    assert boss.send(EDIT, {**entries, "csrf": "00" * 40}).status == 400
    assert boss.send(EDIT, {**entries, "action": "other"}).status == 400
    assert not folder(harness).exists()


def test_a_large_table_is_accepted_and_a_huge_one_refused(harness: WebHarness, boss: Member) -> None:
    """Three thousand holidays are more than other forms may have."""
    header = "date,name,applies_to,day,opens,closes,rth_opens,rth_closes,source,checked_on,note\n"
    days = "".join(
        f"{year}-{month:02}-01,a day,6{code},closed,,,,,me,2026-11-23,\n"
        for code in "ESBAJC"
        for year in range(2030, 2072)
        for month in range(1, 13)
    )
    reply, _ = submitted(boss, "check", holidays=header + days)
    assert reply.status == 422
    assert "holidays.csv, row" in Read(reply).text  # some of these days are Saturdays
    assert submitted(boss, "check", holidays=header + "x" * 2_200_000)[0].status == 400


def test_a_disk_that_refuses_to_write_is_named(
    harness: WebHarness, boss: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("outcry.trades.own_tables._write", refuse)
    reply, _ = submitted(boss, "save", products=PRODUCTS, sessions=HOURS)
    assert reply.status == 422
    assert "The tables cannot be written: No space left on device" in Read(reply).text
