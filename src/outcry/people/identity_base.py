"""Base of all sign-in methods: their shared services, the second factor, and the start of a session.

A second factor is required after every first factor. Failures are logged afterwards, so that a response takes equally
long whether an account exists or not. The user's row is read once, with the first factor, and used until the session is
stored. Reading it again could use credentials that were never checked.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from outcry.access.limiter import PromptLimiter
from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report, discard
from outcry.market.units import NANOS_PER_DAY
from outcry.people.audit import Event
from outcry.people.browser_sessions import BrowserSessions, Origin, SignedIn
from outcry.people.email_address import read_email, spellings
from outcry.people.first_run import FirstRun
from outcry.people.links import Links
from outcry.people.model import UserRow, Ways
from outcry.people.passwords import Passwords
from outcry.people.refusals import Reason, Refused
from outcry.people.second_factor import SecondFactor
from outcry.people.sign_in_limits import AttemptLimiter
from outcry.people.smtp import Mail, MailFailed, SmtpMailer
from outcry.people.store import SqlIdentityStore
from outcry.people.tickets import Tickets

if TYPE_CHECKING:  # it imports joserfc, which takes long to load
    from outcry.people.openid_provider import WebOpenIdProvider

#: Runs work in the background.
Later = Callable[[Callable[[], None]], object]
#: At five attempts a minute, an attacker with the password would guess six digits within weeks. With this daily limit
#: it takes 18 years. Recovery codes are too long to guess and are not limited.
WRONG_CODES_A_DAY = 50
_FAILURES, _BY_CODE = (Event.SIGN_IN_FAILED, Event.CONFIRM_FAILED), "code"
_HOUR_S = 3600
_HALF_WAY = "half way"


@dataclass(frozen=True, slots=True)
class SecondFactorRequired:
    """The first factor is valid and a second is required.

    `ticket`: identifies this sign-in for five minutes, in a cookie.
    """

    ticket: str


class IdentityBase:
    """Base class of all sign-in methods, with the last steps of every sign-in.

    `limiter`: limits sign-in attempts, and is used by nothing else. `later`: runs background work; a thread by default.
    `openid`: the configured provider. `first_run`: shared with the command line, which shows the token.
    """

    def __init__(
        self, store: SqlIdentityStore, browser_sessions: BrowserSessions, limiter: PromptLimiter, clock: Clock,
        secret: bytes, mailer: SmtpMailer | None = None, public_url: str = "", *, later: Later | None = None,
        openid: "WebOpenIdProvider | None" = None, first_run: FirstRun | None = None,
    ) -> None:  # fmt: skip
        self._store, self._browser_sessions, self._clock = store, browser_sessions, clock
        self._mailer, self._public_url, self._openid = mailer, public_url, openid
        self._later = later or ThreadPoolExecutor(max_workers=1, thread_name_prefix="identity").submit
        self._report: Report = discard
        self._passwords = Passwords()
        self._attempts = AttemptLimiter(limiter)
        self._tickets = Tickets(secret, clock)
        self._links = Links(store, clock, secret, public_url)
        self.first_run = first_run or FirstRun(store, self._links)
        self._codes = SecondFactor(store, clock, secret)

    def report_to(self, report: Report) -> None:
        """Set the function that logs failures of background work."""
        self._report = report

    def mail_works(self) -> bool:
        """Return whether emailed links work: both email and the service's public URL are configured."""
        return self._mailer is not None and bool(self._public_url)

    def note(self, user: UserRow, event: str, origin: Origin, **details: str) -> None:
        """Add an entry to a user's audit log."""
        now_ns = self._clock.now_ns()
        self._store.note(user.id, str(event), details, origin.address, origin.agent, now_ns)

    def shown_first(self, number: str, lasting_ns: int) -> bool:
        """Return whether a secret is being shown for the first time.

        `number`: id of the secret; `lasting_ns`: how long it can be shown.
        """
        return self._links.once("shown", number, lasting_ns)

    # -- the end of every sign-in

    def _arrive(
        self, user: UserRow, way: str, origin: Origin, openid: str = ""
    ) -> SignedIn | SecondFactorRequired:
        """Continue after a valid first factor: start the session, or require the second factor.

        `way`: the first factor, for the audit log. `openid`: the provider's subject of this user, linked once all
        factors are valid. Raises `Refused`.
        """
        if user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        if user.totp_sealed is None:
            return self._enter(self._known_as(user, openid), origin, way=way)
        version = str(user.credentials_version)
        return SecondFactorRequired(
            self._tickets.give(_HALF_WAY, user=str(user.id), way=way, openid=openid, version=version)
        )

    def second_factor(self, ticket: str, code: str, origin: Origin) -> SignedIn:
        """Finish a sign-in with an authenticator or recovery code."""
        facts = self._tickets.read(_HALF_WAY, ticket)
        if facts is None:
            raise Refused(Reason.LINK)
        self._attempts.take(origin, "code", facts["user"])
        user = self._store.user(int(facts["user"]))
        if user is None:
            raise Refused(Reason.LINK)
        if user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        if facts["version"] != str(user.credentials_version):
            raise Refused(Reason.CHANGED)
        factor = self._code_or_refuse(user, code, origin, Event.SIGN_IN_FAILED)
        user = self._known_as(user, facts["openid"])
        return self._enter(user, origin, way=facts["way"], factor=factor)

    def _known_as(self, user: UserRow, openid: str) -> UserRow:
        """Link a user to the OpenID provider's subject, and return the user.

        Raises `Refused` if another request changed the link.
        """
        if not openid or openid == user.openid:
            return user
        if not self._store.set_openid(user.id, openid, user.openid):
            raise Refused(Reason.SIGN_IN_SERVICE)
        return replace(user, openid=openid)

    def _enter(self, user: UserRow, origin: Origin, **details: str) -> SignedIn:
        """Start the browser session of a user. `user`: as read when the first factor was checked."""
        try:
            signed = self._browser_sessions.open(user, origin, self._clock.now_ns())
        except Refused:
            self._note_later(user, Event.SIGN_IN_FAILED, origin, **details)
            raise
        self.note(user, Event.SIGN_IN, origin, **details)
        return signed

    def _code_or_refuse(self, user: UserRow, code: str, origin: Origin, failure: Event) -> str:
        """Check and use up a code of a user's second factor; return its kind. Raises `Refused`."""
        exhausted = self._wrong_codes_today(user) >= WRONG_CODES_A_DAY
        factor = self._codes.use(user, code, recovery_only=exhausted)
        if factor is None:
            self._note_later(user, failure, origin, way=_BY_CODE)
            if exhausted:
                raise Refused(Reason.TOO_OFTEN, "code", retry_after_s=_HOUR_S)
            raise Refused(Reason.CODE, "code")
        if factor == "recovery":
            left = self._store.recovery_codes_left(user.id)
            self.note(user, Event.RECOVERY_USED, origin, left=str(left))
        return factor

    def _wrong_codes_today(self, user: UserRow) -> int:
        """Count wrong second-factor codes after a correct password in the last 24 hours, from the audit log."""
        since_ns = self._clock.now_ns() - NANOS_PER_DAY
        return self._store.noted(user.id, _FAILURES, _BY_CODE, since_ns)

    # -- background work

    def _soon(self, work: Callable[[], object]) -> None:
        """Run work in the background. A failure is logged."""

        def doing() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - background work: only the log can report it
                self._report(LogEvent.ACCOUNT_TASK_FAILED, problem=type(error).__name__)

        self._later(doing)

    def _note_later(self, user: UserRow, event: Event, origin: Origin, **details: str) -> None:
        self._soon(lambda: self.note(user, event, origin, **details))

    def _mail_later(self, user: UserRow | None, about: str, mail: Mail) -> None:
        self._soon(lambda: self._mail(user, about, mail))

    def _mail(self, user: UserRow | None, about: str, mail: Mail) -> bool:
        """Send an email; return whether it was sent.

        A failure is logged. `about`: what the email is about, for the log.
        """
        assert self._mailer is not None
        try:
            self._mailer.send(mail)
        except MailFailed as failure:
            self._report(LogEvent.EMAIL_FAILED, kind=about, problem=str(failure))
            if user is not None:
                self.note(user, Event.MAIL_FAILED, Origin(), about=about)
            return False
        return True

    # -- queries

    def _named(self, email: str) -> UserRow | None:
        """Return the user of a typed email address, even one in a form that was accepted under older rules."""
        found = (self._store.user_named(spelling) for spelling in spellings(email))
        return next((user for user in found if user is not None), None)

    @property
    def _ways(self) -> Ways:
        """Return the kinds of credentials that this service accepts for signing in."""
        return "any" if self._openid is not None and self._public_url else "own"

    def _has_way_in(self, user: UserRow) -> bool:
        """Return whether a user has any credentials. A user created with a key has none."""
        return (
            user.password_hash is not None
            or user.totp_sealed is not None
            or user.openid is not None
            or bool(self._store.passkeys(user.id))
        )


def address_of(text: str) -> str:
    """Validate a new email address and return it as stored. Raises `Refused`."""
    try:
        return read_email(text)
    except ValueError:
        raise Refused(Reason.EMAIL_FORM, "email") from None
