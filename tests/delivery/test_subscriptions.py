"""Use cases of subscriptions, with a store in memory and a scripted delivery."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from outcry.access.licences import Scope
from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.delivery.model import (
    AttemptRow,
    Change,
    Outcome,
    SubscriptionPhase,
    SubscriptionRow,
    Target,
)
from outcry.delivery.model import TestResult as Result
from outcry.delivery.outbox_model import Backlog, Queue
from outcry.delivery.signing_secrets import place_of
from outcry.delivery.subscription_phases import TRANSITIONS, Sign
from outcry.delivery.subscriptions import NoSubscription, SubscriptionRefused, Subscriptions, Wish
from outcry.delivery.target_addresses import shown_of
from outcry.delivery.url_rule import UrlRule
from outcry.market.units import NANOS_PER_DAY

ANN, BOB = 1, 2
NOW_NS = 1_767_366_245 * 10**9
URL = "https://hooks.mysite.dev/outcry/secret-path-0042"
SLACK = "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/abcdefgh12345678"
DISCORD = "https://discord.com/api/webhooks/12345678901234567/" + "a" * 68


@dataclass
class MemoryStore:
    """Subscriptions in memory."""

    rows: list[SubscriptionRow] = field(default_factory=list)

    def subscriptions(self, user_id: int) -> Sequence[SubscriptionRow]:
        return [row for row in self.rows if row.user_id == user_id]

    def subscription(self, user_id: int, subscription_id: int) -> SubscriptionRow | None:
        return next((row for row in self.subscriptions(user_id) if row.id == subscription_id), None)

    def add_subscription(self, row: SubscriptionRow, most: int) -> int | None:
        if len(self.subscriptions(row.user_id)) >= most:
            return None
        self.rows.append(replace(row, id=len(self.rows) + 1))
        return len(self.rows)

    def change_subscription(
        self, user_id: int, subscription_id: int, change: Change
    ) -> SubscriptionRow | None:
        for at, one in enumerate(self.rows):
            if (one.id, one.user_id) == (subscription_id, user_id):
                self.rows[at] = change(one)
                return self.rows[at]
        return None

    def remove_subscription(self, user_id: int, subscription_id: int) -> bool:
        row = self.subscription(user_id, subscription_id)
        if row is not None:
            self.rows.remove(row)
        return row is not None

    def attempts(
        self,
        user_id: int,
        subscription_id: int,
        before: int | None,
        limit: int,
        outcome: Outcome | None = None,
    ) -> Sequence[AttemptRow]:
        return []


class MemoryOutbox:
    """The part of the outbox that subscriptions use; records the calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def queue(self, subscription_id: int) -> Queue:
        return Queue(sent_ns=subscription_id)

    def backlog(self, user_id: int, subscription_id: int) -> Backlog:
        return Backlog(1, 2, 3)

    def resend_one(self, *asked: object) -> int:
        self.asked.append(asked)
        return 1

    def resend_failed(self, *asked: object) -> int:
        self.asked.append(asked)
        return 0


class Told:
    """A deliverer that says what it is told to, and else what addresses say of themselves."""

    running, admitted = True, ()

    def __init__(self) -> None:
        self.verdict, self.code = "", "ok"
        self.sent: list[tuple[str, Sequence[str]]] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.woken = 0
        self.rule = UrlRule((), ())

    def check_url(self, target: Target, address: str) -> str:
        found = "ok" if target is Target.EMAIL else self.rule.check(address)
        return self.verdict or (found if isinstance(found, str) else "ok")

    def test(self, row: SubscriptionRow, address: str, secrets: Sequence[str]) -> Result:
        self.sent.append((address, list(secrets)))
        self.meanwhile()
        return Result(self.code, 200, 5, (), "", "")

    def wake(self) -> None:
        self.woken += 1


@dataclass
class Desk:
    store: MemoryStore = field(default_factory=MemoryStore)
    outbox: MemoryOutbox = field(default_factory=MemoryOutbox)
    deliverer: Told = field(default_factory=Told)
    encryptor: Encryptor = field(default_factory=lambda: Encryptor(b"a secret of the tests", "subscriptions"))

    @property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.store, self.outbox, self.deliverer, self.encryptor)  # type: ignore[arg-type]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def wish(target: Target = Target.HTTPS, address: str = URL, label: str = "Desk") -> Wish:
    return Wish(target, address, label, ("ES",), "warn")


