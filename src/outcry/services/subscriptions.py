"""Webhook subscriptions of a person: made, changed, tested and looked at. Delivering is the business of a `Deliverer`.

Rules kept: an address is judged when it is saved and when it is tested; a signing secret is shown once, when it is
made; what is shown of an address afterwards does not let anybody use it. Whose a subscription is decides whether there
is one: somebody else's number is a number nobody has. A change is made of what stands when it is kept: none undoes
another.
"""

import base64
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from outcry.accounts.keys import is_email
from outcry.core.structure.machine import move
from outcry.core.units import NANOS_PER_DAY
from outcry.ports.delivery import (
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
)
from outcry.services.sealing import Seal, SealBroken

MOST = 20
LONGEST_LABEL = 60
#: How long the secret before the newest still signs, so that a receiver can be changed over without a gap.
OVERLAP_NS = NANOS_PER_DAY
SECRET_MARK = "whsec_"  # noqa: S105 - what a secret begins with, by the Standard Webhooks form
_SECRET_BYTES = 32
_SHOWN = 4
_SLACK = re.compile(r"https://hooks\.slack(?:-gov)?\.com/services/T\w+/B\w+/\w{8,}", re.ASCII)
_DISCORD = re.compile(
    r"https://(?:(?:ptb|canary)\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{17,20}/[\w-]{60,100}",
    re.ASCII,
)


class Sign(StrEnum):
    """What moves a subscription."""

    PAUSED = "paused"  # by its owner
    RESUMED = "resumed"  # by its owner
    REFUSED = "refused"  # its endpoint will not take anything any more
    TEST_PASSED = "test passed"


_ACTIVE, _PAUSED, _DISABLED = SubscriptionPhase.ACTIVE, SubscriptionPhase.PAUSED, SubscriptionPhase.DISABLED
TRANSITIONS: dict[tuple[SubscriptionPhase, Sign], SubscriptionPhase] = {
    (_ACTIVE, Sign.PAUSED): _PAUSED,
    (_ACTIVE, Sign.RESUMED): _ACTIVE,  # asked twice
    (_ACTIVE, Sign.REFUSED): _DISABLED,
    (_ACTIVE, Sign.TEST_PASSED): _ACTIVE,
    (_PAUSED, Sign.PAUSED): _PAUSED,
    (_PAUSED, Sign.RESUMED): _ACTIVE,
    (_PAUSED, Sign.REFUSED): _DISABLED,  # an attempt was under way
    (_PAUSED, Sign.TEST_PASSED): _PAUSED,  # its owner's pause holds
    (_DISABLED, Sign.PAUSED): _DISABLED,
    (_DISABLED, Sign.RESUMED): _DISABLED,  # only a test that passes tells that it would be of use
    (_DISABLED, Sign.REFUSED): _DISABLED,
    (_DISABLED, Sign.TEST_PASSED): _ACTIVE,
}


class SubscriptionRefused(Exception):
    """A subscription cannot be as it is wished: `code` says why, `field` which entry is at fault, if one is."""

    def __init__(self, code: str, field: str = "") -> None:
        super().__init__(code)
        self.code, self.field = code, field


class NoSubscription(Exception):
    """This user has none of that number."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a subscription shall be. `symbols`: roots of the universe, empty for all."""

    target: Target
    address: str
    label: str
    symbols: tuple[str, ...]
    min_severity: Severity


@dataclass(frozen=True, slots=True)
class Made:
    """A subscription just made. `secret`: of an `https` target, the only time it is seen."""

    id: int
    secret: str | None


