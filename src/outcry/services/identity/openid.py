"""Coming in by an OpenID provider, where the operator has named one.

Rules kept: the provider says who somebody is, not who may come in: that is whoever has an account in use, or an
invitation. An account is recognised the first time by an address the provider has verified, from then on by whom the
provider names: an address may become somebody else's. Question and answer belong to one browser, by a ticket
in its cookie; a second factor turned on here is wanted still, and whoever has one does not prove anew by the provider
alone who it is.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from outcry.accounts.audit import Event
from outcry.core.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.ports.identity import SessionRow, TokenRow, UserRow
from outcry.ports.openid import OpenIdAnswer, OpenIdFailed, OpenIdProvider, OpenIdRequest
from outcry.services.identity.browsers import Origin, Signed
from outcry.services.identity.ground import HalfWay, address_of
from outcry.services.identity.people import People
from outcry.services.identity.refusals import Reason, Refused

CALLBACK = "/sign-in/openid/callback"
TICKET_NS = 10 * NANOS_PER_MINUTE
_ASKED = "openid"
_LONGEST_NEXT = 1_000
_LONGEST_CODE = 4_000
#: How much the provider's clock may be behind ours.
_SKEW_NS = NANOS_PER_MINUTE
#: So long a provider that could not be reached is not tried again: each who came would wait for it anew.
_AWAY_NS = 30 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it: `came` is in, or half way; or a signed-in browser proved anew who it is and goes by `token` from
    now on. `next`: where to go on to, as it was given."""

    came: Signed | HalfWay | None
    token: str
    next: str


class OpenId(People):
    """Coming in by an OpenID provider."""

    _away_ns: int | None = None  #: When the provider was last not to be reached; None since it was.

    def openid_name(self) -> str:
        """What the provider is called; empty where there is none."""
        return self._openid.name if self._openid is not None and self._public_url else ""

    def begin_openid(
        self, next_path: str, *, invitation: str = "", session: SessionRow | None = None
    ) -> tuple[str, str]:
        """Where to send the browser, and the ticket to keep in its cookie for ten minutes. `session`: to prove anew who
        it is; `invitation`: the token to come in by, if there is no account yet."""
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
        if self._away_ns is not None and 0 <= now_ns - self._away_ns < _AWAY_NS:
            raise Refused(Reason.SIGN_IN_SERVICE)
        try:
            address = provider.address(self._request(facts))
        except OpenIdFailed as failure:
            self._away_ns = self._clock.now_ns()
            raise self._failed(failure) from None
        self._away_ns = None
        return address, self._tickets.give(_ASKED, TICKET_NS, **facts)

    def finish_openid(
        self, ticket: str, given: Mapping[str, str], session: SessionRow | None, origin: Origin
    ) -> Answered:
        """The browser came back with what the provider `given` in the address. `session`: of this browser, if any."""
        provider = self._provider()
        facts = self._tickets.read(_ASKED, ticket)
        if facts is None or not hmac.compare_digest(given.get("state", "").encode(), facts["state"].encode()):
            raise Refused(Reason.LINK)
        # Only now, and not when it began: any site can have a browser open these addresses, but none with a ticket.
        self._tries.take(origin)
        code = given.get("code", "")
        if not code or len(code) > _LONGEST_CODE:  # the person declined, or the provider did
            raise Refused(Reason.SIGN_IN_SERVICE)
        try:
            answer = provider.answer(code, self._request(facts))
        except OpenIdFailed as failure:
            raise self._failed(failure) from None
        if facts["session"]:
            return Answered(None, self._confirmed(facts, answer, session, origin), facts["next"])
        user = self._account_of(answer) or self._newcomer(answer, facts["invitation"], origin)
        return Answered(self._arrive(user, "openid", origin, _person(answer)), "", facts["next"])

    def _account_of(self, answer: OpenIdAnswer) -> UserRow | None:
        """The account of whom the provider named before, whatever the address is by now; else that of the address it
        has verified, if it is in use and nobody else of this provider's. Raises `Refused`."""
        user = self._store.user_of_openid(_person(answer))
        if user is not None:
            return user
        user = self._named(_address_in(answer))
        if user is None:
            return None
        if user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        if user.openid is not None and user.openid.startswith(f"{answer.issuer} "):
            self._report(
                f"the address of user {user.id} is another person's at the OpenID provider than it was"
            )
            raise Refused(Reason.NOT_INVITED)
        return user if self._has_way_in(user) else None

    def _confirmed(
        self, facts: Mapping[str, str], answer: OpenIdAnswer, session: SessionRow | None, origin: Origin
    ) -> str:
        """Whether the very user of this session proved it there just now; return the browser's new token."""
        now_ns = self._clock.now_ns()
        since_ns = int(facts["begun"]) - _SKEW_NS
        user = self._browsers.still(session.id, now_ns) if session else None
        fresh = answer.authenticated_ns is not None and answer.authenticated_ns >= since_ns
        if session is None or user is None or facts["session"] != str(session.id):
            raise Refused(Reason.LINK)
        self._no_second_factor(session)
        account = self._account_of(answer) if fresh else None
        if account is None or account.id != user.id:
            raise Refused(Reason.SIGN_IN_SERVICE)
        self._known_as(account, _person(answer))
        return self._browsers.confirm(session, account, origin, now_ns)

    def _no_second_factor(self, session: SessionRow) -> None:
        """Pass who has none: the provider's word is one factor. Raises `Refused`."""
        user = self._store.user(session.user_id)
        if user is not None and user.totp_sealed is not None:
            raise Refused(Reason.CODE_TOO)

    def _newcomer(self, answer: OpenIdAnswer, token: str, origin: Origin) -> UserRow:
        """Make the account of somebody invited: by the link, or by an invitation of that address."""
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

    def _provider(self) -> OpenIdProvider:
        if self._openid is None or not self._public_url:
            raise Refused(Reason.SIGN_IN_SERVICE)
        return self._openid

    def _failed(self, failure: OpenIdFailed) -> Refused:
        self._report(f"sign-in by the OpenID provider failed: {failure}")
        return Refused(Reason.SIGN_IN_SERVICE)


def _person(answer: OpenIdAnswer) -> str:
    """Whom the provider speaks of, as it is kept."""
    return f"{answer.issuer} {answer.subject}"


def _address_in(answer: OpenIdAnswer) -> str:
    """The address as the provider writes it, if the provider has verified it. Raises `Refused`."""
    if not answer.email_verified:
        raise Refused(Reason.SIGN_IN_SERVICE)
    return answer.email
