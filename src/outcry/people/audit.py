"""Event codes of the audit log.

A code never changes its meaning and is never reused. The web pages translate the codes.
"""

from enum import StrEnum


class Event(StrEnum):
    """Kind of an entry in the audit log. The comments list its details, which never contain secrets."""

    SET_UP = "set_up"  # the first operator was created
    # way: password, link, reset, passkey, openid, invitation, set_up; factor: totp, recovery
    SIGN_IN = "sign_in"
    SIGN_IN_FAILED = "sign_in_failed"  # way; only for an email address that has an account
    CONFIRM_FAILED = "confirm_failed"  # way
    SIGN_OUT = "sign_out"
    SESSION_ENDED = "session_ended"  # agent, address: user agent and client address of the signed-out browser
    SESSIONS_ENDED = "sessions_ended"  # count
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - a code
    PASSWORD_RESET = "password_reset"  # noqa: S105 - a code
    RESET_LINK_MADE = "reset_link_made"  # email; by: operator, command or the user's own email address
    TOTP_ON = "totp_on"
    TOTP_OFF = "totp_off"
    RECOVERY_USED = "recovery_used"  # left: how many are unused
    RECOVERY_RENEWED = "recovery_renewed"
    PASSKEY_ADDED = "passkey_added"  # label
    PASSKEY_REMOVED = "passkey_removed"  # label
    PASSKEY_COPIED = "passkey_copied"  # label; its counter decreased, which indicates a copy
    EMAIL_ASKED = "email_asked"  # to
    EMAIL_CHANGED = "email_changed"  # from, to
    MAIL_FAILED = "mail_failed"  # about: subject of the email
    INVITED = "invited"  # email, role, tier
    INVITATION_ACCEPTED = "invitation_accepted"
    INVITATION_WITHDRAWN = "invitation_withdrawn"  # email
    USER_CHANGED = "user_changed"  # email, and the changed fields: role, tier, disabled
    KEY_CREATED = "key_created"  # prefix, label
    KEY_CHANGED = "key_changed"
    KEY_ROTATED = "key_rotated"
    KEY_REVOKED = "key_revoked"
    SUBSCRIPTION_CREATED = "subscription_created"  # label, target, shown
    SUBSCRIPTION_CHANGED = "subscription_changed"
    SUBSCRIPTION_PAUSED = "subscription_paused"
    SUBSCRIPTION_RESUMED = "subscription_resumed"
    SUBSCRIPTION_TESTED = "subscription_tested"  # code
    SUBSCRIPTION_ROTATED = "subscription_rotated"
    SUBSCRIPTION_RESENT = "subscription_resent"  # count: how many alerts
    SUBSCRIPTION_REMOVED = "subscription_removed"
    SUBSCRIPTION_FAILING = "subscription_failing"  # hours: time without a delivery
    SUBSCRIPTION_OFF = "subscription_off"  # code: reason for disabling it
    CONNECTION_STARTED = "connection_started"  # broker, label; symbols
    CONNECTION_CHANGED = "connection_changed"  # symbols
    CONNECTION_RENEWED = "connection_renewed"  # new credentials were entered
    CONNECTION_PAUSED = "connection_paused"
    CONNECTION_RESUMED = "connection_resumed"
    CONNECTION_CHECKED = "connection_checked"  # code: the first missing requirement, or `ok`
    CONNECTION_ENDED = "connection_ended"
    GRANT_ADDED = "grant_added"
    GRANT_REMOVED = "grant_removed"
    INSTRUMENTS_CHANGED = "instruments_changed"  # files; symbols: of examples that were added
