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
    """The part of the outbox that subscriptions use; it records the calls."""

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


class ScriptedDeliverer:
    """A deliverer with scripted verdicts, or else the verdicts of the URLs themselves."""

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
class Harness:
    store: MemoryStore = field(default_factory=MemoryStore)
    outbox: MemoryOutbox = field(default_factory=MemoryOutbox)
    deliverer: ScriptedDeliverer = field(default_factory=ScriptedDeliverer)
    encryptor: Encryptor = field(default_factory=lambda: Encryptor(b"a secret of the tests", "subscriptions"))

    @property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.store, self.outbox, self.deliverer, self.encryptor)  # type: ignore[arg-type]


@pytest.fixture
def harness() -> Harness:
    return Harness()


def wish(target: Target = Target.HTTPS, address: str = URL, label: str = "Desk") -> Wish:
    return Wish(target, address, label, ("ES",), "warn")


def test_an_endpoint_is_stored_encrypted_with_a_standard_secret(harness: Harness) -> None:
    made = harness.subscriptions.add(ANN, wish(), NOW_NS)
    row = harness.store.rows[0]
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    assert len(base64.b64decode(made.secret.removeprefix("whsec_"), validate=True)) == 32
    assert row.secret_last4 == made.secret[-4:]
    assert row.shown == "hooks.mysite.dev/…0042"
    assert b"mysite" not in row.sealed_address
    place = place_of(ANN, NOW_NS)
    assert harness.encryptor.decrypt(row.sealed_address, place) == URL
    assert row.sealed_secret is not None
    assert harness.encryptor.decrypt(row.sealed_secret, place) == made.secret
    with pytest.raises(DecryptionFailed):
        harness.encryptor.decrypt(row.sealed_address, place_of(BOB, NOW_NS))
    assert row.phase is SubscriptionPhase.ACTIVE


@pytest.mark.parametrize(
    ("target", "address"),
    [(Target.SLACK, SLACK), (Target.DISCORD, DISCORD), (Target.EMAIL, "ann@example.com")],
)
def test_what_is_not_signed_has_no_secret(harness: Harness, target: Target, address: str) -> None:
    made = harness.subscriptions.add(ANN, wish(target, address), NOW_NS)
    assert made.secret is None
    with pytest.raises(SubscriptionRefused, match="not_signed"):
        harness.subscriptions.rotate(ANN, made.id, NOW_NS)


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
def test_a_url_of_another_service_is_refused(
    harness: Harness, target: Target, address: str, code: str
) -> None:
    with pytest.raises(SubscriptionRefused) as refusal:
        harness.subscriptions.add(ANN, wish(target, address), NOW_NS)
    assert (refusal.value.code, refusal.value.field) == (code, "address")
    assert harness.store.rows == []


def test_chats_of_every_known_host_are_taken(harness: Harness) -> None:
    for host in ("ptb.discord.com", "canary.discord.com", "discordapp.com"):
        harness.subscriptions.add(ANN, wish(Target.DISCORD, DISCORD.replace("discord.com", host)), NOW_NS)
    harness.subscriptions.add(ANN, wish(Target.SLACK, SLACK.replace("slack.com", "slack-gov.com")), NOW_NS)
    assert len(harness.store.rows) == 4


def test_the_deliverers_verdict_holds(harness: Harness) -> None:
    harness.deliverer.verdict = "endpoint_self"
    with pytest.raises(SubscriptionRefused, match="endpoint_self"):
        harness.subscriptions.add(ANN, wish(), NOW_NS)


def test_there_are_twenty_at_most_of_one_user(harness: Harness) -> None:
    for number in range(20):
        harness.subscriptions.add(ANN, wish(), NOW_NS + number)
    with pytest.raises(SubscriptionRefused, match="too_many"):
        harness.subscriptions.add(ANN, wish(), NOW_NS)
    harness.subscriptions.add(BOB, wish(), NOW_NS)


