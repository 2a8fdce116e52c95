"""`outcry users …`: accounts of people, invitations and password resets.

Anyone who can read the data folder can run these commands. A link is printed once on standard output; the database
stores only its keyed hash.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cyclopts import App

from outcry.access.model import Tier
from outcry.app.installation import Installation, open_installation
from outcry.app.people import people_of
from outcry.app.settings import read_settings
from outcry.cli.columns import USERS
from outcry.cli.tables import Cell, Output, print_rows
from outcry.cli.whereabouts import site
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.browser_sessions import Origin
from outcry.people.model import UserRole, UserRow
from outcry.people.refusals import Reason, Refused

if TYPE_CHECKING:
    from outcry.people.service import Identity

users = App(name="users", help="List, invite and promote users, and reset their passwords.")
_MESSAGES = {
    Reason.EMAIL_FORM: "Invalid email address {email!r}: use the form name@example.com.",
    Reason.EMAIL_TAKEN: "{email} already has an account. To set a new password, run `outcry users reset {email}`.",
    Reason.DISABLED: "The account {email} is disabled. An operator can enable it on the Users page.",
}


@users.command(name="list")
def list_users(*, output: Output = None, data: str | None = None) -> int:
    """List users: email, role, tier, created, sign-in methods, disabled.

    Sign-in methods are password, passkey, openid and code (authenticator app).

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        lines = [_line(installation, user) for user in _identity(installation).users()]
        print_rows(USERS, lines, output)
    return 0


@users.command
def invite(email: str, *, operator: bool = False, tier: Tier = "free", data: str | None = None) -> int:
    """Print an invitation link for EMAIL. It works once and expires in a week.

    Parameters
    ----------
    email
        Email address of the new account. Keys that already belong to this address become the account's.
    operator
        Give the account the operator role, which manages users, datasets and feeds.
    tier
        Requests per minute for the account's keys: free 30, pro 120, admin 600.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    role: UserRole = "operator" if operator else "member"
    return _link(
        data, email, lambda installation: _identity(installation).invite(None, email, role, tier, Origin())
    )


@users.command
def reset(email: str, *, data: str | None = None) -> int:
    """Print a password-reset link for EMAIL. It works once and expires in 30 minutes. A second factor stays on.

    Parameters
    ----------
    email
        Email address of the account.
    data
        Data folder. Default: OUTCRY_DATA.
    """

    def made(installation: Installation) -> str | None:
        user = _named(installation, email)
        return None if user is None else _identity(installation).reset_link(None, user.id, Origin())

    return _link(data, email, made)


@users.command
def operator(email: str, *, data: str | None = None) -> int:
    """Give the account of EMAIL the operator role. For someone without an account use `outcry users invite --operator`.

    Parameters
    ----------
    email
        Email address of the account.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        user = _named(installation, email)
        if user is None:
            return _nobody(email)
        _identity(installation).change_user(None, user.id, Origin(), role="operator")
        way_in = user.password_hash or user.openid or _identity(installation).passkeys(user)
    advice = "" if way_in else f" To set a password, run `outcry users reset {user.email}`."
    print(f"{user.email} is now an operator.{advice}", file=sys.stderr)
    return 0


def _identity(installation: Installation) -> "Identity":
    return people_of(installation).identity


def _link(data: str | None, email: str, made: Callable[[Installation], str | None]) -> int:
    with open_installation(read_settings(data=data)) as installation:
        try:
            link = made(installation)
        except Refused as no:
            print(f"outcry: {_MESSAGES.get(no.reason, no.reason.value).format(email=email)}", file=sys.stderr)
            return 2 if no.reason is Reason.EMAIL_FORM else 1
        settings = installation.settings
    if link is None:
        return _nobody(email)
    # without public_url the link is only a path
    print(link if settings.public_url else f"{site(settings)}{link}")
    return 0


def _named(installation: Installation, email: str) -> UserRow | None:
    wanted = email.strip().lower()
    return next((user for user in _identity(installation).users() if user.email == wanted), None)


def _nobody(email: str) -> int:
    print(f"outcry: No account for {email!r}. Run `outcry users list` to see all accounts.", file=sys.stderr)
    return 1


def _line(installation: Installation, user: UserRow) -> tuple[Cell, ...]:
    ways = {
        "password": user.password_hash is not None,
        "passkey": bool(_identity(installation).passkeys(user)),
        "openid": user.openid is not None,
        "code": user.totp_sealed is not None,
    }
    return (
        user.email,
        user.role,
        user.tier,
        _instant(user.created_ns),
        ",".join(way for way, there in ways.items() if there),
        _instant(user.disabled_ns) if user.disabled_ns else None,
    )


def _instant(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"
