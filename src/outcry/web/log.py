"""What was done in a person's name, for that person to read: `/account/log`.

Rule kept: nobody reads another one's lines here, and an event whose words are not known yet is shown by its code.
"""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from outcry.accounts.audit import Event
from outcry.ports.identity import AuditRow
from outcry.web.agents import device
from outcry.web.delivery_words import OVERLAPS, TARGETS
from outcry.web.desk import Desk, Page, Visit
from outcry.web.forms import before_in
from outcry.web.language import later
from outcry.web.moments import moment

_PAGE_LINES = 50

_EVENTS: Mapping[str, str] = {
    Event.SET_UP: later("This service was set up"),
    Event.SIGN_IN: later("Signed in"),
    Event.SIGN_IN_FAILED: later("A sign-in failed"),
    Event.CONFIRM_FAILED: later("A confirmation failed"),
    Event.SIGN_OUT: later("Signed out"),
    Event.SESSION_ENDED: later("A browser was signed out"),
    Event.SESSIONS_ENDED: later("All other browsers were signed out"),
    Event.PASSWORD_CHANGED: later("Password changed"),
    Event.PASSWORD_RESET: later("New password chosen with a link"),
    Event.RESET_LINK_MADE: later("A link to choose a new password was made"),
    Event.TOTP_ON: later("Authenticator switched on"),
    Event.TOTP_OFF: later("Authenticator switched off"),
    Event.RECOVERY_USED: later("A recovery code was used"),
    Event.RECOVERY_RENEWED: later("New recovery codes made"),
    Event.PASSKEY_ADDED: later("Passkey added"),
    Event.PASSKEY_REMOVED: later("Passkey removed"),
    Event.PASSKEY_COPIED: later("A passkey was refused: there may be a copy of it"),
    Event.EMAIL_ASKED: later("A new address was asked for"),
    Event.EMAIL_CHANGED: later("Address changed"),
    Event.MAIL_FAILED: later("A mail could not be sent"),
    Event.INVITED: later("Somebody was invited"),
    Event.INVITATION_ACCEPTED: later("Came in by an invitation"),
    Event.INVITATION_WITHDRAWN: later("An invitation was taken back"),
    Event.USER_CHANGED: later("A user was changed"),
    Event.KEY_CREATED: later("API key created"),
    Event.KEY_CHANGED: later("API key renamed"),
    Event.KEY_ROTATED: later("API key replaced"),
    Event.KEY_REVOKED: later("API key revoked"),
    Event.SUBSCRIPTION_CREATED: later("Webhook added"),
    Event.SUBSCRIPTION_CHANGED: later("Webhook changed"),
    Event.SUBSCRIPTION_PAUSED: later("Webhook paused"),
    Event.SUBSCRIPTION_RESUMED: later("Webhook resumed"),
    Event.SUBSCRIPTION_TESTED: later("Webhook tested"),
    Event.SUBSCRIPTION_ROTATED: later("Webhook secret replaced"),
    Event.SUBSCRIPTION_RESENT: later("Alerts sent again to a webhook"),
    Event.SUBSCRIPTION_REMOVED: later("Webhook removed"),
    Event.SUBSCRIPTION_FAILING: later("A webhook keeps failing"),
    Event.SUBSCRIPTION_OFF: later("A webhook was switched off"),
    Event.CONNECTION_STARTED: later("Broker connected"),
    Event.CONNECTION_CHANGED: later("Products or name of a connection changed"),
    Event.CONNECTION_RENEWED: later("New entries given to a connection"),
    Event.CONNECTION_PAUSED: later("Connection paused"),
    Event.CONNECTION_RESUMED: later("Connection told to try again"),
    Event.CONNECTION_CHECKED: later("Connection checked"),
    Event.CONNECTION_ENDED: later("Broker disconnected"),
    Event.GRANT_ADDED: later("Data granted"),
    Event.GRANT_REMOVED: later("Grant of data taken back"),
}
#: Names of what is kept beside an event, and the values that are words and not somebody's own text.
_DETAILS = {
    "way": later("Way"),
    "factor": later("Second factor"),
    "agent": later("Browser"),
    "address": later("From where"),
    "count": later("How many"),
    "hours": later("For how many hours"),
    "email": later("Address"),
    "by": later("Done by"),
    "left": later("Codes left"),
    "label": later("Name"),
    "to": later("New address"),
    "from": later("Old address"),
    "about": later("Which mail"),
    "role": later("Role"),
    "tier": later("Tier"),
    "disabled": later("Switched off"),
    "prefix": later("API key"),
    "target": later("Target"),
    "shown": later("Address"),
    "code": later("Outcome"),
    "broker": later("Broker"),
    "replaced_by": later("New key"),
    "grace": later("Old key works for"),
    "overlap": later("Old secret signs on for"),
    "grantee": later("To whom"),
    "scope": later("What is granted"),
    "licence": later("Licence"),
    "symbols": later("Symbols"),
}
_VALUES = {
    "way": {
        "password": later("password"),
        "link": later("mailed link"),
        "reset": later("link to a new password"),
        "passkey": later("passkey"),
        "openid": later("sign-in service"),
        "invitation": later("invitation"),
        "set_up": later("set-up"),
        "code": later("code"),
    },
    "factor": {"totp": later("authenticator"), "recovery": later("recovery code")},
    "by": {
        "operator": later("operator"),
        "command": later("command line"),
        "mail": later("mail to the account's address"),
    },
    "about": {
        "sign_in": later("link to sign in"),
        "reset": later("link to a new password"),
        "invitation": later("invitation"),
        "email": later("new address"),
        "email_notice": later("notice of a new address"),
    },
    "role": {
        "operator": later("operator"),
        "member": later("member"),
        "read": later("asking"),
        "ingest": later("sending your trades"),
    },
    "grace": {
        "0": later("no time: it ends at once"),
        "1h": later("1 hour"),
        "24h": later("24 hours"),
        "7d": later("7 days"),
    },
    "overlap": {code: text for code, (_, text) in OVERLAPS.items()},
    "target": {target.value: name for target, name in TARGETS.items()},
    "grantee": {"everyone": later("Everyone")},
    "scope": {"completed": later("completed sessions"), "live": later("what happens now")},
    "disabled": {"true": later("yes"), "false": later("no")},
}
#: What worries: shown so that it is seen.
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


