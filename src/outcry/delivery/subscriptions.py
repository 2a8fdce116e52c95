"""A user's webhook subscriptions: create, change, test and view them. `Delivery` sends their messages.

A URL is checked when it is saved and when it is tested. A signing secret is displayed once, when it is created. Of a
saved URL only a part is displayed, too short to send anything to it. Another user's subscription behaves like a missing
one. Changes apply to the stored subscription, so two changes at once do not undo each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outcry.access.licences import Scope
from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.delivery.model import (
    AttemptRow,
    Change,
    Outcome,
    Severity,
    SubscriptionPhase,
    SubscriptionRow,
    Target,
    TestResult,
    Window,
)
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Backlog, DeliveryStatus, Queue
from outcry.delivery.service import Delivery
from outcry.delivery.signing_secrets import (
    OVERLAP_NS,
    end_of,
    new_secret,
    opened,
    place_of,
    rotated,
)
from outcry.delivery.subscription_phases import Sign, moved_on
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.delivery.target_addresses import form_fault, shown_of

MOST = 20
LONGEST_LABEL = 60


class SubscriptionRefused(Exception):
    """The subscription is invalid. `code`: the reason; `field`: the invalid field, if there is one."""

    def __init__(self, code: str, field: str = "") -> None:
        super().__init__(code)
        self.code, self.field = code, field


class NoSubscription(Exception):
    """The user has no subscription with this id."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Settings that a user chose for a subscription.

    `symbols`: product roots such as `ES`, empty for all. `ordered` applies to `https`, `window` and `at_once` to email;
    see `SubscriptionRow`.
    """

    target: Target
    address: str
    label: str
    symbols: tuple[str, ...]
    min_severity: Severity
    ordered: bool = False
    window: Window = "hour"
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """The result of creating a subscription.

    `secret`: signing secret of an `https` target, displayed once. `verdict`: result of checking the URL: `ok`, or
    `unverified` if its host cannot be resolved now.
    """

    id: int
    secret: str | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The result of changing a subscription.

    `verdict`: result of checking the URL, as in `Made`; `ok` if the URL or email address did not change.
    """

    row: SubscriptionRow
    verdict: str


