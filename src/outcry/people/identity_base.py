"""The ground all of identity stands on: the parts each way in uses, and the one door behind them.

Rules kept: whoever has given a first proof still gives the second where one is wanted, whichever way was taken; what is
noted of a failure is noted afterwards, so that an account that exists answers no later than one that does not. The user
is read once, with the first proof, and that row goes with the sign-in until the session is inserted: read again, it
would carry credentials that nobody proved.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from outcry.access.limiter import PromptLimiter
from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report, discard
from outcry.market.units import NANOS_PER_DAY
from outcry.people.audit import Event
from outcry.people.browser_sessions import BrowserSessions, Origin, SignedIn
from outcry.people.email_address import read_email, spellings
from outcry.people.links import Links
from outcry.people.mailer import Mail, Mailer, MailFailed
from outcry.people.model import IdentityStore, UserRow, Ways
from outcry.people.openid_model import OpenIdProvider
from outcry.people.passwords import Passwords
from outcry.people.refusals import Reason, Refused
from outcry.people.second_factor import SecondFactor
from outcry.people.sign_in_limits import AttemptLimiter
from outcry.people.tickets import Tickets

#: Does something soon, elsewhere.
Later = Callable[[Callable[[], None]], object]
#: Six digits would be guessed in weeks by somebody who has the password, at five tries a minute; so many a day take
#: eighteen years, and a line of the log each. Recovery codes are too long to guess, and go on being taken.
WRONG_CODES_A_DAY = 50
_FAILURES, _BY_CODE = (Event.SIGN_IN_FAILED, Event.CONFIRM_FAILED), "code"
_HOUR_S = 3600
_HALF_WAY = "half way"


@dataclass(frozen=True, slots=True)
class SecondFactorRequired:
    """The password was right and a second factor is wanted: `ticket` names this, for five minutes, in a cookie."""

    ticket: str


class IdentityBase:
    """The parts, and what every way in ends with. `limiter`: not used by anything else. `later`: does what nobody waits
    for; a thread, unless told otherwise. `openid`: by whom people may come in too."""

    def __init__(
        self, store: IdentityStore, browser_sessions: BrowserSessions, limiter: PromptLimiter, clock: Clock,
        secret: bytes, mailer: Mailer | None = None, public_url: str = "", *, later: Later | None = None,
        openid: OpenIdProvider | None = None,
    ) -> None:  # fmt: skip
        self._store, self._browser_sessions, self._clock = store, browser_sessions, clock
        self._mailer, self._public_url, self._openid = mailer, public_url, openid
        self._later = later or ThreadPoolExecutor(max_workers=1, thread_name_prefix="identity").submit
        self._report: Report = discard
        self._after_set_up: Callable[[], object] = lambda: None
        self._passwords = Passwords()
        self._attempts = AttemptLimiter(limiter)
        self._tickets = Tickets(secret, clock)
        self._links = Links(store, clock, secret, public_url)
        self._codes = SecondFactor(store, clock, secret)

    def report_to(self, report: Report) -> None:
        """Tell of what went wrong afterwards, when nobody waited for it: in the operator's log."""
        self._report = report

    def after_set_up(self, work: Callable[[], object]) -> None:
        """Do this once the first operator was made here."""
        self._after_set_up = work

    def mail_works(self) -> bool:
        """Whether mail is configured, and with it the address that links in it begin with."""
        return self._mailer is not None and bool(self._public_url)

    def note(self, user: UserRow, event: str, origin: Origin, **details: str) -> None:
        """Add a line to a user's audit log: for what other parts do in the user's name."""
        now_ns = self._clock.now_ns()
        self._store.note(user.id, str(event), details, origin.address, origin.agent, now_ns)

    def shown_first(self, number: str, lasting_ns: int) -> bool:
        """Whether a secret is shown now for the first time, by the number it is known by; it could be shown so long."""
        return self._links.once("shown", number, lasting_ns)

    # -- the door

    def _arrive(
        self, user: UserRow, way: str, origin: Origin, openid: str = ""
    ) -> SignedIn | SecondFactorRequired:
        """A first proof was given: in, or on to the second factor. `openid`: by what the provider knows this user,
        which is kept once all proofs are given. Raises `Refused`."""
        if user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        if user.totp_sealed is None:
            return self._enter(self._known_as(user, openid), origin, way=way)
        version = str(user.credentials_version)
        return SecondFactorRequired(
            self._tickets.give(_HALF_WAY, user=str(user.id), way=way, openid=openid, version=version)
        )

    def second_factor(self, ticket: str, code: str, origin: Origin) -> SignedIn:
        """Finish a sign-in with a code of the authenticator or a recovery code."""
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
        """Keep by what the provider knows a user, if it does. Raises `Refused` where somebody was quicker."""
        if not openid or openid == user.openid:
            return user
        if not self._store.set_openid(user.id, openid, user.openid):
            raise Refused(Reason.SIGN_IN_SERVICE)
        return replace(user, openid=openid)

    def _enter(self, user: UserRow, origin: Origin, **details: str) -> SignedIn:
        """Begin the session. `user`: as read when the proof was checked."""
        try:
            signed = self._browser_sessions.open(user, origin, self._clock.now_ns())
        except Refused:
            self._note_later(user, Event.SIGN_IN_FAILED, origin, **details)
            raise
        self.note(user, Event.SIGN_IN, origin, **details)
        return signed

    def _code_or_refuse(self, user: UserRow, code: str, origin: Origin, failure: Event) -> str:
        """Take a code of a user's second factor; return which kind it was. Raises `Refused`."""
        worn_out = self._wrong_codes_today(user) >= WRONG_CODES_A_DAY
        factor = self._codes.use(user, code, recovery_only=worn_out)
        if factor is None:
            self._note_later(user, failure, origin, way=_BY_CODE)
            if worn_out:
                raise Refused(Reason.TOO_OFTEN, "code", retry_after_s=_HOUR_S)
            raise Refused(Reason.CODE, "code")
        if factor == "recovery":
            left = self._store.recovery_codes_left(user.id)
            self.note(user, Event.RECOVERY_USED, origin, left=str(left))
        return factor

    def _wrong_codes_today(self, user: UserRow) -> int:
        """How many wrong codes followed right passwords within a day, as noted in the audit log."""
        since_ns = self._clock.now_ns() - NANOS_PER_DAY
        return self._store.noted(user.id, _FAILURES, _BY_CODE, since_ns)

    # -- what nobody waits for

    def _soon(self, work: Callable[[], object]) -> None:
        """Do it elsewhere; what goes wrong there is told of in the operator's log."""

        def doing() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - nobody waits for it, so nobody else would hear of it
                self._report(LogEvent.ACCOUNT_TASK_FAILED, problem=type(error).__name__)

        self._later(doing)

    def _note_later(self, user: UserRow, event: Event, origin: Origin, **details: str) -> None:
        self._soon(lambda: self.note(user, event, origin, **details))

    def _mail_later(self, user: UserRow | None, about: str, mail: Mail) -> None:
        self._soon(lambda: self._mail(user, about, mail))

    def _mail(self, user: UserRow | None, about: str, mail: Mail) -> bool:
        """Hand a mail over; a failure goes to the operator's log, and the user's. Return whether it went."""
        assert self._mailer is not None
        try:
            self._mailer.send(mail)
        except MailFailed as failure:
            self._report(LogEvent.EMAIL_FAILED, kind=about, problem=str(failure))
            if user is not None:
                self.note(user, Event.MAIL_FAILED, Origin(), about=about)
            return False
        return True

    # -- what is asked in several places

    def _named(self, email: str) -> UserRow | None:
        """Return the user of an address as somebody typed it; one accepted under older rules is found too."""
        found = (self._store.user_named(spelling) for spelling in spellings(email))
        return next((user for user in found if user is not None), None)

    @property
    def _ways(self) -> Ways:
        """What counts here as a way in that remains."""
        return "any" if self._openid is not None and self._public_url else "own"

    def _has_way_in(self, user: UserRow) -> bool:
        """Whether this user has ever been in: one made with a key only has nothing to prove who it is with."""
        return (
            user.password_hash is not None
            or user.totp_sealed is not None
            or user.openid is not None
            or bool(self._store.passkeys(user.id))
        )


def address_of(text: str) -> str:
    """Return a new email address as it is stored. Raises `Refused`."""
    try:
        return read_email(text)
    except ValueError:
        raise Refused(Reason.EMAIL_FORM, "email") from None
