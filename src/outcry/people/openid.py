"""Sign-in through an OpenID provider, if the operator configured one.

The provider identifies a person. The person can sign in only with an account in use or an invitation. The first sign-in
matches the account by an email address that the provider has verified. Later sign-ins use the provider's subject,
because an email address can pass to another person. A ticket in a cookie ties request and response to one browser. A
second factor enabled here is still required, and a user who has one cannot confirm their identity through the provider
alone.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outcry.base.log_events import LogEvent
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.people.administration import UserAdministration
from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.identity_base import SecondFactorRequired, address_of
from outcry.people.model import BrowserSession, TokenRow, UserRow
from outcry.people.openid_model import OpenIdAnswer, OpenIdFailed, OpenIdRequest
from outcry.people.refusals import Reason, Refused

if TYPE_CHECKING:  # it imports joserfc, which takes long to load
    from outcry.people.openid_provider import WebOpenIdProvider

CALLBACK = "/sign-in/openid/callback"
TICKET_NS = 10 * NANOS_PER_MINUTE
_PURPOSE = "openid"
_LONGEST_NEXT = 1_000
_LONGEST_CODE = 4_000
#: The provider's clock may be this far behind ours.
_SKEW_NS = NANOS_PER_MINUTE
#: An unreachable provider is not contacted again for this long, because every visitor would wait for its timeout.
_RETRY_AFTER_NS = 30 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class OpenIdOutcome:
    """The result of a sign-in through the provider.

    `came`: the started session, or that a second factor is required; None if a signed-in user only confirmed their
    identity, and `token` is then the browser's new token. `next`: the path to continue at, not validated yet.
    """

    came: SignedIn | SecondFactorRequired | None
    token: str
    next: str


class OpenId(UserAdministration):
    """Sign-in through an OpenID provider."""

    #: When the provider was last unreachable; None if it has answered since.
    _unavailable_since_ns: int | None = None

    def openid_name(self) -> str:
        """Return the provider's name; empty without a provider."""
        return self._openid.name if self._openid is not None and self._public_url else ""

    def begin_openid(
        self, next_path: str, *, invitation: str = "", session: BrowserSession | None = None
    ) -> tuple[str, str]:
        """Return the URL to send the browser to and the ticket for its cookie, valid for ten minutes.

        `session`: given to confirm the identity of its user. `invitation`: token of an invitation, for a person without
        an account.
        """
        provider = self._provider()
        if session is not None:
            self._no_second_factor(session)
        facts = {
            "state": secrets.token_urlsafe(24),
            "nonce": secrets.token_urlsafe(24),
            "verifier": secrets.token_urlsafe(48),
            "session": str(session.id) if session else "",
            "invitation": invitation[:100],
            "next": next_path if len(next_path) <= _LONGEST_NEXT else "/",
            "begun": str(self._clock.now_ns()),
        }
        now_ns = self._clock.now_ns()
        since_ns = self._unavailable_since_ns
        if since_ns is not None and 0 <= now_ns - since_ns < _RETRY_AFTER_NS:
            raise Refused(Reason.SIGN_IN_SERVICE)
        try:
            address = provider.address(self._request(facts))
        except OpenIdFailed as failure:
            self._unavailable_since_ns = self._clock.now_ns()
            raise self._failed(failure) from None
        self._unavailable_since_ns = None
        return address, self._tickets.give(_PURPOSE, TICKET_NS, **facts)

    def finish_openid(
        self, ticket: str, given: Mapping[str, str], session: BrowserSession | None, origin: Origin
    ) -> OpenIdOutcome:
        """Complete a sign-in after the browser returned from the provider.

        `given`: query parameters the provider sent; `session`: of this browser, if any.
        """
        provider = self._provider()
        facts = self._tickets.read(_PURPOSE, ticket)
        if facts is None or not hmac.compare_digest(given.get("state", "").encode(), facts["state"].encode()):
            raise Refused(Reason.LINK)
        # Counted here and not at the start, because any site can make a browser open the start URL, but has no ticket.
        self._attempts.take(origin)
        code = given.get("code", "")
        if not code or len(code) > _LONGEST_CODE:  # the person or the provider declined
            raise Refused(Reason.SIGN_IN_SERVICE)
        try:
            answer = provider.answer(code, self._request(facts))
        except OpenIdFailed as failure:
            raise self._failed(failure) from None
        if facts["session"]:
            return OpenIdOutcome(None, self._confirmed(facts, answer, session, origin), facts["next"])
        user = self._account_of(answer) or self._new_user(answer, facts["invitation"], origin)
        return OpenIdOutcome(self._arrive(user, "openid", origin, _person(answer)), "", facts["next"])

    def _account_of(self, answer: OpenIdAnswer) -> UserRow | None:
        """Return the account of the provider's subject, or of the email address that the provider has verified.

        The account linked to the subject is used even if its email address differs from the provider's. An account
        found by email address must be in use, and not linked to another subject of this provider. Raises `Refused`.
        """
        user = self._store.user_of_openid(_person(answer))
        if user is not None:
            return user
        user = self._named(_address_in(answer))
        if user is None:
            return None
        if user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        if user.openid is not None and user.openid.startswith(f"{answer.issuer} "):
            self._report(LogEvent.OPENID_SUBJECT_CHANGED, user_id=user.id)
            raise Refused(Reason.NOT_INVITED)
        return user if self._has_way_in(user) else None

    def _confirmed(
        self, facts: Mapping[str, str], answer: OpenIdAnswer, session: BrowserSession | None, origin: Origin
    ) -> str:
        """Confirm the identity of a session's user through the provider; return the browser's new token.

        Raises `Refused` unless that user has just authenticated there.
        """
        now_ns = self._clock.now_ns()
        since_ns = int(facts["begun"]) - _SKEW_NS
        user = self._browser_sessions.active_user(session.id, now_ns) if session else None
        fresh = answer.authenticated_ns is not None and answer.authenticated_ns >= since_ns
        if session is None or user is None or facts["session"] != str(session.id):
            raise Refused(Reason.LINK)
        self._no_second_factor(session)
        account = self._account_of(answer) if fresh else None
        if account is None or account.id != user.id:
            raise Refused(Reason.SIGN_IN_SERVICE)
        self._known_as(account, _person(answer))
        return self._browser_sessions.confirm(session, account, origin, now_ns)

    def _no_second_factor(self, session: BrowserSession) -> None:
        """Raise `Refused` if the session's user has a second factor: the provider counts as one factor only."""
        user = self._store.user(session.user_id)
        if user is not None and user.totp_sealed is not None:
            raise Refused(Reason.CODE_TOO)

    def _new_user(self, answer: OpenIdAnswer, token: str, origin: Origin) -> UserRow:
        """Create the account of an invited person, by the invitation's link or for its email address."""
        email = address_of(_address_in(answer))
        by_link = self._links.find("invite", token)
        named = [row for row in self._links.open("invite") if row.email == email]
        invitation: TokenRow | None = by_link if by_link and by_link.email in ("", email) else None
        if invitation is None and named:
            invitation = named[0]
        if invitation is None:
            raise Refused(Reason.NOT_INVITED)
        user = self.admit(invitation, email, openid=_person(answer))
        self.note(user, Event.INVITATION_ACCEPTED, origin)
        return user

    def _request(self, facts: Mapping[str, str]) -> OpenIdRequest:
        callback = f"{self._public_url.rstrip('/')}{CALLBACK}"
        return OpenIdRequest(
            callback, facts["state"], facts["nonce"], facts["verifier"], bool(facts["session"])
        )

    def _provider(self) -> "WebOpenIdProvider":
        if self._openid is None or not self._public_url:
            raise Refused(Reason.SIGN_IN_SERVICE)
        return self._openid

    def _failed(self, failure: OpenIdFailed) -> Refused:
        self._report(LogEvent.OPENID_SIGN_IN_FAILED, problem=str(failure))
        return Refused(Reason.SIGN_IN_SERVICE)


def _person(answer: OpenIdAnswer) -> str:
    """Return issuer and subject, which identify a person at a provider, as one text."""
    return f"{answer.issuer} {answer.subject}"


def _address_in(answer: OpenIdAnswer) -> str:
    """Return the email address in the provider's answer. Raises `Refused` unless the provider has verified it."""
    if not answer.email_verified:
        raise Refused(Reason.SIGN_IN_SERVICE)
    return answer.email