def test_an_endpoint_is_kept_sealed_with_a_secret_of_the_standard_form(desk: Desk) -> None:
    made = desk.subscriptions.add(ANN, wish(), NOW_NS)
    row = desk.store.rows[0]
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    assert len(base64.b64decode(made.secret.removeprefix("whsec_"), validate=True)) == 32
    assert row.secret_last4 == made.secret[-4:]
    assert row.shown == "hooks.mysite.dev/…0042"
    assert b"mysite" not in row.sealed_address
    place = place_of(ANN, NOW_NS)
    assert desk.encryptor.decrypt(row.sealed_address, place) == URL
    assert row.sealed_secret is not None
    assert desk.encryptor.decrypt(row.sealed_secret, place) == made.secret
    with pytest.raises(DecryptionFailed):
        desk.encryptor.decrypt(row.sealed_address, place_of(BOB, NOW_NS))
    assert row.phase is SubscriptionPhase.ACTIVE


@pytest.mark.parametrize(
    ("target", "address"),
    [(Target.SLACK, SLACK), (Target.DISCORD, DISCORD), (Target.EMAIL, "ann@example.com")],
)
def test_what_is_not_signed_has_no_secret(desk: Desk, target: Target, address: str) -> None:
    made = desk.subscriptions.add(ANN, wish(target, address), NOW_NS)
    assert made.secret is None
    with pytest.raises(SubscriptionRefused, match="not_signed"):
        desk.subscriptions.rotate(ANN, made.id, NOW_NS)


@pytest.mark.parametrize(
    ("target", "address", "code"),
    [
        (Target.SLACK, URL, "not_slack"),
        (Target.SLACK, "https://hooks.slack.com.evil.dev/services/T0/B0/abcdefgh", "not_slack"),
        (Target.SLACK, SLACK + "?x=1", "not_slack"),
        (Target.SLACK, SLACK.replace("https", "http"), "not_slack"),
        (Target.SLACK, "https://hooks.slack.com/triggers/T0/1/x", "slack_trigger"),
        (Target.DISCORD, "https://discord.com/api/webhooks/1/abc", "not_discord"),
        (Target.DISCORD, DISCORD.replace("discord.com", "discord.com.evil.dev"), "not_discord"),
        (Target.EMAIL, "ann", "email_form"),
        (Target.HTTPS, SLACK, "address_of_a_chat"),
        (Target.HTTPS, DISCORD, "address_of_a_chat"),
        (Target.HTTPS, "", "address_missing"),
        (Target.HTTPS, "http://mysite.dev/", "endpoint_not_https"),
        (Target.HTTPS, "https://10.0.0.1/", "endpoint_private"),
    ],
)
def test_an_address_that_is_none_of_its_target_is_refused(
    desk: Desk, target: Target, address: str, code: str
) -> None:
    with pytest.raises(SubscriptionRefused) as refusal:
        desk.subscriptions.add(ANN, wish(target, address), NOW_NS)
    assert (refusal.value.code, refusal.value.field) == (code, "address")
    assert desk.store.rows == []


def test_chats_of_every_known_host_are_taken(desk: Desk) -> None:
    for host in ("ptb.discord.com", "canary.discord.com", "discordapp.com"):
        desk.subscriptions.add(ANN, wish(Target.DISCORD, DISCORD.replace("discord.com", host)), NOW_NS)
    desk.subscriptions.add(ANN, wish(Target.SLACK, SLACK.replace("slack.com", "slack-gov.com")), NOW_NS)
    assert len(desk.store.rows) == 4


def test_the_deliverers_verdict_holds(desk: Desk) -> None:
    desk.deliverer.verdict = "endpoint_self"
    with pytest.raises(SubscriptionRefused, match="endpoint_self"):
        desk.subscriptions.add(ANN, wish(), NOW_NS)


def test_there_are_twenty_at_most_of_one_user(desk: Desk) -> None:
    for number in range(20):
        desk.subscriptions.add(ANN, wish(), NOW_NS + number)
    with pytest.raises(SubscriptionRefused, match="too_many"):
        desk.subscriptions.add(ANN, wish(), NOW_NS)
    desk.subscriptions.add(BOB, wish(), NOW_NS)


