"""Activity log of the signed-in user: `/account/log`.

A user sees only the user's own entries. If an event or detail has no text here, the page shows its code.
"""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from outcry.people.audit import Event
from outcry.people.model import AuditRow
from outcry.web.account.delivery_words import OVERLAPS, TARGETS
from outcry.web.dates import local_time
from outcry.web.form_state import before_in_query
from outcry.web.language import later
from outcry.web.page_context import Page, PageContext, PageRequest
from outcry.web.user_agents import device

_PAGE_LINES = 50

_EVENTS: Mapping[str, str] = {
    Event.SET_UP: later("Service set up"),
    Event.SIGN_IN: later("Signed in"),
    Event.SIGN_IN_FAILED: later("Sign-in failed"),
    Event.CONFIRM_FAILED: later("Identity confirmation failed"),
    Event.SIGN_OUT: later("Signed out"),
    Event.SESSION_ENDED: later("Browser signed out"),
    Event.SESSIONS_ENDED: later("All other browsers signed out"),
    Event.PASSWORD_CHANGED: later("Password changed"),
    Event.PASSWORD_RESET: later("Password reset by link"),
    Event.RESET_LINK_MADE: later("Password reset link created"),
    Event.TOTP_ON: later("Two-factor authentication turned on"),
    Event.TOTP_OFF: later("Two-factor authentication turned off"),
    Event.RECOVERY_USED: later("Recovery code used"),
    Event.RECOVERY_RENEWED: later("New recovery codes generated"),
    Event.PASSKEY_ADDED: later("Passkey added"),
    Event.PASSKEY_REMOVED: later("Passkey removed"),
    Event.PASSKEY_COPIED: later("Passkey rejected: it may have been copied"),
    Event.EMAIL_ASKED: later("Email address change requested"),
    Event.EMAIL_CHANGED: later("Email address changed"),
    Event.MAIL_FAILED: later("Email could not be sent"),
    Event.INVITED: later("User invited"),
    Event.INVITATION_ACCEPTED: later("Invitation accepted"),
    Event.INVITATION_WITHDRAWN: later("Invitation revoked"),
    Event.USER_CHANGED: later("User changed"),
    Event.KEY_CREATED: later("API key created"),
    Event.KEY_CHANGED: later("API key renamed"),
    Event.KEY_ROTATED: later("API key rotated"),
    Event.KEY_REVOKED: later("API key revoked"),
    Event.SUBSCRIPTION_CREATED: later("Webhook added"),
    Event.SUBSCRIPTION_CHANGED: later("Webhook changed"),
    Event.SUBSCRIPTION_PAUSED: later("Webhook paused"),
    Event.SUBSCRIPTION_RESUMED: later("Webhook resumed"),
    Event.SUBSCRIPTION_TESTED: later("Webhook tested"),
    Event.SUBSCRIPTION_ROTATED: later("Webhook secret rotated"),
    Event.SUBSCRIPTION_RESENT: later("Alerts resent to a webhook"),
    Event.SUBSCRIPTION_REMOVED: later("Webhook removed"),
    Event.SUBSCRIPTION_FAILING: later("Webhook failing"),
    Event.SUBSCRIPTION_OFF: later("Webhook disabled"),
    Event.CONNECTION_STARTED: later("Broker connected"),
    Event.CONNECTION_CHANGED: later("Connection edited"),
    Event.CONNECTION_RENEWED: later("Connection credentials updated"),
    Event.CONNECTION_PAUSED: later("Connection paused"),
    Event.CONNECTION_RESUMED: later("Connection restarted"),
    Event.CONNECTION_CHECKED: later("Connection checked"),
    Event.CONNECTION_ENDED: later("Broker disconnected"),
    Event.GRANT_ADDED: later("Data access granted"),
    Event.GRANT_REMOVED: later("Data access revoked"),
    Event.INSTRUMENTS_CHANGED: later("Instrument tables changed"),
}
#: Labels of an event's details. `_VALUES` translates values that are codes; other values are the user's own text.
_DETAILS = {
    "way": later("Method"),
    "factor": later("Two-factor authentication"),
    "agent": later("Browser"),
    "address": later("IP address"),
    "count": later("Count"),
    "hours": later("Hours covered"),
    "email": later("Email address"),
    "by": later("Changed by"),
    "left": later("Codes left"),
    "label": later("Name"),
    "to": later("New email address"),
    "from": later("Old email address"),
    "about": later("Email type"),
    "role": later("Role"),
    "tier": later("Tier"),
    "disabled": later("Disabled"),
    "prefix": later("API key"),
    "target": later("Destination"),
    "shown": later("URL or email address"),
    "code": later("Result"),
    "broker": later("Broker"),
    "replaced_by": later("New key"),
    "grace": later("Old key valid for"),
    "overlap": later("Old secret valid for"),
    "grantee": later("Recipient"),
    "scope": later("Scope"),
    "licence": later("Licence"),
    "symbols": later("Symbols"),
    "files": later("Tables"),
}
_VALUES = {
    "way": {
        "password": later("Password"),
        "link": later("Email link"),
        "reset": later("Password reset link"),
        "passkey": later("Passkey"),
        "openid": later("Sign-in service"),
        "invitation": later("Invitation"),
        "set_up": later("Setup"),
        "code": later("Code"),
    },
    "factor": {"totp": later("Authenticator app"), "recovery": later("Recovery code")},
    "by": {
        "operator": later("Service operator"),
        "command": later("Command line"),
        "mail": later("Link to the account's email address"),
    },
    "about": {
        "sign_in": later("Sign-in link"),
        "reset": later("Password reset link"),
        "invitation": later("Invitation"),
        "email": later("Email address change"),
        "email_notice": later("Email address change notice"),
    },
    "role": {
        "operator": later("Service operator"),
        "member": later("Member"),
        "read": later("Read"),
        "ingest": later("Send trades"),
    },
    "grace": {
        "0": later("0 hours (ends now)"),
        "1h": later("1 hour"),
        "24h": later("24 hours"),
        "7d": later("7 days"),
    },
    "overlap": {code: text for code, (_, text) in OVERLAPS.items()},
    "target": {target.value: name for target, name in TARGETS.items()},
    "grantee": {"everyone": later("Everyone")},
    "scope": {"completed": later("Completed sessions"), "live": later("Live data")},
    "disabled": {"true": later("Yes"), "false": later("No")},
}
#: Events that the page highlights.
WARNING = frozenset(
    {
        Event.SIGN_IN_FAILED,
        Event.CONFIRM_FAILED,
        Event.PASSKEY_COPIED,
        Event.RECOVERY_USED,
        Event.MAIL_FAILED,
        Event.SUBSCRIPTION_FAILING,
        Event.SUBSCRIPTION_OFF,
    }
)