class Subscriptions:
    """A person's subscriptions. `seal`: what addresses and secrets are kept under. All methods may raise `StoreBusy`,
    those that name one `NoSubscription`."""

    def __init__(self, store: SubscriptionStore, deliverer: Deliverer, seal: Seal) -> None:
        self._store, self._deliverer, self._seal = store, deliverer, seal

    @property
    def running(self) -> bool:
        """Whether alerts are delivered at all."""
        return self._deliverer.running

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
        self._judge(wish)
        secret = _new_secret() if wish.target is Target.HTTPS else None
        place = place_of(user_id, now_ns)
        row = SubscriptionRow(
            id=0, user_id=user_id, target=wish.target, label=wish.label,
            sealed_address=self._seal.close(wish.address, place), shown=shown_of(wish.target, wish.address),
            symbols=wish.symbols, min_severity=wish.min_severity, phase=_ACTIVE, reason="",
            sealed_secret=self._seal.close(secret, place) if secret else None, secret_last4=(secret or "")[-_SHOWN:],
            sealed_old_secret=None, old_until_ns=None, created_ns=now_ns,
        )  # fmt: skip
        number = self._store.add_subscription(row, MOST)
        if number is None:
            raise SubscriptionRefused("too_many")
        return Made(number, secret)

    def change(self, user_id: int, subscription_id: int, wish: Wish) -> SubscriptionRow:
        """Make one as wished; an empty address keeps the one it has, the target stays. Raises `SubscriptionRefused`."""
        wish = replace(wish, target=self.one(user_id, subscription_id).target)
        self._judge(wish, address_kept=not wish.address)

        def changed(row: SubscriptionRow) -> SubscriptionRow:
            row = replace(row, label=wish.label, symbols=wish.symbols, min_severity=wish.min_severity)
            if not wish.address:
                return row
            sealed = self._seal.close(wish.address, place_of(user_id, row.created_ns))
            return replace(row, sealed_address=sealed, shown=shown_of(row.target, wish.address))

        return self._change(user_id, subscription_id, changed)

    def pause(self, user_id: int, subscription_id: int) -> bool:
        """Send nothing until it is resumed; return whether that changed anything."""
        return self._move(user_id, subscription_id, Sign.PAUSED)

    def resume(self, user_id: int, subscription_id: int) -> bool:
        """Send again; return whether that changed anything. One that is disabled stays so until a test passes."""
        return self._move(user_id, subscription_id, Sign.RESUMED)

    def remove(self, user_id: int, subscription_id: int) -> SubscriptionRow:
        """Forget one, and what is known of its deliveries."""
        row = self.one(user_id, subscription_id)
        if not self._store.remove_subscription(user_id, subscription_id):
            raise NoSubscription
        return row

    def rotate(self, user_id: int, subscription_id: int, now_ns: int) -> str:
        """Sign with a new secret, and with the one before for a day; return the new one, the only time it is seen.

        Raises `SubscriptionRefused` where the target is not signed for.
        """
        secret = _new_secret()

        def rotated(row: SubscriptionRow) -> SubscriptionRow:
            if row.sealed_secret is None:
                raise SubscriptionRefused("not_signed")
            return replace(
                row,
                sealed_secret=self._seal.close(secret, place_of(user_id, row.created_ns)),
                secret_last4=secret[-_SHOWN:],
                sealed_old_secret=row.sealed_secret,
                old_until_ns=now_ns + OVERLAP_NS,
            )

        self._change(user_id, subscription_id, rotated)
        return secret

    def test(self, user_id: int, subscription_id: int) -> TestResult:
        """Send the test alert, now; a subscription that was disabled is active again if it arrives, and its address is
        still the one it arrived at."""
        row = self.one(user_id, subscription_id)
        try:
            address, secret = self._opened(row)
        except SealBroken:
            return TestResult("address_lost", None, 0, (), "", "")
        verdict = self._deliverer.judge(row.target, address)
        if verdict != "ok":
            return TestResult(verdict, None, 0, (), "", "")
        result = self._deliverer.test(row, address, secret)
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

    def _opened(self, row: SubscriptionRow) -> tuple[str, str | None]:
        place = place_of(row.user_id, row.created_ns)
        address = self._seal.open(row.sealed_address, place)
        return address, self._seal.open(row.sealed_secret, place) if row.sealed_secret else None

    def _change(self, user_id: int, subscription_id: int, change: Change) -> SubscriptionRow:
        row = self._store.change_subscription(user_id, subscription_id, change)
        if row is None:
            raise NoSubscription
        return row

    def _move(self, user_id: int, subscription_id: int, sign: Sign) -> bool:
        phases: list[SubscriptionPhase] = []

        def moved(row: SubscriptionRow) -> SubscriptionRow:
            after = _moved(row, sign)
            phases.extend((row.phase, after.phase))
            return after

        self._change(user_id, subscription_id, moved)
        return phases[0] is not phases[1]

    def _judge(self, wish: Wish, *, address_kept: bool = False) -> None:
        if len(wish.label) > LONGEST_LABEL or not wish.label.isprintable():
            raise SubscriptionRefused("label", "label")
        if address_kept:
            return
        code = _form_fault(wish.target, wish.address) or self._deliverer.judge(wish.target, wish.address)
        if code != "ok":
            raise SubscriptionRefused(code, "address")


def _moved(row: SubscriptionRow, sign: Sign) -> SubscriptionRow:
    phase = move(TRANSITIONS, row.phase, sign)
    return replace(row, phase=phase, reason=row.reason if phase is _DISABLED else "")


def _passed(row: SubscriptionRow, tested: SubscriptionRow) -> SubscriptionRow:
    """After a test that passed: it tells nothing of an address that was given meanwhile."""
    return _moved(row, Sign.TEST_PASSED) if row.sealed_address == tested.sealed_address else row


def place_of(user_id: int, created_ns: int) -> str:
    """What a subscription's address and secrets are sealed to."""
    return f"subscription:{user_id}:{created_ns}"


def shown_of(target: Target, address: str) -> str:
    """What of an address may be shown: of a URL its host and last four characters, for the path may be a secret."""
    if target is Target.EMAIL:
        return address
    host, slash, path = address.partition("://")[2].partition("/")
    host, question, query = host.partition("?")
    rest = path if slash else query
    return host + (
        f"/…{rest[-_SHOWN:]}" if len(rest) > 2 * _SHOWN else f"{slash or question}…" if rest else ""
    )


def _form_fault(target: Target, address: str) -> str:
    """What is wrong with an address for its target, before anybody is asked; empty where nothing is."""
    if not address:
        return "address_missing"
    if target is Target.EMAIL:
        return "" if is_email(address) else "email_form"
    if target is Target.SLACK and _SLACK.fullmatch(address) is None:
        return "slack_trigger" if "slack.com/triggers/" in address else "not_slack"
    if target is Target.DISCORD and _DISCORD.fullmatch(address) is None:
        return "not_discord"
    return ""


def _new_secret() -> str:
    return SECRET_MARK + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