def event_words(visit: Visit, row: AuditRow) -> str:
    """What happened."""
    known = _EVENTS.get(row.event)
    return visit.words(known) if known else row.event


def detail_words(visit: Visit, row: AuditRow) -> list[tuple[str, str]]:
    """What it was about: names and values in the reader's language, as far as they are words of ours."""
    found: list[tuple[str, str]] = []
    for name, value in row.details.items():
        known = _VALUES.get(name, {}).get(value)
        text = device(visit.words, value) if name == "agent" else visit.words(known) if known else value
        found.append((visit.words(_DETAILS[name]) if name in _DETAILS else name, text))
    return found


async def show(desk: Desk, visit: Visit) -> Response:
    """A page of lines, newest first."""
    user = desk.user(visit)
    before = before_in(visit)
    rows = await desk.ask(desk.services.identity.audit, user, before, _PAGE_LINES + 1)
    more = len(rows) > _PAGE_LINES
    rows = rows[:_PAGE_LINES]
    lines = [
        {
            "at": moment(visit, row.at_ns),
            "words": event_words(visit, row),
            "details": detail_words(visit, row),
            "address": row.address,
            "device": device(visit.words, row.agent) if row.agent else "",
            "warning": row.event in WARNING,
        }
        for row in rows
    ]
    older = f"/account/log?before={rows[-1].id}" if more else ""
    return desk.page(
        visit, "security/log.html", lines=lines, newest="/account/log" if before else "", older=older
    )


PAGES: Sequence[Page] = (("/account/log", ("GET",), show),)
