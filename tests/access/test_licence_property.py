"""One user's data never appears in an answer to another user's key.

Random owners, recordings, feeds, grants, keys and requests are compared with an oracle written from the rules
(`tests.licence_model`), through every cache and in random order.
"""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.harness import SERVER_SECRET, build_harness, known, served
from tests.licence_model import CONTRACTS, DAYS, FEED_STATES, OPERATOR, TIERS, LicenceModel, prices_in
from tests.sample_live_session import NOW_NS, REFERENCE

from outcry.access.keys import ApiKeys
from outcry.access.licences import Licences, Scope
from outcry.access.model import KeyRow
from outcry.answers.query import Query
from outcry.answers.streaming import AlertFilter, AlertTail
from outcry.base.errors import NoLicensedSource, NotFound

USERS = 3
ROOTS = tuple(CONTRACTS)
HOUR = 3600 * 10**9


class Clock:
    def __init__(self, model: LicenceModel) -> None:
        self._model = model

    def now_ns(self) -> int:
        return self._model.now_ns


class Service:
    """The query services over a licence model."""

    def __init__(self, model: LicenceModel, tiers: list[str]) -> None:
        self.model = model
        sessions: Any = model
        alerts: Any = model.archive
        self.query = Query(sessions, REFERENCE.universe, REFERENCE.calendar, model.registry, alerts)
        self.licences = Licences(model.accounts)  # type: ignore[arg-type]
        self.tail = AlertTail(model.registry, alerts)
        api_keys = ApiKeys(model.accounts, SERVER_SECRET, Clock(model))  # type: ignore[arg-type]
        for number, tier in enumerate(tiers):
            api_keys.create(f"user{number % USERS}@example.com", tier, NOW_NS)  # type: ignore[arg-type]
        self.keys = list(model.accounts.rows)

    def scope(self, key: KeyRow) -> Scope:
        self.licences.refresh(self.model.now_ns, force=True)
        return self.licences.scope(key)


def plain(answer: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(answer))


# -- queries: each compares its answer with the oracle


def ask_levels(service: Service, key: KeyRow, root: str) -> Any:
    model, wanted = service.model, service.model.answer(key, root)
    try:
        found = plain(service.query.levels(service.scope(key), root, model.now_ns).answer)
    except NoLicensedSource as refusal:
        details = refusal.details
    else:
        return _check_levels(found, wanted)
    reasons, until_ns = model.reasons(key, root)
    assert (wanted, details["reasons"]) == (None, reasons)
    assert ("embargo_until" in details) == (until_ns is not None)
    return None


def _check_levels(found: Any, wanted: Any) -> Any:
    assert wanted is not None
    price = found["lastPrice"] if found["live"] else found["prior"]["poc"]
    assert (found["dataSource"], found["asOf"], price) == wanted
    assert found["live"] == (wanted[0] != "delayed")
    return found


def ask_context(service: Service, key: KeyRow, root: str) -> Any:
    wanted = service.model.answer(key, root)
    try:
        found = plain(service.query.context(service.scope(key), root, service.model.now_ns).answer)
    except NoLicensedSource:
        assert wanted is None
        return None
    assert wanted is not None
    assert (found["dataSource"], found["asOf"]) == wanted[:2]
    return found


def ask_profile(service: Service, key: KeyRow, root: str) -> Any:
    """Compare the profiles of completed days, which are never answered live."""
    model, sessions = service.model, service.model.completed(key, root)
    for day in DAYS:
        wanted = next((one.price for one in sessions if one.day == day), None)
        try:
            found = plain(service.query.profile(service.scope(key), root, str(day), model.now_ns).answer)
        except NoLicensedSource:
            assert not sessions
        except NotFound:
            assert sessions
            assert wanted is None
        else:
            assert found["levels"]["poc"] == wanted
            assert prices_in(found) <= model.visible_prices(key)
    try:
        return plain(service.query.profile(service.scope(key), root, None, model.now_ns).answer)
    except NoLicensedSource:
        assert model.answer(key, root) is None
        return None


def ask_history(service: Service, key: KeyRow, root: str) -> Any:
    model, sessions = service.model, service.model.completed(key, root)
    try:
        found = plain(service.query.history(service.scope(key), root, None, None, model.now_ns).answer)
    except NoLicensedSource:
        assert not sessions
        return None
    assert [(one["date"], one["poc"]) for one in found["sessions"]] == [
        (str(one.day), one.price) for one in sessions
    ]
    return found


def ask_chart(service: Service, key: KeyRow, root: str) -> Any:
    model = service.model
    try:
        found = plain(service.query.chart(service.scope(key), root, 60, model.now_ns).answer)
    except NoLicensedSource:
        assert model.answer(key, root) is None
        return None
    completed = {one.price for one in model.completed(key, root)}
    feed = model.live_feed(key, root)
    assert completed | ({feed.price} if feed else set()) <= prices_in(found)
    return found