def event_words(request: PageRequest, row: AuditRow) -> str:
    """Return the text of a log entry's event in the reader's language."""
    known = _EVENTS.get(row.event)
    return request.words(known) if known else row.event


def detail_words(request: PageRequest, row: AuditRow) -> list[tuple[str, str]]:
    """Return labels and values of an event's details, translated where the value is a code."""
    found: list[tuple[str, str]] = []
    for name, value in row.details.items():
        known = _VALUES.get(name, {}).get(value)
        text = device(request.words, value) if name == "agent" else request.words(known) if known else value
        found.append((request.words(_DETAILS[name]) if name in _DETAILS else name, text))
    return found


async def show(context: PageContext, request: PageRequest) -> Response:
    """Show one page of the log, newest first."""
    user = context.user(request)
    before = before_in_query(request)
    rows = await context.ask(context.services.identity.audit, user, before, _PAGE_LINES + 1)
    more = len(rows) > _PAGE_LINES
    rows = rows[:_PAGE_LINES]
    lines = [
        {
            "at": local_time(request, row.at_ns),
            "words": event_words(request, row),
            "details": detail_words(request, row),
            "address": row.address,
            "device": device(request.words, row.agent) if row.agent else "",
            "warning": row.event in WARNING,
        }
        for row in rows
    ]
    older = f"/account/log?before={rows[-1].id}" if more else ""
    return context.page(
        request, "security/log.html", lines=lines, newest="/account/log" if before else "", older=older
    )


PAGES: Sequence[Page] = (("/account/log", ("GET",), show),)
