"""One user's data never answers another's key: random owners, recordings, feeds, grants, keys and questions, against an
oracle written from the rules (`tests.licence_world`), through every cache, in whatever order they ask."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.harness import SERVER_SECRET, build_stage, known, served
from tests.licence_world import CONTRACTS, DAYS, OPERATOR, STANDINGS, TIERS, World, prices_in
from tests.live_views import NOW_NS, REFERENCE

from outcry.access.keys import ApiKeys, Licences
from outcry.access.licences import Scope
from outcry.access.model import KeyRow
from outcry.answers.query import Query
from outcry.answers.streaming import AlertFilter, AlertTail
from outcry.base.errors import NoLicensedSource, NotFound

USERS = 3
ROOTS = tuple(CONTRACTS)
HOUR = 3600 * 10**9


class Clock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now_ns(self) -> int:
        return self._world.now_ns


class Service:
    """The services over a world, as every key asks them."""

    def __init__(self, world: World, tiers: list[str]) -> None:
        self.world = world
        sessions: Any = world
        alerts: Any = world.archive
        self.query = Query(sessions, REFERENCE.universe, REFERENCE.calendar, world.registry, alerts)
        self.licences = Licences(world.accounts)  # type: ignore[arg-type]
        self.tail = AlertTail(world.registry, alerts)
        ring = ApiKeys(world.accounts, SERVER_SECRET, Clock(world))  # type: ignore[arg-type]
        for number, tier in enumerate(tiers):
            ring.create(f"user{number % USERS}@example.com", tier, NOW_NS)  # type: ignore[arg-type]
        self.keys = list(world.accounts.rows)

    def scope(self, key: KeyRow) -> Scope:
        self.licences.refresh(self.world.now_ns, force=True)
        return self.licences.scope(key)


def plain(answer: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(answer))


# -- questions: each asks, and holds the answer against the oracle


def ask_levels(service: Service, key: KeyRow, root: str) -> Any:
    world, wanted = service.world, service.world.answer(key, root)
    try:
        found = plain(service.query.levels(service.scope(key), root, world.now_ns).answer)
    except NoLicensedSource as refusal:
        details = refusal.details
    else:
        return _levels_hold(found, wanted)
    reasons, until_ns = world.reasons(key, root)
    assert (wanted, details["reasons"]) == (None, reasons)
    assert ("embargo_until" in details) == (until_ns is not None)
    return None


def _levels_hold(found: Any, wanted: Any) -> Any:
    assert wanted is not None
    price = found["lastPrice"] if found["live"] else found["prior"]["poc"]
    assert (found["dataSource"], found["asOf"], price) == wanted
    assert found["live"] == (wanted[0] != "delayed")
    return found


def ask_context(service: Service, key: KeyRow, root: str) -> Any:
    wanted = service.world.answer(key, root)
    try:
        found = plain(service.query.context(service.scope(key), root, service.world.now_ns).answer)
    except NoLicensedSource:
        assert wanted is None
        return None
    assert wanted is not None
    assert (found["dataSource"], found["asOf"]) == wanted[:2]
    return found


def ask_profile(service: Service, key: KeyRow, root: str) -> Any:
    """Of a day, which is never answered live."""
    world, sessions = service.world, service.world.completed(key, root)
    for day in DAYS:
        wanted = next((one.price for one in sessions if one.day == day), None)
        try:
            found = plain(service.query.profile(service.scope(key), root, str(day), world.now_ns).answer)
        except NoLicensedSource:
            assert not sessions
        except NotFound:
            assert sessions
            assert wanted is None
        else:
            assert found["levels"]["poc"] == wanted
            assert prices_in(found) <= world.mine(key)
    try:
        return plain(service.query.profile(service.scope(key), root, None, world.now_ns).answer)
    except NoLicensedSource:
        assert world.answer(key, root) is None
        return None


def ask_history(service: Service, key: KeyRow, root: str) -> Any:
    world, sessions = service.world, service.world.completed(key, root)
    try:
        found = plain(service.query.history(service.scope(key), root, None, None, world.now_ns).answer)
    except NoLicensedSource:
        assert not sessions
        return None
    assert [(one["date"], one["poc"]) for one in found["sessions"]] == [
        (str(one.day), one.price) for one in sessions
    ]
    return found


def ask_chart(service: Service, key: KeyRow, root: str) -> Any:
    world = service.world
    try:
        found = plain(service.query.chart(service.scope(key), root, 60, world.now_ns).answer)
    except NoLicensedSource:
        assert world.answer(key, root) is None
        return None
    completed = {one.price for one in world.completed(key, root)}
    feed = world.live(key, root)
    assert completed | ({feed.price} if feed else set()) <= prices_in(found)
    return found


def ask_symbols(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.symbols(service.scope(key), service.world.now_ns).answer)
    states = {one["symbol"]: (one["dataSource"], one["asOf"]) for one in found["symbols"]}
    for each in ROOTS:
        assert states[each] == (service.world.answer(key, each) or (None, None))[:2]
    return found


def ask_scan(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.scan(service.scope(key), service.world.now_ns))
    assert any(prices_in(row) for row in found) == any(
        service.world.answer(key, each) or service.world.completed(key, each) for each in ROOTS
    )
    return found


def ask_alerts(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.alerts(service.scope(key), None, service.world.now_ns).answer)
    assert [one["price"] for one in found["alerts"]] == service.world.alerts_now(key)
    return found


def ask_alerts_of_one(service: Service, key: KeyRow, root: str) -> Any:
    found = plain(service.query.alerts(service.scope(key), root, service.world.now_ns).answer)
    assert {one["symbol"] for one in found["alerts"]} <= {root}
    return found


def ask_alerts_history(service: Service, key: KeyRow, root: str) -> Any:
    history = service.query.alerts_history
    found = plain(
        history(service.scope(key), None, None, None, None, None, None, service.world.now_ns).answer
    )
    assert [one["price"] for one in found["alerts"]] == service.world.alerts_ever(key)
    return found


def ask_stream(service: Service, key: KeyRow, root: str) -> Any:
    """What a stream begins with, and what one that comes back is told of."""
    scope, world = service.scope(key), service.world
    wanted = AlertFilter(REFERENCE.universe, scope, None)
    rows, _ = service.tail.current(scope, wanted)
    assert [row.price_e9 // 10**9 for row in rows] == world.alerts_now(key)
    missed = service.tail.after(scope, wanted, 0)
    assert missed is not None
    told = {row.price_e9 // 10**9 for row in missed.rows}
    assert told <= set(world.alerts_ever(key))
    assert told >= {
        one.alert.price_e9 // 10**9 for one in world.feeds if world.sees_feed(key, one.owner, one.root)
    }
    seen = service.query.watch(scope, root, world.now_ns).seen
    feed = world.live(key, root)
    assert (seen.channel.key.owner if seen else None) == (feed.owner if feed else None)
    return sorted(told)


QUESTIONS: tuple[Callable[[Service, KeyRow, str], Any], ...] = (
    ask_levels, ask_context, ask_profile, ask_history, ask_chart, ask_symbols, ask_scan, ask_alerts, ask_alerts_of_one,
    ask_alerts_history, ask_stream,
)  # fmt: skip


# -- what happens in a world


def change(world: World, dice: random.Random) -> None:
    """Something happens: time passes, a day is recorded, a feed comes, goes or stops, a grant is made or withdrawn."""
    owner, root = dice.randrange(USERS + 1), dice.choice(ROOTS)
    kind = dice.randrange(12)
    if kind < 4:
        world.record(owner, root, dice.choice(DAYS), complete=dice.random() < 0.8)
    elif kind < 7:
        world.connect(owner, root, dice.choice((*STANDINGS, "live", "live")))
    elif kind < 10:
        grantee = dice.choice(
            [
                "everyone",
                f"tier:{dice.choice(TIERS)}",
                f"user:{dice.randint(1, USERS)}",
                f"key:{dice.randint(1, 5)}",
            ]
        )
        roots = dice.sample(ROOTS, dice.randrange(3))
        live = dice.random() < 0.5
        first = None if live else dice.choice([None, *DAYS])
        world.grant(grantee, "live" if live else "completed", roots, dice.choice([0, 24, 48, 96]), first)
    elif kind == 10 and world.feeds:
        world.disconnect(dice.choice(world.feeds))
    elif world.accounts.grants():
        world.accounts.revoke_grant(dice.choice(world.accounts.grants()).id, world.now_ns)
    # to the very end of an embargo, or just anywhere before midnight moves what names mean
    world.now_ns += dice.choice([0, 0, HOUR, dice.randrange(HOUR)])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(TIERS), min_size=5, max_size=5))
def test_what_is_answered_is_what_the_licences_allow(seed: int, tiers: list[str]) -> None:
    dice, world = random.Random(seed), World()
    service = Service(world, tiers)
    for _ in range(dice.randrange(4, 14)):
        change(world, dice)
    for _ in range(40):
        if dice.random() < 0.2:
            change(world, dice)
        key, root, ask = dice.choice(service.keys), dice.choice(ROOTS), dice.choice(QUESTIONS)
        found = ask(service, key, root)
        assert prices_in(found) <= world.mine(key), (ask.__name__, key.id, root)


# -- the same through the service's own front door, and the answers it keeps


PATHS = (
    "/api/levels?symbol={}", "/api/context?symbol={}", "/api/profile?symbol={}", "/api/history?symbol={}",
    "/api/chart?symbol={}", "/api/symbols", "/api/alerts", "/api/alerts?symbol={}", "/api/alerts/history",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_no_kept_answer_is_given_to_a_key_it_was_not_made_for(seed: int) -> None:
    dice, world = random.Random(seed), World()
    sessions: Any = world
    alerts: Any = world.archive

    def query(_: object) -> Query:
        return Query(sessions, REFERENCE.universe, REFERENCE.calendar, world.registry, alerts)

    stage = build_stage(query, world.registry, {"universe": REFERENCE.universe, "alerts": alerts})
    world.accounts = stage.accounts
    stage.clock.at_ns = world.now_ns
    keys = [stage.key(dice.choice(TIERS), f"user{number % USERS}@example.com") for number in range(5)]  # type: ignore[arg-type]
    for _ in range(14):
        change(world, dice)
    with served(stage):
        for _ in range(6):
            change(world, dice)
            stage.clock.at_ns = world.now_ns = world.now_ns + 61 * 10**9
            stage.steady.at_ns += 61 * 10**9
            known(stage)
            for _ in range(25):
                number, root = dice.randrange(len(keys)), dice.choice(ROOTS)
                path = dice.choice(PATHS).format(root)
                got = stage.get(path, keys[number])
                body, row = json.loads(got.body), stage.accounts.rows[number]
                assert got.status in (200, 409), (path, body)
                assert prices_in(body) <= world.mine(row), (path, number)
                if path.startswith("/api/levels"):
                    _holds(world, row, root, body)
                elif path == "/api/alerts":
                    assert [one["price"] for one in body["alerts"]] == world.alerts_now(row)


def _holds(world: World, row: KeyRow, root: str, body: Any) -> None:
    wanted = world.answer(row, root)
    if wanted is not None:
        price = body["lastPrice"] if body["live"] else body["prior"]["poc"]
        assert (body["dataSource"], body["asOf"], price) == wanted
        return
    reasons, until_ns = world.reasons(row, root)
    assert (body["code"], body["reasons"]) == ("no_licensed_source", reasons)
    if until_ns is None:
        assert "embargo_until" not in body
    else:
        at = datetime.fromisoformat(body["embargo_until"])
        assert at == datetime.fromtimestamp(until_ns // 10**9, UTC)


def test_the_oracle_itself_tells_owners_apart() -> None:
    """A world worked by hand, so that oracle and program are not wrong alike."""
    world = World()
    service = Service(world, ["free", "pro", "free", "free", "free"])  # of users 1, 2, 3, 1, 2
    ann, bob, cid, ann_too, _ = service.keys
    bobs = world.record(2, "ES", DAYS[0])
    installation = world.record(OPERATOR, "ES", DAYS[0])
    older = world.record(OPERATOR, "ES", DAYS[1])
    assert ask_levels(service, ann, "ES") is None
    assert ask_levels(service, bob, "ES")["prior"]["poc"] == bobs.price
    world.grant("tier:pro", "completed", [], 0, None)
    assert ask_levels(service, bob, "ES")["prior"]["poc"] == bobs.price  # one's own first
    assert [one["poc"] for one in ask_history(service, bob, "ES")["sessions"]] == [older.price, bobs.price]
    world.grant("key:4", "completed", ["ES"], 24, None)
    assert ask_levels(service, ann, "ES") is None  # another key of hers was granted it
    assert ask_levels(service, ann_too, "ES")["prior"]["poc"] == older.price  # Monday's is a day old at 21:15
    world.now_ns += HOUR
    assert ask_levels(service, ann_too, "ES")["prior"]["poc"] == installation.price
    feed = world.connect(2, "ES", "live")
    assert ask_levels(service, bob, "ES")["dataSource"] == "personal"
    assert ask_levels(service, ann_too, "ES")["dataSource"] == "delayed"
    world.connect(OPERATOR, "ES", "live")
    world.grant("user:3", "live", ["ES"], 0, None)
    assert ask_levels(service, cid, "ES")["dataSource"] == "shared"
    assert ask_levels(service, bob, "ES")["lastPrice"] == feed.price
    feed.stand("disconnected")
    assert ask_levels(service, bob, "ES")["dataSource"] == "delayed"
