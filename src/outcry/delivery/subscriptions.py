"""Webhook subscriptions of a person: made, changed, tested and looked at. Delivering is the business of a `Deliverer`.

Rules kept: an address is judged when it is saved and when it is tested; a signing secret is shown once, when it is
made; what is shown of an address afterwards does not let anybody use it. Whose a subscription is decides whether there
is one: somebody else's number is a number nobody has. A change is made of what stands when it is kept: none undoes
another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outcry.access.licences import Scope
from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.delivery.model import (
    AttemptRow,
    Change,
    Deliverer,
    Outcome,
    Severity,
    SubscriptionPhase,
    SubscriptionRow,
    SubscriptionStore,
    Target,
    TestResult,
    Window,
)
from outcry.delivery.outbox_model import Backlog, DeliveryStatus, Outbox, Queue
from outcry.delivery.signing_secrets import (
    OVERLAP_NS,
    end_of,
    new_secret,
    opened,
    place_of,
    rotated,
)
from outcry.delivery.subscription_phases import Sign, moved_on
from outcry.delivery.target_addresses import form_fault, shown_of

MOST = 20
LONGEST_LABEL = 60


class SubscriptionRefused(Exception):
    """A subscription cannot be as it is wished: `code` says why, `field` which entry is at fault, if one is."""

    def __init__(self, code: str, field: str = "") -> None:
        super().__init__(code)
        self.code, self.field = code, field


class NoSubscription(Exception):
    """This user has none of that number."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a subscription shall be. `symbols`: roots of the universe, empty for all. `ordered`: of an `https` target;
    `window` and `at_once`: of e-mail (`SubscriptionRow`)."""

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
    """A subscription just made. `secret`: of an `https` target, the only time it is seen. `verdict`: `ok`, or
    `unverified` where no host of its address can be found now."""

    id: int
    secret: str | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A subscription just changed. `verdict`: as of one just made; `ok` where the address is the one it was."""

    row: SubscriptionRow
    verdict: str


