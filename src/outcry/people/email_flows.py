"""Sign-in, password reset and change of email address by emailed links.

Requests reveal nothing about accounts, neither by their response nor by their duration: everything that depends on an
account happens afterwards. Requests by other people are harmless, because earlier links stay valid and the number of
emails to one email address is limited. A sign-in link works only in the browser that requested it. A new password ends
all sessions and revokes all links, but keeps the second factor.
"""

from dataclasses import replace

from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.email_address import spellings
from outcry.people.identity_base import IdentityBase, SecondFactorRequired, address_of
from outcry.people.messages import build_message
from outcry.people.model import UserRow
from outcry.people.refusals import Reason, Refused
from outcry.people.sign_in_limits import MAILS_TO_ONE_ADDRESS


class EmailFlows(IdentityBase):
    """Sign-in, password reset and change of email address by emailed links."""

    def send_link(self, email: str, browser: str, origin: Origin) -> None:
        """Email a sign-in link if the email address has an account.

        `browser`: identifies the requesting browser, never empty.
        """
        email = self._checked_email(email, origin)

        def send() -> None:
            user = self._one_who_came_in(email)
            if user is not None:
                self._links.void("sign_in", user.id, browser)
                token = self._links.make("sign_in", user_id=user.id, email=user.email, browser=browser)
                link = self._links.address("sign_in", token)
                message = build_message(
                    "sign_in", _language(user), user.email, link=link, site=self._public_url
                )
                self._mail(user, "sign_in", message)

        self._soon(send)

    def follow_link(self, token: str, browser: str, origin: Origin) -> SignedIn | SecondFactorRequired:
        """Sign in with an emailed link, in the browser that requested it."""
        self._attempts.take(origin)
        row = self._links.need("sign_in", token, browser)
        if row.browser is None:
            raise Refused(Reason.LINK)
        user = self._of_link(row.user_id, row.email)
        self._links.spend(row)
        return self._arrive(user, "link", origin)

    def send_reset(self, email: str, origin: Origin) -> None:
        """Email a link to choose a new password, if the email address has an account."""
        email = self._checked_email(email, origin)

        def send() -> None:
            user = self._one_who_came_in(email)
            if user is not None:
                token = self._links.make("reset", user_id=user.id, email=user.email)
                link = self._links.address("reset", token)
                message = build_message(
                    "reset", _language(user), user.email, link=link, site=self._public_url
                )
                self.note(user, Event.RESET_LINK_MADE, origin, email=user.email, by="mail")
                self._mail(user, "reset", message)

        self._soon(send)

    def reset(self, token: str, password: str, origin: Origin) -> SignedIn | SecondFactorRequired:
        """Choose a new password with an emailed link; this ends all sessions."""
        self._attempts.take(origin)
        row = self._links.need("reset", token)
        user = self._of_link(row.user_id, row.email)
        self._passwords.accept(password, user.email)
        hashed = self._passwords.hashed(password)
        self._links.spend(row)
        now_ns = self._clock.now_ns()
        renewed = self._store.set_password(user.id, hashed, now_ns)
        if renewed is None:
            raise Refused(Reason.LINK)
        # Unlink the provider, so that a user with a new account there can link it again.
        if self._store.set_openid(user.id, None, renewed.openid):
            renewed = replace(renewed, openid=None)
        self._browser_sessions.refresh(now_ns, force=True)
        self.note(user, Event.PASSWORD_RESET, origin)
        return self._arrive(renewed, "reset", origin)

    # -- change of email address

    def begin_email(self, user: UserRow, email: str, origin: Origin) -> None:
        """Email a confirmation link to the new email address, and a notice to the old one.

        Raises `Refused` with the code `no_mail` if the service sends no email.
        """
        if not self.mail_works():
            raise Refused(Reason.NO_MAIL)
        email = address_of(email)
        self._attempts.take(origin, "email", str(user.id))
        if email == user.email:
            raise Refused(Reason.EMAIL_TAKEN, "email")
        self._attempts.take(Origin(), "mail", email, MAILS_TO_ONE_ADDRESS)
        language, site = _language(user), self._public_url
        self._links.void("email", user.id)
        # Another user's email address receives an email too, so that the response does not reveal its account.
        if self._named(email) is None:
            link = self._links.address("email", self._links.make("email", user_id=user.id, email=email))
            message = build_message("email", language, email, link=link, site=site)
        else:
            message = build_message("email_taken", language, email, site=site)
        if not self._mail(user, "email", message):
            raise Refused(Reason.MAIL_FAILED)
        self.note(user, Event.EMAIL_ASKED, origin, to=email)
        notice = build_message("email_notice", language, user.email, wanted=email, site=site)
        self._mail_later(user, "email_notice", notice)

    def finish_email(self, token: str, origin: Origin) -> None:
        """Change the email address after its confirmation link was followed."""
        self._attempts.take(origin)
        row = self._links.need("email", token)
        user = self._store.user(row.user_id) if row.user_id is not None else None
        if user is None or user.disabled_ns is not None:
            raise Refused(Reason.LINK)
        self._links.spend(row)
        if not self._store.change_user(user.id, email=row.email):
            raise Refused(Reason.EMAIL_TAKEN)
        self._links.void_all_of(user.id)  # they were sent to the old email address
        self._browser_sessions.refresh(self._clock.now_ns(), force=True)
        self.note(user, Event.EMAIL_CHANGED, origin, **{"from": user.email, "to": row.email})

    # -- shared steps

    def _checked_email(self, email: str, origin: Origin) -> str:
        """Check that an emailed link may be requested, and count the request. Raises `Refused`."""
        if not self.mail_works():
            raise Refused(Reason.NO_MAIL)
        if "@" not in email:
            raise Refused(Reason.EMAIL_FORM, "email")
        self._attempts.take(origin, "mail", spellings(email)[-1], MAILS_TO_ONE_ADDRESS)
        return email

    def _one_who_came_in(self, email: str) -> UserRow | None:
        """Return the account of an email address if it has credentials, that is, if its user has signed in before.

        An account that was created with a key has none; an invitation lets its user choose them.
        """
        user = self._named(email)
        if user is None or user.disabled_ns is not None or not self._has_way_in(user):
            return None
        return user

    def _of_link(self, user_id: int | None, email: str) -> UserRow:
        """Return the user of a link if the account still has the email address the link was sent to.

        Raises `Refused`.
        """
        user = self._store.user(user_id) if user_id is not None else None
        if user is None or user.email != email:
            raise Refused(Reason.LINK)
        if user.disabled_ns is not None:
            raise Refused(Reason.DISABLED)
        return user


def _language(user: UserRow) -> str:
    return user.preferences.language
