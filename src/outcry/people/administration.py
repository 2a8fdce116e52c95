"""Administration of users by the operator: list and change users, invite people.

A new user needs an invitation. An invitation never gives access to an account that already has credentials. There is
always an operator who can sign in.
"""

import secrets
from collections.abc import Sequence

from outcry.access.account_store import HANDLE_BYTES
from outcry.access.model import Tier
from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.identity_base import IdentityBase, address_of
from outcry.people.messages import build_message
from outcry.people.model import TokenRow, UserRole, UserRow
from outcry.people.refusals import Reason, Refused

_ROLES: dict[str, UserRole] = {"member": "member", "operator": "operator"}
_TIERS: dict[str, Tier] = {"free": "free", "pro": "pro", "admin": "admin"}


class UserAdministration(IdentityBase):
    """The operator's actions on users.

    operator: the user who acts; None: the command line, which anyone who can read the data folder may use.
    """

    def users(self) -> Sequence[UserRow]:
        """Return all users, without the internal owner of the operator's keys, who has no email address."""
        return [user for user in self._store.users() if "@" in user.email]

    # -- invitations

    def invite(self, operator: UserRow | None, email: str, role: UserRole, tier: Tier, origin: Origin) -> str:
        """Create an invitation that expires in 7 days, and return its link.

        The link is also emailed if email is configured. An empty email address invites anyone who has the link.
        """
        email = address_of(email) if email.strip() else ""
        known = self._named(email) if email else None
        if known is not None and (self._has_way_in(known) or known.disabled_ns is not None):
            raise Refused(Reason.EMAIL_TAKEN, "email")
        by = operator.email if operator else "command"
        details = {"role": role, "tier": tier, "by": by}
        link = self._links.address("invite", self._links.make("invite", email=email, details=details))
        if operator is not None:
            self.note(operator, Event.INVITED, origin, email=email, role=role, tier=tier)
            if email and self.mail_works():
                site, language = self._public_url, operator.preferences.language
                message = build_message(
                    "invitation", language, email, link=link, site=site, operator=operator.email
                )
                self._mail_later(operator, "invitation", message)
        return link

    def invitations(self) -> Sequence[TokenRow]:
        """Return the open invitations."""
        return self._links.open("invite")

    def withdraw(self, operator: UserRow, token_id: int, origin: Origin) -> None:
        """Withdraw an invitation."""
        for row in self._links.open("invite"):
            if row.id == token_id and self._store.revoke_token(row.id, self._clock.now_ns()):
                self.note(operator, Event.INVITATION_WITHDRAWN, origin, email=row.email)

    def invited(self, token: str) -> TokenRow | None:
        """Return the invitation that a link's token belongs to; None if it is no longer valid."""
        return self._links.find("invite", token)

    def accept(self, token: str, email: str, password: str, origin: Origin) -> SignedIn:
        """Create an account with a password from an invitation, and sign in.

        If the invitation names an email address, the account gets that one instead of `email`.
        """
        self._attempts.take(origin)
        row = self._links.need("invite", token)
        email = row.email or address_of(email)
        self._passwords.accept(password, email)
        hashed = self._passwords.hashed(password)
        user = self.admit(row, email, password_hash=hashed)
        self.note(user, Event.INVITATION_ACCEPTED, origin)
        return self._enter(user, origin, way="invitation")

    def admit(
        self, invitation: TokenRow, email: str, *, password_hash: str | None = None, openid: str | None = None
    ) -> UserRow:
        """Use up an invitation and create the account with a credential (password or OpenID). Raises `Refused`.

        An account that was created with a key has no credentials. It gets this credential only if the invitation names
        its email address.
        """
        role = _ROLES.get(invitation.details.get("role", ""), "member")
        tier = _TIERS.get(invitation.details.get("tier", ""), "free")
        user = self._store.admit(
            invitation.id, email, role, tier, secrets.token_bytes(HANDLE_BYTES), self._clock.now_ns(),
            claims=email == invitation.email, password_hash=password_hash, openid=openid,
        )  # fmt: skip
        if user == "spent":  # another request spent it
            raise Refused(Reason.LINK)
        if user == "taken":
            raise Refused(Reason.EMAIL_TAKEN, "email")
        return user

    # -- roles, tiers and access

    def change_user(
        self, operator: UserRow | None, user_id: int, origin: Origin, *, role: UserRole | None = None,
        tier: Tier | None = None, disabled: bool | None = None,
    ) -> None:  # fmt: skip
        """Change a user's role or tier, or disable or enable the user. Raises `Refused`.

        Disabling signs the user out and stops the user's keys. The last operator cannot be removed.
        """
        user = self._store.user(user_id)
        if user is None:
            return
        now_ns = self._clock.now_ns()
        when_ns = None if disabled is None else now_ns if disabled else 0
        leaving = self._ways if disabled or role == "member" else None
        if not self._store.change_user(user_id, role=role, tier=tier, disabled_ns=when_ns, leaving=leaving):
            raise Refused(Reason.LAST_OPERATOR)
        self._browser_sessions.refresh(now_ns, force=True)
        given = {"role": role, "tier": tier, "disabled": None if disabled is None else str(disabled).lower()}
        changes = {name: value for name, value in given.items() if value is not None}
        self.note(user, Event.USER_CHANGED, origin, email=user.email, **changes)
        if operator is not None and operator.id != user.id:
            self.note(operator, Event.USER_CHANGED, origin, email=user.email, **changes)

    def reset_link(self, operator: UserRow | None, user_id: int, origin: Origin) -> str:
        """Return a link with which a user can choose a new password, for services without email."""
        user = self._store.user(user_id)
        if user is None or user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        self._links.void("reset", user.id)
        token = self._links.make("reset", user_id=user.id, email=user.email)
        by = "operator" if operator else "command"
        self.note(user, Event.RESET_LINK_MADE, origin, email=user.email, by=by)
        if operator is not None and operator.id != user.id:
            self.note(operator, Event.RESET_LINK_MADE, origin, email=user.email, by=by)
        return self._links.address("reset", token)