def ask_symbols(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.symbols(service.scope(key), service.model.now_ns).answer)
    states = {one["symbol"]: (one["dataSource"], one["asOf"]) for one in found["symbols"]}
    for each in ROOTS:
        assert states[each] == (service.model.answer(key, each) or (None, None))[:2]
    return found


def ask_scan(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.scan(service.scope(key), service.model.now_ns))
    assert any(prices_in(row) for row in found) == any(
        service.model.answer(key, each) or service.model.completed(key, each) for each in ROOTS
    )
    return found


def ask_alerts(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.alerts(service.scope(key), None, service.model.now_ns).answer)
    assert [one["price"] for one in found["alerts"]] == service.model.current_alert_prices(key)
    return found


def ask_alerts_of_one(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.alerts(service.scope(key), root, service.model.now_ns).answer)
    assert {one["symbol"] for one in found["alerts"]} <= {root}
    return found


def ask_alerts_history(service: Service, key: KeyRow, root: str) -> Any:
    history = service.query.alerts_history
    found = plain(
        history(service.scope(key), None, None, None, None, None, None, service.model.now_ns).answer
    )
    assert [one["price"] for one in found["alerts"]] == service.model.all_alert_prices(key)
    return found


def ask_stream(service: Service, key: KeyRow, root: str) -> Any:
    """Compare the first alerts of an event stream, and those replayed after a reconnection."""
    scope, model = service.scope(key), service.model
    wanted = AlertFilter(REFERENCE.universe, scope, None)
    rows, _ = service.tail.current(scope, wanted)
    assert [row.price_e9 // 10**9 for row in rows] == model.current_alert_prices(key)
    missed = service.tail.after(scope, wanted, 0)
    assert missed is not None
    replayed = {row.price_e9 // 10**9 for row in missed.rows}
    assert replayed <= set(model.all_alert_prices(key))
    assert replayed >= {
        one.alert.price_e9 // 10**9 for one in model.feeds if model.may_see_feed(key, one.owner, one.root)
    }
    seen = service.query.watch(scope, root, model.now_ns).seen
    feed = model.live_feed(key, root)
    assert (seen.channel.key.owner if seen else None) == (feed.owner if feed else None)
    return sorted(replayed)


QUESTIONS: tuple[Callable[[Service, KeyRow, str], Any], ...] = (
    ask_levels, ask_context, ask_profile, ask_history, ask_chart, ask_symbols, ask_scan, ask_alerts, ask_alerts_of_one,
    ask_alerts_history, ask_stream,
)  # fmt: skip


# -- random changes


def change(model: LicenceModel, chance: random.Random) -> None:
    """Make a random change: advance time, record a day, change a feed, or create or revoke a grant."""
    owner, root = chance.randrange(USERS + 1), chance.choice(ROOTS)
    kind = chance.randrange(12)
    if kind < 4:
        model.record(owner, root, chance.choice(DAYS), complete=chance.random() < 0.8)
    elif kind < 7:
        model.connect(owner, root, chance.choice((*FEED_STATES, "live", "live")))
    elif kind < 10:
        grantee = chance.choice(
            [
                "everyone",
                f"tier:{chance.choice(TIERS)}",
                f"user:{chance.randint(1, USERS)}",
                f"key:{chance.randint(1, 5)}",
            ]
        )
        roots = chance.sample(ROOTS, chance.randrange(3))
        live = chance.random() < 0.5
        first = None if live else chance.choice([None, *DAYS])
        model.grant(grantee, "live" if live else "completed", roots, chance.choice([0, 24, 48, 96]), first)
    elif kind == 10 and model.feeds:
        model.disconnect(chance.choice(model.feeds))
    elif model.accounts.grants():
        model.accounts.revoke_grant(chance.choice(model.accounts.grants()).id, model.now_ns)
    # whole hours reach the exact end of an embargo; all times stay before midnight, when symbols would resolve anew
    model.now_ns += chance.choice([0, 0, HOUR, chance.randrange(HOUR)])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(TIERS), min_size=5, max_size=5))
def test_answers_contain_exactly_what_the_licences_allow(seed: int, tiers: list[str]) -> None:
    chance, model = random.Random(seed), LicenceModel()
    service = Service(model, tiers)
    for _ in range(chance.randrange(4, 14)):
        change(model, chance)
    for _ in range(40):
        if chance.random() < 0.2:
            change(model, chance)
        key, root, ask = chance.choice(service.keys), chance.choice(ROOTS), chance.choice(QUESTIONS)
        found = ask(service, key, root)
        assert prices_in(found) <= model.visible_prices(key), (ask.__name__, key.id, root)


