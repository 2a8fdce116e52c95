"""An alert reaches exactly the subscriptions to its feed, symbol and severity, in the alert's transaction."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text
from tests.contract.databases import KINDS, Place, Places, upgrade
from tests.contract.outbox_harness import BEGIN_NS, EVERYONE, Harness

from outcry.access.licences import OPERATOR, Audience, Grant, audience, resolve
from outcry.access.tiers import Tier
from outcry.database import migrate as migration
from outcry.database import schema
from outcry.delivery.model import Severity, SubscriptionPhase
from outcry.delivery.outbox_model import Backlog, Queue
from outcry.live.model import AlertRow, FanOut

ACTIVE, PAUSED, DISABLED, UNCONFIRMED = (
    SubscriptionPhase.ACTIVE, SubscriptionPhase.PAUSED, SubscriptionPhase.DISABLED, SubscriptionPhase.UNCONFIRMED,
)  # fmt: skip
ANN, BOB, CARL = 1, 2, 3
SEVERITIES: tuple[Severity, ...] = ("info", "warn", "critical")


@pytest.fixture
def harness(place: Place) -> Harness:
    return Harness(place.open())


def entered(harness: Harness) -> list[tuple[int, int, str]]:
    """Return subscription, alert and phase of every entry."""
    outbox = schema.outbox.c
    query = select(outbox.subscription_id, outbox.alert_seq, outbox.phase).order_by(outbox.id)
    with harness.database.reading() as connection:
        return [(row[0], row[1], row[2]) for row in connection.execute(query)]


@pytest.mark.parametrize(
    ("phase", "backlog"),
    [
        (ACTIVE, Backlog(1, 0, 0)),
        (DISABLED, Backlog(0, 1, 0)),
        (PAUSED, Backlog(0, 0, 0)),
        (UNCONFIRMED, Backlog(0, 0, 0)),
    ],
)
def test_an_alert_waits_is_held_or_is_nothing_as_its_subscription_stands(
    harness: Harness, phase: SubscriptionPhase, backlog: Backlog
) -> None:
    number = harness.subscribe(phase=phase)
    harness.fire()
    assert harness.outbox.backlog(ANN, number) == backlog


@pytest.mark.parametrize("wanted", SEVERITIES)
@pytest.mark.parametrize("fired", SEVERITIES)
def test_a_severity_reaches_those_who_asked_for_it_or_less(
    harness: Harness, wanted: Severity, fired: Severity
) -> None:
    number = harness.subscribe(min_severity=wanted)
    harness.fire(severity=fired)
    reaches = SEVERITIES.index(wanted) <= SEVERITIES.index(fired)
    assert harness.outbox.backlog(ANN, number).waiting == reaches


@pytest.mark.parametrize(
    ("symbols", "reached"),
    [((), True), (("ES",), True), (("NQ", "ES", "CL"), True), (("MES", "ESX"), False), (("NQ",), False)],
)
def test_symbols_are_told_apart_whole(harness: Harness, symbols: tuple[str, ...], *, reached: bool) -> None:
    number = harness.subscribe(symbols=symbols)
    harness.fire(symbol="ES")
    assert harness.outbox.backlog(ANN, number).waiting == reached


def test_a_repeat_of_what_is_known_is_entered_no_second_time(harness: Harness) -> None:
    number = harness.subscribe()
    alert = harness.alert()
    to_everyone = FanOut(lambda _owner, _root: EVERYONE, BEGIN_NS)
    for _ in range(2):
        harness.live.record_alerts([alert, alert], {}, to_everyone)
    assert harness.outbox.backlog(ANN, number) == Backlog(1, 0, 0)


def test_alerts_recorded_for_nobody_are_entered_for_nobody(harness: Harness) -> None:
    number = harness.subscribe()
    harness.live.record_alerts([harness.alert()], {})
    harness.fire(audience=Audience(everyone=False, tiers=frozenset(), users=frozenset()))
    assert harness.outbox.backlog(ANN, number) == Backlog(0, 0, 0)


def test_alerts_that_fired_before_are_entered_for_nobody_and_take_no_numbers(harness: Harness) -> None:
    harness.subscribe()
    alerts = [harness.alert(at_ns=BEGIN_NS - 1), harness.alert(at_ns=BEGIN_NS)]
    harness.live.record_alerts(alerts, {}, FanOut(lambda _owner, _root: EVERYONE, BEGIN_NS, BEGIN_NS))
    assert [(entry.number, entry.alert.key) for entry in harness.claim_one().entries] == [(1, alerts[1].key)]


def test_an_audience_may_name_more_users_than_a_statement_has_places_for(harness: Harness) -> None:
    mine, theirs = harness.subscribe(user_id=ANN), harness.subscribe(user_id=BOB)
    harness.fire(audience=Audience(everyone=False, tiers=frozenset(), users=frozenset(range(BOB, 50_000))))
    assert [queue for queue, _, _ in entered(harness)] == [theirs]
    assert harness.outbox.backlog(ANN, mine) == Backlog(0, 0, 0)


def test_a_crash_in_between_leaves_neither_alert_nor_entry_nor_position(harness: Harness) -> None:
    number = harness.subscribe()
    alerts = [harness.alert(), harness.alert(symbol="NQ")]

    def crash(_owner: int, root: str) -> Audience:
        if root == "NQ":
            raise KeyboardInterrupt
        return EVERYONE

    with pytest.raises(KeyboardInterrupt):
        harness.live.record_alerts(alerts, {"0/demo/ESH2026": 7}, FanOut(crash, BEGIN_NS))
    assert (harness.live.alerts([0]), harness.live.position("0/demo/ESH2026")) == ([], 0)
    assert entered(harness) == []
    assert list(harness.claim()) == []
    harness.live.record_alerts(
        alerts, {"0/demo/ESH2026": 7}, FanOut(lambda _owner, _root: EVERYONE, BEGIN_NS)
    )
    assert harness.outbox.backlog(ANN, number) == Backlog(2, 0, 0)


# -- recipients, chosen at random

ROOTS = ("ES", "NQ", "CL")
TIERS: tuple[Tier, ...] = ("free", "pro", "admin")


Want = tuple[tuple[str, ...], Severity, SubscriptionPhase]


@dataclass(frozen=True)
class Person:
    """Random user. `wants`: symbols, severity and phase of each subscription."""

    tier: Tier
    disabled: bool
    wants: tuple[Want, ...]


#: Owner and filter of each subscription.
Belonging = tuple[int, Person, Want]


roots = st.lists(st.sampled_from(ROOTS), unique=True, max_size=2).map(tuple)
wants = st.tuples(roots, st.sampled_from(SEVERITIES), st.sampled_from(SubscriptionPhase))
people = st.lists(
    st.builds(
        Person, tier=st.sampled_from(TIERS), disabled=st.sampled_from([False, False, False, True]),
        wants=st.lists(wants, max_size=3).map(tuple),
    ),
    min_size=3, max_size=3,
)  # fmt: skip
grantees = st.sampled_from(["everyone", "tier:free", "tier:pro", "user:1", "user:2", "user:3", "key:1"])
grants = st.lists(
    st.builds(
        Grant, grantee=grantees, scope=st.sampled_from(["live", "completed"]), roots=roots, from_date=st.none(),
        until_date=st.none(),
    ),
    max_size=4,
)  # fmt: skip
fired = st.lists(
    st.tuples(st.sampled_from([OPERATOR, ANN, BOB]), st.sampled_from(ROOTS), st.sampled_from(SEVERITIES)),
    min_size=1, max_size=6,
)  # fmt: skip


def sees(user_id: int, person: Person, granted: Sequence[Grant], alert: AlertRow) -> bool:
    """Return whether this user may see the alert on a page."""
    scope = resolve(user_id, 0, person.tier, granted)
    own = alert.owner == user_id
    return not person.disabled and (own or (alert.owner == OPERATOR and scope.sees_live(alert.symbol)))


def expected(
    lanes: Mapping[int, Belonging], granted: Sequence[Grant], alerts: Sequence[AlertRow]
) -> set[tuple[int, int, str]]:
    """Return the expected entries."""
    found: set[tuple[int, int, str]] = set()
    for number, (user_id, person, (symbols, severity, phase)) in lanes.items():
        for alert in alerts:
            listed = not symbols or alert.symbol in symbols
            grave = SEVERITIES.index(alert.severity) >= SEVERITIES.index(severity)
            if listed and grave and phase in (ACTIVE, DISABLED) and sees(user_id, person, granted, alert):
                found.add((number, alert.seq, "waiting" if phase is ACTIVE else "held"))
    return found


def furnish(harness: Harness, everybody: Sequence[Person]) -> Mapping[int, Belonging]:
    """Replace all users and subscriptions."""
    with harness.database.write() as connection:
        connection.execute(schema.subscriptions.delete())
    lanes: dict[int, Belonging] = {}
    for user_id, person in enumerate(everybody, 1):
        harness.people.change_user(user_id, tier=person.tier, disabled_ns=BEGIN_NS if person.disabled else 0)
        for want in person.wants:
            symbols, severity, phase = want
            number = harness.subscribe(user_id=user_id, symbols=symbols, min_severity=severity, phase=phase)
            lanes[number] = (user_id, person, want)
    return lanes


@pytest.fixture(scope="module", params=KINDS)
def furnished(
    request: pytest.FixtureRequest, places: Places, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    with places.place(request.param, tmp_path_factory.mktemp("furnished")) as place:
        made = Harness(place.open())
        made.people.add_user("carl@example.com", "member", "free", b"carl", BEGIN_NS)
        yield made


@settings(deadline=None, max_examples=60)
@given(everybody=people, granted=grants, firing=fired)
def test_an_alert_is_entered_for_exactly_those_who_want_it_and_may_see_it(
    furnished: Harness, everybody: list[Person], granted: list[Grant], firing: list[tuple[int, str, Severity]]
) -> None:
    lanes = furnish(furnished, everybody)
    rows = [furnished.alert(owner=owner, symbol=root, severity=severity) for owner, root, severity in firing]
    alerts = furnished.live.record_alerts(rows, {}, FanOut(partial(audience, grants=granted), BEGIN_NS))
    there = entered(furnished)
    assert set(there) == expected(lanes, granted, alerts)
    assert len(there) == len(set(there))
    waiting = {queue for queue, _, phase in there if phase == "waiting"}
    assert {message.subscription.id for message in furnished.claim(most=100)} == waiting


# -- existing data


def test_a_subscription_from_before_there_was_an_outbox_is_delivered_to(empty_place: Place) -> None:
    engine = empty_place.engine()
    upgrade(engine, "0005")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO users (email, created_ns) VALUES ('a@example.com', 1)"))
        connection.execute(
            text(
                "INSERT INTO subscriptions (user_id, target, label, sealed_address, shown, symbols, min_severity,"
                " phase, reason, secret_last4, created_ns)"
                " VALUES (1, 'https', '', 'x', 'x', '', 'info', 'active', '', '', 1)"
            )
        )
        connection.execute(
            text(
                "INSERT INTO attempts (subscription_id, at_ns, alert_key, alert_type, symbol, outcome, code, excerpt)"
                " VALUES (1, 5, 'k', 'ib-break-up', 'ES', 'delivered', 'ok', '')"
            )
        )
    migration.migrate(engine)
    database = empty_place.open()
    harness = Harness(database)
    row = harness.row(1)
    assert (row.ordered, row.window, row.at_once) == (False, "hour", True)
    (attempt,) = harness.attempts(1)
    assert (attempt.message_id, attempt.alerts, attempt.number, attempt.phases_ms, attempt.shown) == (
        "",
        1,
        1,
        (),
        "",
    )
    assert harness.outbox.queue(1) == Queue()
    harness.fire()
    assert harness.claim_one().subscription == row