def test_an_empty_address_keeps_the_one_there_is_and_another_takes_its_place(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    sealed = desk.store.rows[0].sealed_secret
    row = desk.subscriptions.change(ANN, number, wish(Target.EMAIL, "", "Other")).row
    assert (row.label, row.target, row.shown) == ("Other", Target.HTTPS, "hooks.mysite.dev/…0042")
    row = desk.subscriptions.change(
        ANN, number, wish(address="https://new.mysite.dev/somewhere-else-0043")
    ).row
    assert row.shown == "new.mysite.dev/…0043"
    assert row.sealed_secret == sealed
    with pytest.raises(SubscriptionRefused):
        desk.subscriptions.change(ANN, number, wish(address="https://localhost/"))
    assert desk.store.rows[0] == row


def test_nothing_of_somebody_elses_is_there(desk: Desk) -> None:
    subscriptions = desk.subscriptions
    number = subscriptions.add(ANN, wish(), NOW_NS).id
    before = list(desk.store.rows)
    for work in (
        lambda: subscriptions.one(BOB, number),
        lambda: subscriptions.change(BOB, number, wish()),
        lambda: subscriptions.pause(BOB, number),
        lambda: subscriptions.resume(BOB, number),
        lambda: subscriptions.rotate(BOB, number, NOW_NS),
        lambda: subscriptions.test(BOB, number, NOW_NS),
        lambda: subscriptions.remove(BOB, number),
    ):
        with pytest.raises(NoSubscription):
            work()
    assert desk.store.rows == before
    assert desk.deliverer.sent == []


def test_the_secret_before_the_newest_signs_for_a_day(desk: Desk) -> None:
    made = desk.subscriptions.add(ANN, wish(), NOW_NS)
    second = desk.subscriptions.rotate(ANN, made.id, NOW_NS + 5)
    row = desk.store.rows[0]
    assert row.sealed_secret is not None
    assert row.sealed_old_secret is not None
    assert desk.encryptor.decrypt(row.sealed_secret, place_of(ANN, NOW_NS)) == second
    assert made.secret is not None
    assert made.secret.encode() not in row.sealed_old_secret
    assert row.old_until_ns == NOW_NS + 5 + NANOS_PER_DAY
    assert second != made.secret


def test_a_test_goes_to_the_opened_address_with_the_secret(desk: Desk) -> None:
    made = desk.subscriptions.add(ANN, wish(), NOW_NS)
    assert desk.subscriptions.test(ANN, made.id, NOW_NS).code == "ok"
    assert desk.deliverer.sent == [(URL, [made.secret])]


def test_both_secrets_sign_until_the_overlap_is_over(desk: Desk) -> None:
    made = desk.subscriptions.add(ANN, wish(), NOW_NS)
    second = desk.subscriptions.rotate(ANN, made.id, NOW_NS)
    for now_ns in (NOW_NS + NANOS_PER_DAY - 1, NOW_NS + NANOS_PER_DAY):
        desk.subscriptions.test(ANN, made.id, now_ns)
    assert desk.deliverer.sent == [(URL, [second, made.secret]), (URL, [second])]


def test_three_replaced_secrets_sign_at_most_each_for_as_long_as_was_chosen(desk: Desk) -> None:
    made = desk.subscriptions.add(ANN, wish(), NOW_NS)
    week = desk.subscriptions.rotate(ANN, made.id, NOW_NS, 7 * NANOS_PER_DAY)  # the first signs on for a week
    day = desk.subscriptions.rotate(ANN, made.id, NOW_NS)
    desk.subscriptions.test(ANN, made.id, NOW_NS)
    desk.subscriptions.test(ANN, made.id, NOW_NS + 2 * NANOS_PER_DAY)
    assert [secrets for _, secrets in desk.deliverer.sent] == [[day, week, made.secret], [day, made.secret]]
    newest = [desk.subscriptions.rotate(ANN, made.id, NOW_NS + number) for number in range(1, 5)]
    desk.subscriptions.test(ANN, made.id, NOW_NS + 10)
    assert desk.deliverer.sent[-1][1] == newest[::-1]
    gone = desk.subscriptions.rotate(ANN, made.id, NOW_NS + 20, 0)  # the one before was seen by somebody
    desk.subscriptions.test(ANN, made.id, NOW_NS + 21)
    assert desk.deliverer.sent[-1][1] == [gone, *newest[-2::-1][:3]]


def test_no_secret_signs_on_for_more_than_a_week(desk: Desk) -> None:
    made = desk.subscriptions.add(ANN, wish(), NOW_NS)
    second = desk.subscriptions.rotate(ANN, made.id, NOW_NS, 400 * NANOS_PER_DAY)
    desk.subscriptions.test(ANN, made.id, NOW_NS + 7 * NANOS_PER_DAY)
    assert desk.deliverer.sent[-1][1] == [second]


def test_a_host_that_cannot_be_found_now_is_taken_and_said_to_be_unverified(desk: Desk) -> None:
    desk.deliverer.verdict = "unverified"
    assert desk.subscriptions.add(ANN, wish(), NOW_NS).verdict == "unverified"
    assert len(desk.store.rows) == 1


def test_of_another_address_it_is_said_too_that_its_host_cannot_be_found(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    desk.deliverer.verdict = "unverified"
    elsewhere = wish(address="https://new.mysite.dev/somewhere-else-0043")
    assert desk.subscriptions.change(ANN, number, elsewhere).verdict == "unverified"
    assert desk.subscriptions.change(ANN, number, wish(address="", label="Renamed")).verdict == "ok"


def test_a_mail_address_is_sealed_anew_when_its_reader_unsubscribes_and_not_before(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(Target.EMAIL, "ann@example.com"), NOW_NS).id
    sealed = desk.store.rows[0].sealed_address
    desk.subscriptions.change(ANN, number, wish(Target.EMAIL, "ann@example.com", "Renamed"))
    desk.subscriptions.confirm(ANN, number)
    assert desk.store.rows[0].sealed_address == sealed
    desk.subscriptions.unsubscribe(ANN, number)
    assert desk.store.rows[0].sealed_address != sealed
    assert (
        desk.encryptor.decrypt(desk.store.rows[0].sealed_address, place_of(ANN, NOW_NS)) == "ann@example.com"
    )
    desk.encryptor = Encryptor(b"another secret of the tests", "subscriptions")
    assert desk.subscriptions.unsubscribe(ANN, number) is False  # what cannot be opened stays as it is


def test_mail_goes_nowhere_before_its_reader_says_yes_and_not_after_a_no(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(Target.EMAIL, "ann@example.com"), NOW_NS).id
    assert desk.store.rows[0].phase is SubscriptionPhase.UNCONFIRMED
    assert desk.subscriptions.test(ANN, number, NOW_NS).code == "unconfirmed"
    assert desk.deliverer.sent == []
    assert desk.subscriptions.resume(ANN, number) is False
    assert desk.subscriptions.confirm(ANN, number) is True
    assert desk.store.rows[0].phase is SubscriptionPhase.ACTIVE
    assert [desk.subscriptions.unsubscribe(ANN, number) for _ in range(2)] == [True, False]
    assert (desk.store.rows[0].phase, desk.store.rows[0].reason) == (
        SubscriptionPhase.UNCONFIRMED,
        "unsubscribed",
    )
    assert desk.subscriptions.resume(ANN, number) is False


def test_the_reader_of_another_address_is_asked_anew(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(Target.EMAIL, "ann@example.com"), NOW_NS).id
    desk.subscriptions.confirm(ANN, number)
    same = desk.subscriptions.change(ANN, number, wish(Target.EMAIL, "ann@example.com", "Renamed")).row
    assert same.phase is SubscriptionPhase.ACTIVE
    other = desk.subscriptions.change(ANN, number, wish(Target.EMAIL, "bob@example.com")).row
    assert other.phase is SubscriptionPhase.UNCONFIRMED


def test_what_is_sent_again_is_looked_at_at_once_and_nothing_wakes_nobody(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    scope = Scope(ANN, ())
    assert desk.subscriptions.resend_one(scope, number, "msg_1", NOW_NS) == 1
    assert desk.deliverer.woken == 1
    assert desk.subscriptions.resend_failed(scope, number, 0, NOW_NS) == 0
    assert desk.deliverer.woken == 1
    assert desk.outbox.asked == [(ANN, number, "msg_1", NOW_NS, scope), (ANN, number, 0, NOW_NS, scope)]


def test_how_somebody_elses_lane_stands_is_not_told(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    assert desk.subscriptions.queue(ANN, number).sent_ns == number
    with pytest.raises(NoSubscription):
        desk.subscriptions.queue(BOB, number)


def test_an_address_sealed_with_another_secret_is_lost_and_said_to_be(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    desk.encryptor = Encryptor(b"another secret of the tests", "subscriptions")
    assert desk.subscriptions.test(ANN, number, NOW_NS).code == "address_lost"
    assert desk.deliverer.sent == []


def test_only_a_test_that_arrives_enables_what_was_disabled(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    desk.store.rows[0] = replace(desk.store.rows[0], phase=SubscriptionPhase.DISABLED, reason="gone")
    assert desk.subscriptions.resume(ANN, number) is False
    assert desk.subscriptions.pause(ANN, number) is False
    assert desk.store.rows[0].phase is SubscriptionPhase.DISABLED
    desk.deliverer.code = "gone"
    desk.subscriptions.test(ANN, number, NOW_NS)
    assert desk.store.rows[0].phase is SubscriptionPhase.DISABLED
    desk.deliverer.code = "ok"
    desk.subscriptions.test(ANN, number, NOW_NS)
    assert (desk.store.rows[0].phase, desk.store.rows[0].reason) == (SubscriptionPhase.ACTIVE, "")


def test_a_pause_holds_through_a_test(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    assert [desk.subscriptions.pause(ANN, number) for _ in range(2)] == [True, False]
    desk.subscriptions.test(ANN, number, NOW_NS)
    assert desk.store.rows[0].phase is SubscriptionPhase.PAUSED
    assert [desk.subscriptions.resume(ANN, number) for _ in range(2)] == [True, False]
    assert desk.store.rows[0].phase is SubscriptionPhase.ACTIVE


def test_what_is_changed_while_a_test_is_on_its_way_stays(desk: Desk) -> None:
    made = desk.subscriptions.add(ANN, wish(), NOW_NS)
    desk.store.rows[0] = replace(desk.store.rows[0], phase=SubscriptionPhase.DISABLED, reason="gone")
    fresh: list[str] = []

    def edit() -> None:
        desk.subscriptions.change(ANN, made.id, wish(address="", label="Renamed"))
        fresh.append(desk.subscriptions.rotate(ANN, made.id, NOW_NS))

    desk.deliverer.meanwhile = edit
    desk.subscriptions.test(ANN, made.id, NOW_NS)
    row = desk.store.rows[0]
    assert (row.label, row.phase, row.reason) == ("Renamed", SubscriptionPhase.ACTIVE, "")
    assert row.sealed_secret is not None
    assert desk.encryptor.decrypt(row.sealed_secret, place_of(ANN, NOW_NS)) == fresh[0]


def test_a_test_of_the_old_address_tells_nothing_of_the_new_one(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    desk.store.rows[0] = replace(desk.store.rows[0], phase=SubscriptionPhase.DISABLED, reason="gone")
    elsewhere = wish(address="https://new.mysite.dev/somewhere-else-0043")
    desk.deliverer.meanwhile = lambda: desk.subscriptions.change(ANN, number, elsewhere)
    assert desk.subscriptions.test(ANN, number, NOW_NS).code == "ok"
    row = desk.store.rows[0]
    assert (row.shown, row.phase, row.reason) == ("new.mysite.dev/…0043", SubscriptionPhase.DISABLED, "gone")


def test_a_pause_while_a_test_is_on_its_way_holds(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    desk.deliverer.meanwhile = lambda: desk.subscriptions.pause(ANN, number)
    desk.subscriptions.test(ANN, number, NOW_NS)
    assert desk.store.rows[0].phase is SubscriptionPhase.PAUSED


def test_one_removed_while_a_test_is_on_its_way_is_not_there_any_more(desk: Desk) -> None:
    number = desk.subscriptions.add(ANN, wish(), NOW_NS).id
    desk.deliverer.meanwhile = lambda: desk.subscriptions.remove(ANN, number)
    with pytest.raises(NoSubscription):
        desk.subscriptions.test(ANN, number, NOW_NS)
    assert desk.store.rows == []


def test_every_sign_is_answered_in_every_phase() -> None:
    assert set(TRANSITIONS) == {(phase, sign) for phase in SubscriptionPhase for sign in Sign}


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://mysite.dev", "mysite.dev"),
        ("https://mysite.dev/in", "mysite.dev/…"),
        ("https://mysite.dev/a-long-enough-path", "mysite.dev/…path"),
        ("https://mysite.dev?token=0123456789", "mysite.dev/…6789"),
        ("https://mysite.dev/in?token=0123456789abcd", "mysite.dev/…abcd"),
    ],
)
def test_what_is_shown_of_an_address_does_not_let_anybody_use_it(address: str, shown: str) -> None:
    assert shown_of(Target.HTTPS, address) == shown