# -- the same over HTTP, with its caches


PATHS = (
    "/api/levels?symbol={}", "/api/context?symbol={}", "/api/profile?symbol={}", "/api/history?symbol={}",
    "/api/chart?symbol={}", "/api/symbols", "/api/alerts", "/api/alerts?symbol={}", "/api/alerts/history",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_cached_answer_is_not_served_to_a_key_with_other_licences(seed: int) -> None:
    chance, model = random.Random(seed), LicenceModel()
    sessions: Any = model
    alerts: Any = model.archive

    def query(_: object) -> Query:
        return Query(sessions, REFERENCE.universe, REFERENCE.calendar, model.registry, alerts)

    harness = build_harness(query, model.registry, {"universe": REFERENCE.universe, "alerts": alerts})
    model.accounts = harness.accounts
    harness.clock.at_ns = model.now_ns
    keys = [harness.key(chance.choice(TIERS), f"user{number % USERS}@example.com") for number in range(5)]  # type: ignore[arg-type]
    for _ in range(14):
        change(model, chance)
    with served(harness):
        for _ in range(6):
            change(model, chance)
            harness.clock.at_ns = model.now_ns = model.now_ns + 61 * 10**9
            harness.steady.at_ns += 61 * 10**9
            known(harness)
            for _ in range(25):
                number, root = chance.randrange(len(keys)), chance.choice(ROOTS)
                path = chance.choice(PATHS).format(root)
                reply = harness.get(path, keys[number])
                body, row = json.loads(reply.body), harness.accounts.rows[number]
                assert reply.status in (200, 409), (path, body)
                assert prices_in(body) <= model.visible_prices(row), (path, number)
                if path.startswith("/api/levels"):
                    _check_http_levels(model, row, root, body)
                elif path == "/api/alerts":
                    assert [one["price"] for one in body["alerts"]] == model.current_alert_prices(row)


def _check_http_levels(model: LicenceModel, row: KeyRow, root: str, body: Any) -> None:
    wanted = model.answer(row, root)
    if wanted is not None:
        price = body["lastPrice"] if body["live"] else body["prior"]["poc"]
        assert (body["dataSource"], body["asOf"], price) == wanted
        return
    reasons, until_ns = model.reasons(row, root)
    assert (body["code"], body["reasons"]) == ("no_licensed_source", reasons)
    if until_ns is None:
        assert "embargo_until" not in body
    else:
        at = datetime.fromisoformat(body["embargo_until"])
        assert at == datetime.fromtimestamp(until_ns // 10**9, UTC)


def test_the_oracle_distinguishes_owners_in_a_case_worked_by_hand() -> None:
    """Expected answers are worked by hand, because oracle and program could share an error."""
    model = LicenceModel()
    service = Service(model, ["free", "pro", "free", "free", "free"])  # of users 1, 2, 3, 1, 2
    ann, bob, cid, ann_too, _ = service.keys
    bobs_recording = model.record(2, "ES", DAYS[0])
    shared_recording = model.record(OPERATOR, "ES", DAYS[0])
    older = model.record(OPERATOR, "ES", DAYS[1])
    assert ask_levels(service, ann, "ES") is None
    assert ask_levels(service, bob, "ES")["prior"]["poc"] == bobs_recording.price
    model.grant("tier:pro", "completed", [], 0, None)
    assert ask_levels(service, bob, "ES")["prior"]["poc"] == bobs_recording.price  # the user's own first
    assert [one["poc"] for one in ask_history(service, bob, "ES")["sessions"]] == [
        older.price,
        bobs_recording.price,
    ]
    model.grant("key:4", "completed", ["ES"], 24, None)
    assert ask_levels(service, ann, "ES") is None  # the grant is for another key of the same user
    assert ask_levels(service, ann_too, "ES")["prior"]["poc"] == older.price  # Monday's is a day old at 21:15
    model.now_ns += HOUR
    assert ask_levels(service, ann_too, "ES")["prior"]["poc"] == shared_recording.price
    feed = model.connect(2, "ES", "live")
    assert ask_levels(service, bob, "ES")["dataSource"] == "personal"
    assert ask_levels(service, ann_too, "ES")["dataSource"] == "delayed"
    model.connect(OPERATOR, "ES", "live")
    model.grant("user:3", "live", ["ES"], 0, None)
    assert ask_levels(service, cid, "ES")["dataSource"] == "shared"
    assert ask_levels(service, bob, "ES")["lastPrice"] == feed.price
    feed.change_state("disconnected")
    assert ask_levels(service, bob, "ES")["dataSource"] == "delayed"
