"""`outcry users …`: who has an account on the pages, and ways in for those who have none.

Rule kept: whoever may read the data folder may do this; a link is printed once, alone on standard output, and kept only
as a keyed digest.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime

from cyclopts import App

from outcry.cli.whereabouts import site
from outcry.core.units import NANOS_PER_SECOND
from outcry.ports.identity import UserRole, UserRow
from outcry.ports.store import Tier
from outcry.services.identity.browsers import Origin
from outcry.services.identity.refusals import Reason, Refused
from outcry.settings import read_settings
from outcry.wiring import House, open_house

users = App(name="users", help="List people, invite them, let them in again.")
_WORDS = {
    Reason.EMAIL_FORM: "{email!r} is not an e-mail address",
    Reason.EMAIL_TAKEN: "{email} has an account already, see `outcry users list`; a new password: `outcry users reset`",
    Reason.DISABLED: "{email} is disabled: an operator can enable the account on the page Users",
}


@users.command(name="list")
def list_users(*, data: str | None = None) -> int:
    """List people, tab-separated: e-mail, role, tier, made, ways in (password, passkey, openid, code), disabled.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        for user in house.people.identity.users():
            print("\t".join(_line(house, user)))
    return 0


@users.command
def invite(email: str, *, operator: bool = False, tier: Tier = "free", data: str | None = None) -> int:
    """Print a link with which EMAIL can make an account: good for a week, once.

    Parameters
    ----------
    email
        Whose account it will be. If keys were made for that address they are the account's.
    operator
        Make it an operator's: one who looks after users, datasets and feeds.
    tier
        How many requests a minute the account's keys may make: free 30, pro 120, admin 600.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    role: UserRole = "operator" if operator else "member"
    return _link(data, email, lambda house: house.people.identity.invite(None, email, role, tier, Origin()))


@users.command
def reset(email: str, *, data: str | None = None) -> int:
    """Print a link with which EMAIL can choose a new password: good for half an hour, once. A second factor stays on.

    Parameters
    ----------
    email
        Whose account it is.
    data
        The data folder; otherwise OUTCRY_DATA.
    """

    def made(house: House) -> str | None:
        user = _named(house, email)
        return None if user is None else house.people.identity.reset_link(None, user.id, Origin())

    return _link(data, email, made)


@users.command
def operator(email: str, *, data: str | None = None) -> int:
    """Make the account of EMAIL an operator's. Somebody without an account is invited instead, with --operator.

    Parameters
    ----------
    email
        Whose account it is.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        user = _named(house, email)
        if user is None:
            return _nobody(email)
        house.people.identity.change_user(None, user.id, Origin(), role="operator")
        way_in = user.password_hash or user.openid or house.people.identity.passkeys(user)
    advice = "" if way_in else f"; `outcry users reset {user.email}` prints a link to choose a password with"
    print(f"{user.email} is an operator{advice}", file=sys.stderr)
    return 0


def _link(data: str | None, email: str, made: Callable[[House], str | None]) -> int:
    with open_house(read_settings(data=data)) as house:
        try:
            link = made(house)
        except Refused as no:
            print(f"outcry: {_WORDS.get(no.reason, no.reason.value).format(email=email)}", file=sys.stderr)
            return 2 if no.reason is Reason.EMAIL_FORM else 1
        settings = house.settings
    if link is None:
        return _nobody(email)
    # without a public address a link is a path
    print(link if settings.public_url else f"{site(settings)}{link}")
    return 0


def _named(house: House, email: str) -> UserRow | None:
    wanted = email.strip().lower()
    return next((user for user in house.people.identity.users() if user.email == wanted), None)


def _nobody(email: str) -> int:
    print(f"outcry: there is no account of {email!r}: see `outcry users list`", file=sys.stderr)
    return 1


def _line(house: House, user: UserRow) -> tuple[str, ...]:
    ways = {
        "password": user.password_hash is not None,
        "passkey": bool(house.people.identity.passkeys(user)),
        "openid": user.openid is not None,
        "code": user.totp_sealed is not None,
    }
    return (
        user.email,
        user.role,
        user.tier,
        _instant(user.created_ns),
        ",".join(way for way, there in ways.items() if there),
        _instant(user.disabled_ns) if user.disabled_ns else "",
    )


def _instant(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"
