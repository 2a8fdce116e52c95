"""`/account/brokers/{id}` over a real server: status of a connection, its actions, and its check."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.timeouts import wait_until
from tests.web.account_harness import Member, Read, account_service, show, unconfirmed
from tests.web.broker_harness import FOUND, GIVEN, ScriptedConnections
from tests.web.harness import WebHarness
from tests.web.texts import all_texts, translated

import outcry.feeds
from outcry.access.licences import Scope
from outcry.answers.wording import STATES
from outcry.connections.model import CheckStep, ConnectionPhase, ConnectionRow, Finding
from outcry.database.errors import StoreBusy
from outcry.feeds.adapters import adapters
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract
from outcry.web.account.broker_forms import OURS
from outcry.web.account.feed_words import connection_state, explained, found, next_step
from outcry.web.account.vendor_words import CODES, VENDORS, cure_of, guide_address
from outcry.web.guide.page import SOURCES
from outcry.web.language import LANGUAGES, Languages

ANN, NUMBER = 1, 7
PLACE = f"/account/brokers/{NUMBER}"
#: Stable codes of the feed port, as adapters give them.
OF_ADAPTERS = (
    "disconnected", "unreachable", "link_silent", "seam_overflow", "rate_limited", "vendor_error", "protocol",
    "login_refused", "login_expired", "not_entitled", "unknown_contract", "too_many_sessions", "not_allowed",
    "wrong_entry", "unsubscribed",
)  # fmt: skip


@pytest.fixture(scope="module")
def scripted() -> ScriptedConnections:
    return ScriptedConnections()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, scripted: ScriptedConnections) -> Iterator[WebHarness]:
    with account_service(tmp_path_factory.mktemp("broker"), connections=scripted) as made:
        yield made


@pytest.fixture(scope="module")
def ann(harness: WebHarness) -> Member:
    return Member(harness, "ann@example.com")


@pytest.fixture
def row(scripted: ScriptedConnections, ann: Member) -> ConnectionRow:
    """One that runs, checked never before."""
    scripted.rows.clear()
    scripted.findings, scripted.check_fails, scripted.held = FOUND, None, False
    return scripted.put(made(ann.user.id))


def made(
    user_id: int = ANN, phase: ConnectionPhase = ConnectionPhase.LIVE, code: str = "live"
) -> ConnectionRow:
    return ConnectionRow(NUMBER, user_id, "acme", "Desk", phase, code, 10**18, ("ES", "NQ"), "c0de")


@pytest.mark.parametrize(
    ("phase", "code", "expected", "buttons"),
    [
        (ConnectionPhase.CONNECTING, "connecting", "(delayed) unless another feed", {"pause"}),
        (ConnectionPhase.CONNECTING, "unreachable", "can't be reached", {"pause"}),
        (ConnectionPhase.CATCHING_UP, "catching_up", "the earlier trades", {"pause"}),
        (ConnectionPhase.LIVE, "live", "are live while", {"pause"}),
        (ConnectionPhase.LIVE, "no_prior", "Import an earlier session.", {"pause"}),
        (ConnectionPhase.DEGRADED, "not_entitled", "The others are delayed", {"pause"}),
        (ConnectionPhase.NEEDS_SIGN_IN, "login_refused", "After two rejections", {"resume", "renew"}),
        (ConnectionPhase.FAILED, "too_many_sessions", "Close the others", {"resume"}),
        (ConnectionPhase.PAUSED, "paused", "Paused.", {"resume"}),
    ],
)
def test_a_connection_says_how_it_stands_and_what_to_do(
    scripted: ScriptedConnections, ann: Member, row: ConnectionRow, phase: ConnectionPhase, code: str, expected: str,
    buttons: set[str],
) -> None:  # fmt: skip
    scripted.move(row.id, phase, code)
    for place in (PLACE, "/account/brokers"):
        page = ann.get(place)
        assert expected in Read(page).text
        for button in ("pause", "resume"):
            assert (f'action="{PLACE}/{button}"' in page.text) == (button in buttons), (place, button)
        assert (f'class="button first small" href="{PLACE}/renew"' in page.text) == (
            "renew" in buttons and place != PLACE
        )


def test_streams_are_told_with_what_the_vendor_refuses(
    harness: WebHarness, ann: Member, row: ConnectionRow
) -> None:
    show(harness.installation.registry, ann.user.id, "acme", Contract("ES", 2026, 3), "live")
    show(harness.installation.registry, ann.user.id, "acme", Contract("NQ", 2026, 3), "not_entitled")
    show(harness.installation.registry, ann.user.id, "another", Contract("CL", 2026, 4), "live")
    show(harness.installation.registry, 0, "acme", Contract("GC", 2026, 4), "live")
    show(harness.installation.registry, ann.user.id, "acme", Contract("GC", 2026, 4), "unsubscribed")
    gold = StreamKey(ann.user.id, "acme", Contract("GC", 2026, 4))
    seen = harness.installation.registry.channels(Scope(ann.user.id, ()), "GC")
    next(one.channel for one in seen if one.channel.key == gold).feed_code = "too_many_sessions"
    text = Read(ann.get(PLACE)).text
    assert "Too many programs are using the account" in text
    harness.installation.registry.drop(gold)
    text = Read(ann.get(PLACE)).text
    for part in ("ESH2026", "NQH2026", "real-time data", "1 of 2"):
        assert part in text
    assert "CLJ2026" not in text
    assert "GCJ2026" not in text


def test_it_is_paused_and_resumed(
    harness: WebHarness, scripted: ScriptedConnections, ann: Member, row: ConnectionRow
) -> None:
    reply = ann.send(f"{PLACE}/pause")
    assert reply.headers["location"] == f"{PLACE}?done=paused"
    assert scripted.rows[NUMBER].phase is ConnectionPhase.PAUSED
    assert "Connection paused" in Read(ann.follow(reply)).text
    assert "Reconnecting" in Read(ann.follow(ann.send(f"{PLACE}/resume"))).text
    assert scripted.rows[NUMBER].phase is ConnectionPhase.CONNECTING
    log = Read(ann.get("/account/log")).text
    assert "Connection paused" in log
    assert "Connection restarted" in log
    for step in ("pause", "resume", "check"):
        assert ann.get(f"{PLACE}/{step}").headers["location"] == PLACE


def test_symbols_and_name_are_changed(scripted: ScriptedConnections, ann: Member, row: ConnectionRow) -> None:
    page = ann.get(PLACE)
    assert Read(page).entries("roots") == ["ES", "NQ"]
    assert Read(page).entry("label") == "Desk"
    for wrong, field in (
        ({"roots": []}, "roots"),
        ({"roots": ["XX"]}, "roots"),
        ({"label": "x" * 61}, "label"),
    ):
        reply = ann.send(PLACE, {"roots": ["GC"], "label": "Gold", **wrong})
        assert reply.status == 422
        assert f'href="#f-{field}"' in reply.text
    assert scripted.rows[NUMBER].symbols == ("ES", "NQ")
    reply = ann.send(PLACE, {"roots": ["GC", "SI"], "label": "Metals"})
    assert reply.headers["location"] == f"{PLACE}?done=saved"
    assert (scripted.rows[NUMBER].symbols, scripted.rows[NUMBER].label) == (("GC", "SI"), "Metals")
    assert "GC SI" in Read(ann.get("/account/log")).text


def test_new_credentials_are_entered_whole_and_never_shown(
    harness: WebHarness, scripted: ScriptedConnections, ann: Member, row: ConnectionRow
) -> None:
    place = f"{PLACE}/renew"
    with unconfirmed():
        assert ann.get(place).headers["location"] == f"/confirm?next={place}"
        assert ann.send(place, GIVEN).headers["location"] == f"/confirm?next={place}"
    scripted.move(NUMBER, ConnectionPhase.NEEDS_SIGN_IN, "login_refused")
    form = ann.get(place)
    assert "…c0de" in Read(form).text
    assert Read(form).entry("user") == "ann", "what was typed before the confirmation"
    assert Read(ann.get(place)).entry("user") == ""
    for wrong, field in (
        ({"password": ""}, "password"),
        ({"password": "wrong horse"}, "password"),
        ({"market": ""}, "market"),
    ):
        reply = ann.send(place, {**GIVEN, **wrong})
        assert reply.status == 422
        assert f'href="#f-{field}"' in reply.text
        assert "horse" not in reply.text
    assert scripted.rows[NUMBER].phase is ConnectionPhase.NEEDS_SIGN_IN
    page = ann.follow(ann.send(place, {**GIVEN, "password": "correct pony"}))
    assert "Credentials saved" in Read(page).text
    assert "…pony" in Read(page).text
    assert scripted.given[-1]["password"] == "correct pony"
    for reply in (page, ann.get("/account/log")):
        assert "correct" not in reply.text
    assert b"pony" not in harness.log.getvalue()
    assert "Connection credentials updated" in Read(ann.get("/account/log")).text


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks as often as a test likes."""
    monkeypatch.setattr("outcry.web.account.broker_checking._CHECKS", 100)


