"""`/account/brokers` over a real server: the ingest key, pushed feeds, and brokers as their adapters describe them."""

from collections.abc import Iterator

import pytest
from tests.web.account_harness import Member, Read, account_service, show, unconfirmed
from tests.web.broker_harness import GIVEN, ScriptedConnections
from tests.web.harness import WebHarness

from outcry.access.licences import Scope
from outcry.connections.model import ConnectionPhase
from outcry.connections.pushed import PushedConnections
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract


@pytest.fixture(scope="module")
def scripted() -> ScriptedConnections:
    return ScriptedConnections()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, scripted: ScriptedConnections) -> Iterator[WebHarness]:
    with account_service(tmp_path_factory.mktemp("brokers"), connections=scripted) as made:
        yield made


@pytest.fixture(scope="module")
def ann(harness: WebHarness) -> Member:
    return Member(harness, "ann@example.com")


@pytest.fixture(scope="module")
def bob(harness: WebHarness) -> Member:
    return Member(harness, "bob@example.com")


def test_a_key_that_sends_trades_sends_and_does_not_read(harness: WebHarness, ann: Member) -> None:
    refused = ann.send("/account/brokers/key", {"label": "", "lifetime": "365"})
    assert refused.status == 422
    assert "Enter a name for the key" in Read(refused).text
    page = ann.follow(ann.send("/account/brokers/key", {"label": "Replay box", "lifetime": "365"}))
    begin = page.text.index('id="key">') + len('id="key">')
    key = page.text[begin : page.text.index("<", begin)]
    assert f"OUTCRY_KEY={key} outcry replay FILE" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert ann.get("/account/brokers/key-made").headers["location"] == "/account/brokers?done=shown"
    row = next(row for row in harness.installation.keys.list() if row.prefix == key[:15])
    assert (row.role, row.label) == ("ingest", "Replay box")
    rotated = ann.follow(ann.send(f"/account/keys/{row.id}/rotate", {"grace": "24h"}))
    assert "outcry replay FILE" in rotated.text
    assert "curl" not in rotated.text
    assert "Replay box" in Read(ann.get("/account/brokers")).text
    assert key not in ann.get("/account/brokers").text
    with unconfirmed():
        again = ann.send("/account/brokers/key", {"label": "Another", "lifetime": "30"})
        assert again.headers["location"] == "/confirm?next=/account/brokers"
    assert Read(ann.get("/account/brokers")).entry("label") == "Another"


def test_a_user_sees_the_own_feeds_and_no_others(harness: WebHarness, ann: Member, bob: Member) -> None:
    registry = harness.installation.registry
    show(registry, ann.user.id, "desk-replay", Contract("ES", 2026, 3), "live")
    show(registry, ann.user.id, "desk-replay", Contract("NQ", 2026, 3), "stale_link")
    show(registry, bob.user.id, "bobs-feed", Contract("CL", 2026, 4), "own_refusal")
    show(registry, 0, "house-feed", Contract("GC", 2026, 4), "live")
    page = Read(ann.get("/account/brokers")).text
    for part in (
        "desk-replay",
        "Your own program",
        "ESH2026",
        "NQH2026",
        "ES NQ",
        "no data or heartbeat for 15 seconds",
    ):
        assert part in page
    for part in ("bobs-feed", "CLJ2026", "house-feed", "GCJ2026"):
        assert part not in page
    bobs = Read(bob.get("/account/brokers")).text
    assert "own_refusal" in bobs
    assert "desk-replay" not in bobs
    (row,) = PushedConnections(registry).connections(ann.user.id)
    assert (row.phase, row.symbols) == (ConnectionPhase.LIVE, ("ES", "NQ"))
    assert ann.get(f"/account/brokers/{row.id}/disconnect").status == 404
    registry.drop(StreamKey(ann.user.id, "desk-replay", Contract("ES", 2026, 3)))
    (row,) = PushedConnections(registry).connections(ann.user.id)
    assert (row.phase, row.code) == (ConnectionPhase.DEGRADED, "stale_link")


def test_an_agent_says_itself_why_nothing_comes(harness: WebHarness, ann: Member) -> None:
    """Its feeds stand under their brokers' names; a refused login is mended by signing in, anything else passes."""
    registry = harness.installation.registry
    show(registry, ann.user.id, "ibkr", Contract("ES", 2026, 3), "unsubscribed")
    (seen,) = (one for one in registry.channels(Scope(ann.user.id, ())) if one.channel.key.feed == "ibkr")
    for told, phase, said in (
        ("login_refused", ConnectionPhase.NEEDS_SIGN_IN, "rejected the credentials"),
        ("agent_stopped", ConnectionPhase.DEGRADED, "The agent on your computer was stopped."),
        ("", ConnectionPhase.DEGRADED, "does not send"),
    ):
        seen.channel.feed_code = told
        (row,) = (row for row in PushedConnections(registry).connections(ann.user.id) if row.label == "ibkr")
        assert (row.phase, row.code) == (phase, told or "unsubscribed")
        assert said in Read(ann.get("/account/brokers")).text
    registry.drop(seen.channel.key)