class Subscriptions:
    """A user's subscriptions. `encryptor`: encrypts URLs and secrets. All methods may raise `StoreBusy`; those that
    name a subscription may raise `NoSubscription`."""

    def __init__(
        self, store: SubscriptionStore, outbox: Outbox, deliverer: Deliverer, encryptor: Encryptor
    ) -> None:
        self._store, self._outbox, self._deliverer, self._encryptor = store, outbox, deliverer, encryptor

    @property
    def running(self) -> bool:
        """Whether alerts are delivered at all."""
        return self._deliverer.running

    @property
    def admitted(self) -> Sequence[str]:
        """Hosts that need not be public, by the operator's explicit setting."""
        return self._deliverer.admitted

    def of(self, user_id: int) -> Sequence[SubscriptionRow]:
        """A user's, oldest first."""
        return self._store.subscriptions(user_id)

    def one(self, user_id: int, subscription_id: int) -> SubscriptionRow:
        """One of this user's."""
        row = self._store.subscription(user_id, subscription_id)
        if row is None:
            raise NoSubscription
        return row

    def add(self, user_id: int, wish: Wish, now_ns: int) -> Made:
        """Make one. Raises `SubscriptionRefused`."""
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
        """Make one as wished; an empty address keeps the one it has, the target stays. Raises `SubscriptionRefused`."""
        wish = replace(wish, target=self.one(user_id, subscription_id).target)
        verdict = self._check(wish, address_kept=not wish.address)

        def changed(row: SubscriptionRow) -> SubscriptionRow:
            row = replace(
                row, label=wish.label, symbols=wish.symbols, min_severity=wish.min_severity,
                ordered=wish.ordered, window=wish.window, at_once=wish.at_once,
            )  # fmt: skip
            if not wish.address:
                return row
            if row.target is Target.EMAIL:
                if wish.address == self._address_of(row):
                    return row  # what its reader was asked can still be answered
                row = row if wish.address == row.shown else moved_on(row, Sign.MOVED)
            return self._addressed(row, wish.address)

        row = self._change(user_id, subscription_id, changed)
        self._deliverer.wake()
        return Changed(row, verdict)

    def pause(self, user_id: int, subscription_id: int) -> bool:
        """Send nothing until it is resumed; return whether that changed anything."""
        return self._move(user_id, subscription_id, Sign.PAUSED)

    def resume(self, user_id: int, subscription_id: int) -> bool:
        """Send again; return whether that changed anything. One that is disabled stays so until a test passes."""
        return self._move(user_id, subscription_id, Sign.RESUMED)

    def confirm(self, user_id: int, subscription_id: int) -> bool:
        """Whoever reads at its e-mail address wants what it sends; return whether that changed anything."""
        return self._move(user_id, subscription_id, Sign.CONFIRMED)

    def unsubscribe(self, user_id: int, subscription_id: int) -> bool:
        """Whoever reads at its e-mail address wants no more of it: nothing is sent until they confirm anew. Return
        whether that changed anything."""

        def sealed_anew(row: SubscriptionRow) -> SubscriptionRow:
            """A yes to what was asked before holds for the address as it was sealed then (`ConsentLinks`)."""
            address = self._address_of(row)
            return row if address is None else self._addressed(row, address)

        return self._move(user_id, subscription_id, Sign.UNSUBSCRIBED, "unsubscribed", sealed_anew)

    def remove(self, user_id: int, subscription_id: int) -> SubscriptionRow:
        """Forget one, and what is known of its deliveries."""
        row = self.one(user_id, subscription_id)
        if not self._store.remove_subscription(user_id, subscription_id):
            raise NoSubscription
        return row

    def rotate(self, user_id: int, subscription_id: int, now_ns: int, overlap_ns: int = OVERLAP_NS) -> str:
        """Sign with a new secret, and with the one before for a while; return the new one, the only time it is seen.

        Raises `SubscriptionRefused` where the target is not signed for.
        """
        secret = new_secret()

        def changed(row: SubscriptionRow) -> SubscriptionRow:
            if row.sealed_secret is None:
                raise SubscriptionRefused("not_signed")
            return rotated(self._encryptor, row, secret, overlap_ns, now_ns)

        self._change(user_id, subscription_id, changed)
        return secret

    def test(self, user_id: int, subscription_id: int, now_ns: int) -> TestResult:
        """Send the test alert, now; a subscription that was disabled is active again if it arrives, and its address is
        still the one it arrived at. To an unconfirmed address nothing is sent."""
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
        """What was attempted for one of this user's, newest first; of one outcome, if one is given."""
        return self._store.attempts(user_id, subscription_id, before, limit, outcome)

    # -- what waits, and what is sent again

    def queue(self, user_id: int, subscription_id: int) -> Queue:
        """How delivering to one of this user's stands."""
        return self._outbox.queue(self.one(user_id, subscription_id).id)

    def backlog(self, user_id: int, subscription_id: int) -> Backlog:
        """What waits for one of this user's, is held, or was given up."""
        return self._outbox.backlog(user_id, subscription_id)

    def standing(self, now_ns: int) -> DeliveryStatus:
        """How delivering stands with everybody's, for the operator."""
        return self._outbox.standing(now_ns)

    def resend_one(self, scope: Scope, subscription_id: int, message_id: str, now_ns: int) -> int:
        """Send the alerts of one message again, under its id, as far as the scope of its owner sees them now; return
        how many there are."""
        count = self._outbox.resend_one(scope.user_id, subscription_id, message_id, now_ns, scope)
        return self._woken(count)

    def resend_failed(self, scope: Scope, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """Send again what was held or given up since then, as far as the scope of its owner sees it now; return how
        many alerts that is."""
        count = self._outbox.resend_failed(scope.user_id, subscription_id, since_ns, now_ns, scope)
        return self._woken(count)

    def resend_missing(self, scope: Scope, subscription_id: int, since_ns: int, now_ns: int) -> int:
        """Send what was recorded since then and never was to be sent, for it was paused or not yet made; as far as the
        scope of its owner sees it. Return how many alerts that is."""
        return self._woken(self._outbox.resend_missing(scope, subscription_id, since_ns, now_ns))

    def _woken(self, count: int) -> int:
        if count:
            self._deliverer.wake()
        return count

    def _change(self, user_id: int, subscription_id: int, change: Change) -> SubscriptionRow:
        row = self._store.change_subscription(user_id, subscription_id, change)
        if row is None:
            raise NoSubscription
        return row

    def _address_of(self, row: SubscriptionRow) -> str | None:
        """Where it leads; None where that was sealed with another secret, as links in mail were signed with."""
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

    def _check(self, wish: Wish, *, address_kept: bool = False) -> str:
        """`ok`, or `unverified`. Raises `SubscriptionRefused`."""
        if len(wish.label) > LONGEST_LABEL or not wish.label.isprintable():
            raise SubscriptionRefused("label", "label")
        if address_kept:
            return "ok"
        code = form_fault(wish.target, wish.address) or self._deliverer.check_url(wish.target, wish.address)
        if code not in {"ok", "unverified"}:
            raise SubscriptionRefused(code, "address")
        return code


def _passed(row: SubscriptionRow, tested: SubscriptionRow) -> SubscriptionRow:
    """After a test that passed: it tells nothing of an address that was given meanwhile."""
    return moved_on(row, Sign.TEST_PASSED) if row.sealed_address == tested.sealed_address else row