def checked(ann: Member) -> str:
    """Wait for the check that was begun; the page with what it found."""
    wait_until(lambda: "Results appear here" not in ann.get(PLACE).text)
    return ann.get(PLACE).text


def test_a_check_tells_what_is_missing(
    scripted: ScriptedConnections, ann: Member, row: ConnectionRow, often: None
) -> None:
    scripted.held = True
    assert ann.send(f"{PLACE}/check").headers["location"] == f"{PLACE}#check"
    assert "Results appear here within 30 seconds" in ann.get(PLACE).text
    assert ann.send(f"{PLACE}/check").headers["location"] == f"{PLACE}?done=under_way"
    scripted.held = False
    page = checked(ann)
    for part in (
        "1 problem found",
        "NQH2026",
        "Individual trades",
        "Not tested",
        'href="/broker-guide#vendor-not_entitled"',
    ):
        assert part in page
    wait_until(lambda: "Connection checked" in Read(ann.get("/account/log")).text)
    assert "not_entitled" in Read(ann.get("/account/log")).text
    scripted.findings = FOUND[:4]
    ann.send(f"{PLACE}/check")
    assert "No problems found" in checked(ann)


@pytest.mark.parametrize("problem", [StoreBusy("away"), RuntimeError("a fault of ours"), None])
def test_a_check_that_comes_to_no_end_says_so(
    harness: WebHarness, scripted: ScriptedConnections, ann: Member, row: ConnectionRow, often: None,
    problem: Exception | None,
) -> None:  # fmt: skip
    scripted.check_fails, scripted.findings = problem, None
    ann.send(f"{PLACE}/check")
    assert "did not finish" in checked(ann)
    faults = [fault for fault in harness.faults() if "broker_check_failed" in fault]
    assert bool(faults) == isinstance(problem, RuntimeError)
    harness.log.truncate(0)
    harness.log.seek(0)