class Subscriptions:
    """Operations on users' webhook subscriptions.

    All methods may raise `StoreBusy`; those with a subscription id may raise `NoSubscription`.
    """

    def __init__(
        self, store: SqlSubscriptionStore, outbox: SqlOutbox, deliverer: Delivery, encryptor: Encryptor
    ) -> None:
        self._store, self._outbox, self._deliverer, self._encryptor = store, outbox, deliverer, encryptor

    @property
    def running(self) -> bool:
        """Return whether delivery runs."""
        return self._deliverer.running

    @property
    def admitted(self) -> Sequence[str]:
        """Return the hosts to which deliveries are allowed although they may be private (set by the operator)."""
        return self._deliverer.admitted

    def of(self, user_id: int) -> Sequence[SubscriptionRow]:
        """Return a user's subscriptions, oldest first."""
        return self._store.subscriptions(user_id)

    def one(self, user_id: int, subscription_id: int) -> SubscriptionRow:
        """Return a subscription of this user."""
        row = self._store.subscription(user_id, subscription_id)
        if row is None:
            raise NoSubscription
        return row

    def add(self, user_id: int, wish: Wish, now_ns: int) -> Made:
        """Create a subscription. Raises `SubscriptionRefused`."""
        verdict = self._check(wish)
        secret = new_secret() if wish.target is Target.HTTPS else None
        place = place_of(user_id, now_ns)
        row = SubscriptionRow(
            id=0, user_id=user_id, target=wish.target, label=wish.label,
            sealed_address=self._encryptor.encrypt(wish.address, place), shown=shown_of(wish.target, wish.address),
            symbols=wish.symbols, min_severity=wish.min_severity, reason="",
            phase=SubscriptionPhase.UNCONFIRMED if wish.target is Target.EMAIL else SubscriptionPhase.ACTIVE,
            sealed_secret=self._encryptor.encrypt(secret, place) if secret else None, secret_last4=end_of(secret or ""),
            sealed_old_secret=None, old_until_ns=None, created_ns=now_ns,
            ordered=wish.ordered, window=wish.window, at_once=wish.at_once,
        )  # fmt: skip
        number = self._store.add_subscription(row, MOST)
        if number is None:
            raise SubscriptionRefused("too_many")
        return Made(number, secret, verdict)

    def change(self, user_id: int, subscription_id: int, wish: Wish) -> Changed:
        """Change a subscription.

        An empty URL or email address keeps the current one. The target cannot change. Raises `SubscriptionRefused`.
        """
        wish = replace(wish, target=self.one(user_id, subscription_id).target)
        verdict = self._check(wish, same_address=not wish.address)

        def changed(row: SubscriptionRow) -> SubscriptionRow:
            row = replace(
                row, label=wish.label, symbols=wish.symbols, min_severity=wish.min_severity,
                ordered=wish.ordered, window=wish.window, at_once=wish.at_once,
            )  # fmt: skip
            if not wish.address:
                return row
            if row.target is Target.EMAIL:
                if wish.address == self._address_of(row):
                    return row  # otherwise the link that its reader received would become invalid
                row = row if wish.address == row.shown else moved_on(row, Sign.MOVED)
            return self._addressed(row, wish.address)

        row = self._change(user_id, subscription_id, changed)
        self._deliverer.wake()
        return Changed(row, verdict)

    def pause(self, user_id: int, subscription_id: int) -> bool:
        """Pause deliveries; return whether that changed anything."""
        return self._move(user_id, subscription_id, Sign.PAUSED)

    def resume(self, user_id: int, subscription_id: int) -> bool:
        """Resume deliveries; return whether that changed anything.

        A disabled subscription stays disabled until a test succeeds.
        """
        return self._move(user_id, subscription_id, Sign.RESUMED)

    def confirm(self, user_id: int, subscription_id: int) -> bool:
        """Record that the reader of an email address agreed; return whether that changed anything."""
        return self._move(user_id, subscription_id, Sign.CONFIRMED)

    def unsubscribe(self, user_id: int, subscription_id: int) -> bool:
        """Record that the reader unsubscribed: nothing is sent until they agree again.

        Return whether that changed anything.
        """

        def with_new_seal(row: SubscriptionRow) -> SubscriptionRow:
            """Encrypt the email address again.

            This invalidates earlier links to agree, which contain a digest of the ciphertext.
            """
            address = self._address_of(row)
            return row if address is None else self._addressed(row, address)

        return self._move(user_id, subscription_id, Sign.UNSUBSCRIBED, "unsubscribed", with_new_seal)

    def remove(self, user_id: int, subscription_id: int) -> SubscriptionRow:
        """Delete a subscription and its delivery log."""
        row = self.one(user_id, subscription_id)
        if not self._store.remove_subscription(user_id, subscription_id):
            raise NoSubscription
        return row

    def rotate(self, user_id: int, subscription_id: int, now_ns: int, overlap_ns: int = OVERLAP_NS) -> str:
        """Create a new signing secret and return it; the previous one stays valid for `overlap_ns`.

        The new secret is not displayed again. Raises `SubscriptionRefused` if the target is not signed.
        """
        secret = new_secret()

        def changed(row: SubscriptionRow) -> SubscriptionRow:
            if row.sealed_secret is None:
                raise SubscriptionRefused("not_signed")
            return rotated(self._encryptor, row, secret, overlap_ns, now_ns)

        self._change(user_id, subscription_id, changed)
        return secret

    def test(self, user_id: int, subscription_id: int, now_ns: int) -> TestResult:
        """Send a test alert to a webhook now.

        A success enables a disabled subscription, unless the URL changed during the test. If the reader of an email
        address has not confirmed it, no test is sent.
        """
        row = self.one(user_id, subscription_id)
        if row.phase is SubscriptionPhase.UNCONFIRMED:
            return TestResult("unconfirmed", None, 0, (), "", "")
        try:
            address, signing = opened(self._encryptor, row, now_ns)
        except DecryptionFailed:
            return TestResult("address_lost", None, 0, (), "", "")
        result = self._deliverer.test(row, address, signing)
        if result.code == "ok":
            self._change(user_id, subscription_id, lambda now: _passed(now, row))
        return result

    def attempts(
        self,
        user_id: int,
        subscription_id: int,
        before: int | None,
        limit: int,
        outcome: Outcome | None = None,
    ) -> Sequence[AttemptRow]:
        """Return delivery attempts of a user's subscription, newest first, optionally of one outcome."""
        return self._store.attempts(user_id, subscription_id, before, limit, outcome)

    # -- backlog and resending

    def queue(self, user_id: int, subscription_id: int) -> Queue:
        """Return the delivery state of a user's subscription."""
        return self._outbox.queue(self.one(user_id, subscription_id).id)

    def backlog(self, user_id: int, subscription_id: int) -> Backlog:
        """Return how many alerts wait, are on hold because the subscription is disabled, or failed."""
        return self._outbox.backlog(user_id, subscription_id)

    def status(self, now_ns: int) -> DeliveryStatus:
        """Return how many subscriptions are in each phase, failing or late. For the operator's pages."""
        return self._outbox.status(now_ns)

    def resend_one(self, scope: Scope, subscription_id: int, message_id: str, now_ns: int) -> int:
        """Resend the alerts of a message under its id; return their number.

        Only alerts that the owner may see now are included (`scope`).
        """
        count = self._outbox.resend_one(scope.user_id, subscription_id, message_id, now_ns, scope)
        return self._wake_queues(count)

    def resend_failed(self, scope: Scope, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """Resend alerts that were on hold or failed since `since_ns`; return their number.

        Only alerts that the owner may see now are included (`scope`).
        """
        count = self._outbox.resend_failed(scope.user_id, subscription_id, since_ns, now_ns, scope)
        return self._wake_queues(count)

    def resend_missing(self, scope: Scope, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """Send alerts since `since_ns` that the subscription missed while paused or not yet created.

        Return their number. Only alerts that the owner may see now are included (`scope`).
        """
        return self._wake_queues(self._outbox.resend_missing(scope, subscription_id, since_ns, now_ns))

    def _wake_queues(self, count: int) -> int:
        if count:
            self._deliverer.wake()
        return count

    def _change(self, user_id: int, subscription_id: int, change: Change) -> SubscriptionRow:
        row = self._store.change_subscription(user_id, subscription_id, change)
        if row is None:
            raise NoSubscription
        return row

    def _address_of(self, row: SubscriptionRow) -> str | None:
        """Decrypt the URL or email address; None if it was encrypted with another secret."""
        try:
            return self._encryptor.decrypt(row.sealed_address, place_of(row.user_id, row.created_ns))
        except DecryptionFailed:
            return None

    def _addressed(self, row: SubscriptionRow, address: str) -> SubscriptionRow:
        sealed = self._encryptor.encrypt(address, place_of(row.user_id, row.created_ns))
        return replace(row, sealed_address=sealed, shown=shown_of(row.target, address))

    def _move(
        self, user_id: int, subscription_id: int, sign: Sign, reason: str = "", also: Change = lambda row: row
    ) -> bool:
        phases: list[SubscriptionPhase] = []

        def moved(row: SubscriptionRow) -> SubscriptionRow:
            after = moved_on(row, sign, reason)
            phases.extend((row.phase, after.phase))
            return also(after)

        self._change(user_id, subscription_id, moved)
        self._deliverer.wake()
        return phases[0] is not phases[1]

    def _check(self, wish: Wish, *, same_address: bool = False) -> str:
        """Check a user's settings and URL; return `ok` or `unverified`. Raises `SubscriptionRefused`."""
        if len(wish.label) > LONGEST_LABEL or not wish.label.isprintable():
            raise SubscriptionRefused("label", "label")
        if same_address:
            return "ok"
        code = form_fault(wish.target, wish.address) or self._deliverer.check_url(wish.target, wish.address)
        if code not in {"ok", "unverified"}:
            raise SubscriptionRefused(code, "address")
        return code


def _passed(row: SubscriptionRow, tested: SubscriptionRow) -> SubscriptionRow:
    """Return the subscription after a successful test, unchanged if its URL changed during the test.

    `tested`: the subscription as it was tested.
    """
    return moved_on(row, Sign.TEST_PASSED) if row.sealed_address == tested.sealed_address else row