def test_ways_to_connect_say_what_each_broker_needs(ann: Member) -> None:
    page = ann.get("/account/brokers")
    text = Read(page).text
    assert 'href="/account/brokers/connect/acme"' in page.text
    assert "/account/brokers/connect/homely" not in page.text
    assert "/account/brokers/connect/away" not in page.text
    assert "pip install 'openoutcry[away]'" in text
    for part in ('broker = "homely"', 'port = "7496"', f'service = "http://127.0.0.1:{ann.harness.port}"'):
        assert part in text
    for broker in ("homely", "away"):
        assert ann.get(f"/account/brokers/connect/{broker}").status == 404
        assert ann.send(f"/account/brokers/connect/{broker}", GIVEN).status == 404


def test_a_feed_the_agent_sends_is_that_brokers(harness: WebHarness, ann: Member) -> None:
    key = StreamKey(ann.user.id, "homely", Contract("ES", 2026, 3))
    show(harness.installation.registry, ann.user.id, "homely", Contract("ES", 2026, 3), "not_entitled")
    page = ann.get("/account/brokers")
    assert 'broker = "homely"' not in page.text
    assert "Subscribe to the exchange" in Read(page).text
    harness.installation.registry.drop(key)


def test_a_broker_is_connected_and_its_secrets_are_never_shown(
    harness: WebHarness, scripted: ScriptedConnections, ann: Member
) -> None:
    with unconfirmed():
        reply = ann.get("/account/brokers/connect/acme")
        assert reply.headers["location"] == "/confirm?next=/account/brokers/connect/acme"
    form = ann.get("/account/brokers/connect/acme")
    assert "Acme &lt;Futures&gt;" in form.text
    assert 'type="password"' in form.text
    assert Read(form).entry("app") == "Outcry"
    for wrong, field in (
        ({"password": "wrong horse"}, "password"),
        ({"user": ""}, "user"),
        ({"market": "Mars"}, "market"),
        ({"label": "x" * 61}, "label"),
        ({"roots": []}, "roots"),
        ({"roots": ["ES", "XX"]}, "roots"),
        ({"roots": ["ES", "MES"]}, "roots"),
    ):
        reply = ann.send("/account/brokers/connect/acme", {**GIVEN, **wrong})
        assert reply.status == 422
        assert f'href="#f-{field}"' in reply.text
        assert "horse" not in reply.text
        if field != "user":
            assert Read(reply).entry("user") == "ann"
        if field != "roots":
            assert Read(reply).entries("roots") == ["ES", "NQ"]
    with unconfirmed():
        reply = ann.send("/account/brokers/connect/acme", GIVEN)
        assert reply.headers["location"] == "/confirm?next=/account/brokers/connect/acme"
    assert not scripted.rows
    page = ann.follow(ann.send("/account/brokers/connect/acme", {**GIVEN, "app": ""}))
    assert "Connecting." in Read(page).text
    assert "…orse" in Read(page).text
    for reply in (page, ann.get("/account/brokers"), ann.get("/account/log")):
        assert "correct" not in reply.text
        assert "horse" not in reply.text
    assert "Connecting" in Read(page).text
    assert b"horse" not in harness.log.getvalue()
    again = ann.send("/account/brokers/connect/acme", GIVEN)
    assert again.status == 422
    assert "<li>This broker is already connected" in again.text
    (row,) = scripted.rows.values()
    assert (row.label, row.symbols, row.broker) == ("Mine", ("ES", "NQ"), "acme")
    assert scripted.given[:1] == [{"user": "ann", "password": "correct horse", "market": "CME", "app": ""}]


def test_what_was_typed_but_secrets_outlives_the_confirmation(ann: Member) -> None:
    with unconfirmed():
        ann.send("/account/brokers/connect/acme", {**GIVEN, "user": "second account", "roots": ["GC"]})
    page = ann.get("/account/brokers/connect/acme")
    assert Read(page).entry("user") == "second account"
    assert Read(page).entry("market") == "CME"
    assert Read(page).entries("roots") == ["GC"]
    assert "horse" not in page.text


def test_somebody_elses_connection_does_not_exist(
    scripted: ScriptedConnections, ann: Member, bob: Member
) -> None:
    (number,) = scripted.rows
    before = dict(scripted.rows)
    for step in ("", "/disconnect", "/renew"):
        assert bob.get(f"/account/brokers/{number}{step}").status == 404
    for step in ("", "/disconnect", "/renew", "/pause", "/resume", "/check"):
        assert bob.send(f"/account/brokers/{number}{step}", GIVEN).status == 404
    assert scripted.rows == before
    assert "Mine" not in Read(bob.get("/account/brokers")).text
    assert ann.get("/account/brokers/connect/nobody").status == 404
    assert ann.send("/account/brokers/connect/nobody", GIVEN).status == 404


def test_a_broker_is_disconnected(scripted: ScriptedConnections, ann: Member) -> None:
    (number,) = scripted.rows
    assert "Mine" in Read(ann.get(f"/account/brokers/{number}/disconnect")).text
    assert scripted.rows
    reply = ann.send(f"/account/brokers/{number}/disconnect")
    assert reply.headers["location"] == "/account/brokers?done=disconnected"
    assert not scripted.rows
    assert ann.get(f"/account/brokers/{number}").status == 404
    log = Read(ann.get("/account/log")).text
    assert "Broker connected" in log
    assert "Broker disconnected" in log


def test_no_page_of_this_had_a_fault(harness: WebHarness) -> None:
    assert harness.faults() == []