def test_checks_are_counted(ann: Member, row: ConnectionRow) -> None:
    while ann.send(f"{PLACE}/check").headers["location"] == f"{PLACE}#check":
        checked(ann)
    reply = ann.send(f"{PLACE}/check")
    assert reply.headers["location"] == f"{PLACE}?done=often"
    assert "vendors limit" in Read(ann.follow(reply)).text


def test_the_account_says_what_waits_for_its_owner(
    scripted: ScriptedConnections, ann: Member, row: ConnectionRow
) -> None:
    assert "attention" not in Read(ann.get("/account")).text
    scripted.move(row.id, ConnectionPhase.FAILED, "not_entitled")
    assert "1 needs attention" in Read(ann.get("/account")).text


def test_an_operator_sees_how_many_stand_how_and_nothing_else(
    harness: WebHarness, scripted: ScriptedConnections, row: ConnectionRow
) -> None:
    scripted.put(replace(row, id=8, phase=ConnectionPhase.NEEDS_SIGN_IN, label="Very private"))
    scripted.put(replace(row, id=9, phase=ConnectionPhase.NEEDS_SIGN_IN))
    page = Read(Member(harness, "boss@example.com", operator=True).get("/operator/feeds")).text
    assert "Sign-in required 2" in page
    assert "Connected 1" in page
    for private in ("Very private", "c0de", "Desk"):
        assert private not in page


# -- words


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_every_broker_asks_in_every_language(language: str) -> None:
    english = Languages.words("en")
    known = translated(language)
    for adapter in adapters().values():
        for field in adapter.broker.fields:
            assert field.name not in OURS
            for text in filter(None, (field.label, field.hint)):
                assert text in known, f"{adapter.broker.id}: {text}"
                assert english(text) == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_code_of_a_connection_has_words_and_a_remedy(language: str) -> None:
    words = Languages.words(language)
    assert set(OF_ADAPTERS) <= CODES
    for code in CODES:
        explanation = explained(words, made(phase=ConnectionPhase.FAILED, code=code))
        assert explanation.means
        assert explanation.cure, code
        assert f"({code})" not in explanation.means
    for code in STATES:
        assert f"({code})" not in connection_state(words, made(code=code)).reason
    refused = found(
        words, "acme", Finding(CheckStep.SUBSCRIBED, "ESH2026", passed=False, code="not_entitled")
    )
    assert refused.cure
    assert next_step(words, "login_refused") is not None


def test_every_broker_has_its_part_of_the_guide(harness: WebHarness) -> None:
    """Every code leads to a place that is there."""
    page = harness.visitor().get("/broker-guide").text
    assert set(adapters()) <= {source.id for source in SOURCES}
    assert set(adapters()) == VENDORS
    for broker in adapters():
        assert f'id="{broker}"' in page
        for code in {*OF_ADAPTERS, *STATES}:
            anchor = guide_address(broker, code).partition("#")[2]
            assert f'id="{anchor}"' in page, (broker, code)
            assert code in STATES or cure_of(Languages.words("en"), broker, code)


def raised_by(folder: Path) -> set[str]:
    """Codes an adapter's package raises or tells, as they stand in its source."""
    calls = (
        node
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    )
    found: set[str] = set()
    for call in calls:
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if name in {"FeedLost", "FeedRefused", "LoginRefused", "Rejected"} and call.args:
            found |= {each.value for each in call.args[:1] if isinstance(each, ast.Constant)}
        if name == "Status":
            found |= {
                each.value.value
                for each in call.keywords
                if each.arg == "code" and isinstance(each.value, ast.Constant)
            }
    return found


@pytest.mark.parametrize("broker", sorted(VENDORS))
def test_every_code_of_an_adapter_has_words(broker: str) -> None:
    raised = raised_by(Path(outcry.feeds.__file__).parent / broker)
    assert {"disconnected", "protocol"} <= raised
    assert raised - CODES <= {"subscribed", "closed"}, "the first is no trouble, the second nobody sees"


def test_texts_of_brokers_are_looked_for() -> None:
    assert any(place.startswith("account/vendor_words.py") for _, place in all_texts())


def test_no_page_of_this_had_a_fault(harness: WebHarness) -> None:
    assert harness.faults() == []