def test_an_empty_address_keeps_the_one_there_is_and_another_takes_its_place(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    sealed = harness.store.rows[0].sealed_secret
    row = harness.subscriptions.change(ANN, number, wish(Target.EMAIL, "", "Other")).row
    assert (row.label, row.target, row.shown) == ("Other", Target.HTTPS, "hooks.mysite.dev/…0042")
    row = harness.subscriptions.change(
        ANN, number, wish(address="https://new.mysite.dev/somewhere-else-0043")
    ).row
    assert row.shown == "new.mysite.dev/…0043"
    assert row.sealed_secret == sealed
    with pytest.raises(SubscriptionRefused):
        harness.subscriptions.change(ANN, number, wish(address="https://localhost/"))
    assert harness.store.rows[0] == row


def test_another_users_subscription_behaves_like_a_missing_one(harness: Harness) -> None:
    subscriptions = harness.subscriptions
    number = subscriptions.add(ANN, wish(), NOW_NS).id
    before = list(harness.store.rows)
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
    assert harness.store.rows == before
    assert harness.deliverer.sent == []


def test_the_previous_secret_signs_for_a_day(harness: Harness) -> None:
    made = harness.subscriptions.add(ANN, wish(), NOW_NS)
    second = harness.subscriptions.rotate(ANN, made.id, NOW_NS + 5)
    row = harness.store.rows[0]
    assert row.sealed_secret is not None
    assert row.sealed_old_secret is not None
    assert harness.encryptor.decrypt(row.sealed_secret, place_of(ANN, NOW_NS)) == second
    assert made.secret is not None
    assert made.secret.encode() not in row.sealed_old_secret
    assert row.old_until_ns == NOW_NS + 5 + NANOS_PER_DAY
    assert second != made.secret


def test_a_test_goes_to_the_opened_address_with_the_secret(harness: Harness) -> None:
    made = harness.subscriptions.add(ANN, wish(), NOW_NS)
    assert harness.subscriptions.test(ANN, made.id, NOW_NS).code == "ok"
    assert harness.deliverer.sent == [(URL, [made.secret])]


def test_both_secrets_sign_until_the_overlap_is_over(harness: Harness) -> None:
    made = harness.subscriptions.add(ANN, wish(), NOW_NS)
    second = harness.subscriptions.rotate(ANN, made.id, NOW_NS)
    for now_ns in (NOW_NS + NANOS_PER_DAY - 1, NOW_NS + NANOS_PER_DAY):
        harness.subscriptions.test(ANN, made.id, now_ns)
    assert harness.deliverer.sent == [(URL, [second, made.secret]), (URL, [second])]


def test_three_replaced_secrets_sign_at_most_each_for_as_long_as_was_chosen(harness: Harness) -> None:
    made = harness.subscriptions.add(ANN, wish(), NOW_NS)
    # The first secret stays valid for a week.
    week = harness.subscriptions.rotate(ANN, made.id, NOW_NS, 7 * NANOS_PER_DAY)
    day = harness.subscriptions.rotate(ANN, made.id, NOW_NS)
    harness.subscriptions.test(ANN, made.id, NOW_NS)
    harness.subscriptions.test(ANN, made.id, NOW_NS + 2 * NANOS_PER_DAY)
    assert [secrets for _, secrets in harness.deliverer.sent] == [
        [day, week, made.secret],
        [day, made.secret],
    ]
    newest = [harness.subscriptions.rotate(ANN, made.id, NOW_NS + number) for number in range(1, 5)]
    harness.subscriptions.test(ANN, made.id, NOW_NS + 10)
    assert harness.deliverer.sent[-1][1] == newest[::-1]
    # Another person saw the previous secret, so it ends at once.
    replaced = harness.subscriptions.rotate(ANN, made.id, NOW_NS + 20, 0)
    harness.subscriptions.test(ANN, made.id, NOW_NS + 21)
    assert harness.deliverer.sent[-1][1] == [replaced, *newest[-2::-1][:3]]


def test_no_secret_signs_on_for_more_than_a_week(harness: Harness) -> None:
    made = harness.subscriptions.add(ANN, wish(), NOW_NS)
    second = harness.subscriptions.rotate(ANN, made.id, NOW_NS, 400 * NANOS_PER_DAY)
    harness.subscriptions.test(ANN, made.id, NOW_NS + 7 * NANOS_PER_DAY)
    assert harness.deliverer.sent[-1][1] == [second]


def test_a_host_that_cannot_be_found_now_is_taken_and_said_to_be_unverified(harness: Harness) -> None:
    harness.deliverer.verdict = "unverified"
    assert harness.subscriptions.add(ANN, wish(), NOW_NS).verdict == "unverified"
    assert len(harness.store.rows) == 1


def test_of_another_address_it_is_said_too_that_its_host_cannot_be_found(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    harness.deliverer.verdict = "unverified"
    elsewhere = wish(address="https://new.mysite.dev/somewhere-else-0043")
    assert harness.subscriptions.change(ANN, number, elsewhere).verdict == "unverified"
    assert harness.subscriptions.change(ANN, number, wish(address="", label="Renamed")).verdict == "ok"


def test_a_mail_address_is_sealed_anew_when_its_reader_unsubscribes_and_not_before(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(Target.EMAIL, "ann@example.com"), NOW_NS).id
    sealed = harness.store.rows[0].sealed_address
    harness.subscriptions.change(ANN, number, wish(Target.EMAIL, "ann@example.com", "Renamed"))
    harness.subscriptions.confirm(ANN, number)
    assert harness.store.rows[0].sealed_address == sealed
    harness.subscriptions.unsubscribe(ANN, number)
    assert harness.store.rows[0].sealed_address != sealed
    assert (
        harness.encryptor.decrypt(harness.store.rows[0].sealed_address, place_of(ANN, NOW_NS))
        == "ann@example.com"
    )
    harness.encryptor = Encryptor(b"another secret of the tests", "subscriptions")
    assert harness.subscriptions.unsubscribe(ANN, number) is False  # an undecryptable value stays unchanged


def test_mail_goes_nowhere_before_its_reader_says_yes_and_not_after_a_no(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(Target.EMAIL, "ann@example.com"), NOW_NS).id
    assert harness.store.rows[0].phase is SubscriptionPhase.UNCONFIRMED
    assert harness.subscriptions.test(ANN, number, NOW_NS).code == "unconfirmed"
    assert harness.deliverer.sent == []
    assert harness.subscriptions.resume(ANN, number) is False
    assert harness.subscriptions.confirm(ANN, number) is True
    assert harness.store.rows[0].phase is SubscriptionPhase.ACTIVE
    assert [harness.subscriptions.unsubscribe(ANN, number) for _ in range(2)] == [True, False]
    assert (harness.store.rows[0].phase, harness.store.rows[0].reason) == (
        SubscriptionPhase.UNCONFIRMED,
        "unsubscribed",
    )
    assert harness.subscriptions.resume(ANN, number) is False


def test_the_reader_of_another_address_is_asked_anew(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(Target.EMAIL, "ann@example.com"), NOW_NS).id
    harness.subscriptions.confirm(ANN, number)
    same = harness.subscriptions.change(ANN, number, wish(Target.EMAIL, "ann@example.com", "Renamed")).row
    assert same.phase is SubscriptionPhase.ACTIVE
    other = harness.subscriptions.change(ANN, number, wish(Target.EMAIL, "bob@example.com")).row
    assert other.phase is SubscriptionPhase.UNCONFIRMED


def test_what_is_sent_again_is_looked_at_at_once_and_nothing_wakes_nobody(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    scope = Scope(ANN, ())
    assert harness.subscriptions.resend_one(scope, number, "msg_1", NOW_NS) == 1
    assert harness.deliverer.woken == 1
    assert harness.subscriptions.resend_failed(scope, number, 0, NOW_NS) == 0
    assert harness.deliverer.woken == 1
    assert harness.outbox.asked == [(ANN, number, "msg_1", NOW_NS, scope), (ANN, number, 0, NOW_NS, scope)]


def test_the_queue_of_another_user_is_not_visible(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    assert harness.subscriptions.queue(ANN, number).sent_ns == number
    with pytest.raises(NoSubscription):
        harness.subscriptions.queue(BOB, number)


def test_an_address_sealed_with_another_secret_is_lost_and_said_to_be(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    harness.encryptor = Encryptor(b"another secret of the tests", "subscriptions")
    assert harness.subscriptions.test(ANN, number, NOW_NS).code == "address_lost"
    assert harness.deliverer.sent == []


def test_only_a_test_that_arrives_enables_what_was_disabled(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    harness.store.rows[0] = replace(harness.store.rows[0], phase=SubscriptionPhase.DISABLED, reason="gone")
    assert harness.subscriptions.resume(ANN, number) is False
    assert harness.subscriptions.pause(ANN, number) is False
    assert harness.store.rows[0].phase is SubscriptionPhase.DISABLED
    harness.deliverer.code = "gone"
    harness.subscriptions.test(ANN, number, NOW_NS)
    assert harness.store.rows[0].phase is SubscriptionPhase.DISABLED
    harness.deliverer.code = "ok"
    harness.subscriptions.test(ANN, number, NOW_NS)
    assert (harness.store.rows[0].phase, harness.store.rows[0].reason) == (SubscriptionPhase.ACTIVE, "")


def test_a_pause_holds_through_a_test(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    assert [harness.subscriptions.pause(ANN, number) for _ in range(2)] == [True, False]
    harness.subscriptions.test(ANN, number, NOW_NS)
    assert harness.store.rows[0].phase is SubscriptionPhase.PAUSED
    assert [harness.subscriptions.resume(ANN, number) for _ in range(2)] == [True, False]
    assert harness.store.rows[0].phase is SubscriptionPhase.ACTIVE


def test_what_is_changed_while_a_test_is_on_its_way_stays(harness: Harness) -> None:
    made = harness.subscriptions.add(ANN, wish(), NOW_NS)
    harness.store.rows[0] = replace(harness.store.rows[0], phase=SubscriptionPhase.DISABLED, reason="gone")
    fresh: list[str] = []

    def edit() -> None:
        harness.subscriptions.change(ANN, made.id, wish(address="", label="Renamed"))
        fresh.append(harness.subscriptions.rotate(ANN, made.id, NOW_NS))

    harness.deliverer.meanwhile = edit
    harness.subscriptions.test(ANN, made.id, NOW_NS)
    row = harness.store.rows[0]
    assert (row.label, row.phase, row.reason) == ("Renamed", SubscriptionPhase.ACTIVE, "")
    assert row.sealed_secret is not None
    assert harness.encryptor.decrypt(row.sealed_secret, place_of(ANN, NOW_NS)) == fresh[0]


def test_a_test_of_the_old_url_does_not_change_the_new_one(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    harness.store.rows[0] = replace(harness.store.rows[0], phase=SubscriptionPhase.DISABLED, reason="gone")
    elsewhere = wish(address="https://new.mysite.dev/somewhere-else-0043")
    harness.deliverer.meanwhile = lambda: harness.subscriptions.change(ANN, number, elsewhere)
    assert harness.subscriptions.test(ANN, number, NOW_NS).code == "ok"
    row = harness.store.rows[0]
    assert (row.shown, row.phase, row.reason) == ("new.mysite.dev/…0043", SubscriptionPhase.DISABLED, "gone")


def test_a_pause_while_a_test_is_on_its_way_holds(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    harness.deliverer.meanwhile = lambda: harness.subscriptions.pause(ANN, number)
    harness.subscriptions.test(ANN, number, NOW_NS)
    assert harness.store.rows[0].phase is SubscriptionPhase.PAUSED


def test_one_removed_while_a_test_is_on_its_way_is_not_there_any_more(harness: Harness) -> None:
    number = harness.subscriptions.add(ANN, wish(), NOW_NS).id
    harness.deliverer.meanwhile = lambda: harness.subscriptions.remove(ANN, number)
    with pytest.raises(NoSubscription):
        harness.subscriptions.test(ANN, number, NOW_NS)
    assert harness.store.rows == []


def test_every_sign_is_handled_in_every_phase() -> None:
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
def test_the_displayed_part_of_a_url_is_not_usable(address: str, shown: str) -> None:
    assert shown_of(Target.HTTPS, address) == shown
