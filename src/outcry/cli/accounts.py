"""`outcry keys …` and `outcry grants …`: who may ask, and what of the operator's data they see."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Literal

from cyclopts import App

from outcry.accounts.keys import is_email, is_label
from outcry.core.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.ports.store import GrantRow, KeyRow, Role, Tier
from outcry.settings import read_settings
from outcry.wiring import open_house

OPERATOR_NAME = "operator"
EMBARGO_HOURS = 24
LONGEST_HOURS = 10 * 366 * 24

keys = App(name="keys", help="Make, list and revoke API keys.")
grants = App(
    name="grants",
    help="Say who may see the operator's recordings and his live feed. At first: recordings, everyone, 24 hours after "
    "the close.",
)


@keys.command
def create(
    *,
    email: str,
    tier: Tier = "free",
    ingest: bool = False,
    label: str = "",
    expires: str = "",
    data: str | None = None,
) -> int:
    """Make a key and print it, alone, on standard output. It is shown this once and kept only as a keyed digest.

        export OUTCRY_KEY=$(outcry keys create --email you@example.com)

    Parameters
    ----------
    email
        Whose key it is; `operator`, of a key that sends trades as the operator's feed.
    tier
        How many requests a minute it may make: free 30, pro 120, admin 600. A tier is no data licence.
    ingest
        Make a key that sends trades as that user's own live feed, and reads nothing.
    label
        What to call it in lists; 60 characters at most.
    expires
        When its time is over, from now: 90d or 12h. Never, unless given.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    operator = ingest and email == OPERATOR_NAME
    if not (operator or is_email(email)):
        print(f"outcry: {email!r} is not an e-mail address", file=sys.stderr)
        return 2
    if not is_label(label.strip()):
        print("outcry: a label is one line of 60 characters at most", file=sys.stderr)
        return 2
    lasts_ns = _span_ns(expires) if expires else None
    if expires and lasts_ns is None:
        print(f"outcry: {expires!r} is no time from now: 90d or 12h, ten years at most", file=sys.stderr)
        return 2
    with open_house(read_settings(data=data)) as house:
        role: Role = "ingest-operator" if operator else "ingest" if ingest else "read"
        now_ns = house.clock.now_ns()
        expires_ns = None if lasts_ns is None else now_ns + lasts_ns
        print(house.keys.create(email, tier, now_ns, role=role, label=label, expires_ns=expires_ns))
    return 0


@keys.command
def revoke(prefix: str, *, data: str | None = None) -> int:
    """Revoke the key that begins with PREFIX; running services refuse it within a second.

    Parameters
    ----------
    prefix
        The key's first characters, as `outcry keys list` shows them.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        row = house.keys.revoke(prefix, house.clock.now_ns())
    if row is None:
        print(
            f"outcry: no key in force, or more than one, begins with {prefix[:15]!r}: see `outcry keys list`",
            file=sys.stderr,
        )
        return 1
    print(f"revoked {row.prefix} of {row.email}", file=sys.stderr)
    return 0


@keys.command(name="list")
def list_keys(*, data: str | None = None) -> int:
    """List all keys, tab-separated: prefix, tier, e-mail, when made, when revoked, read or ingest, label, when it
    expires, when it was last used.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        for row in house.keys.list():
            print("\t".join(_key_line(row)))
    return 0


def _key_line(row: KeyRow) -> tuple[str, ...]:
    return (
        row.prefix,
        row.tier,
        row.email,
        _instant(row.created_ns),
        _instant(row.revoked_ns),
        row.role,
        row.label,
        _instant(row.expires_ns),
        _instant(row.last_used_ns),
    )


def _span_ns(text: str) -> int | None:
    """The length of `90d` or `12h`; None where it is no such thing, or longer than ten years."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})([dh])", text)
    if found is None:
        return None
    hours = int(found[1]) * (24 if found[2] == "d" else 1)
    return hours * NANOS_PER_HOUR if hours <= LONGEST_HOURS else None


def _instant(at_ns: int | None) -> str:
    if at_ns is None:
        return ""
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


@grants.command
def add(
    grantee: str, *, symbols: str = "", from_: date | None = None, until: date | None = None,
    scope: Literal["completed", "live"] = "completed", embargo_hours: int | None = None, data: str | None = None,
) -> int:  # fmt: skip
    """Grant the operator's completed sessions, or his live feed.

    Data of an exchange is generally licensed for passing on only 24 hours after the close, if at all: ask your licence.

    Parameters
    ----------
    grantee
        everyone, tier:pro, user:you@example.com or key:PREFIX
    symbols
        Which products, comma-separated; all if empty.
    from_
        First trade date; of completed sessions only.
    until
        Last trade date; of completed sessions only.
    scope
        completed: past sessions. live: what happens now, shown as `shared`, until the grant is removed.
    embargo_hours
        How long after its close a completed session is held back; 24 unless given.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    if scope == "live" and (from_ or until or embargo_hours is not None):
        print("outcry: a live feed is granted for now: it has neither dates nor an embargo", file=sys.stderr)
        return 2
    held_back = 0 if scope == "live" else EMBARGO_HOURS if embargo_hours is None else embargo_hours
    with open_house(read_settings(data=data)) as house:
        kind, _, name = grantee.partition(":")
        roots = tuple(root.strip().upper() for root in symbols.split(",") if root.strip())
        unknown = [root for root in roots if root not in house.reference.universe.products]
        if unknown or not 0 <= held_back <= LONGEST_HOURS:
            print(
                f"outcry: no product {unknown[0]}"
                if unknown
                else "outcry: an embargo lasts from 0 hours to ten years",
                file=sys.stderr,
            )
            return 2
        subject = _subject(house.store.find_user(name), house.keys.list(), kind, name)
        if subject is None:
            print(
                f"outcry: {grantee!r} is nobody: everyone, tier:free|pro|admin, user:EMAIL or key:PREFIX",
                file=sys.stderr,
            )
            return 2
        row = GrantRow(0, subject, scope, roots, from_, until, held_back * NANOS_PER_HOUR, None)
        print(house.store.add_grant(row, house.clock.now_ns()))
    return 0


def _subject(user: int | None, known: Sequence[KeyRow], kind: str, name: str) -> str | None:
    if kind == "everyone" and not name:
        return "everyone"
    if kind == "tier" and name in {"free", "pro", "admin"}:
        return f"tier:{name}"
    if kind == "user" and user is not None:
        return f"user:{user}"
    if kind == "key":
        found = [row.id for row in known if row.prefix == name]
        return f"key:{found[0]}" if len(found) == 1 else None
    return None


@grants.command
def remove(grant: int, *, data: str | None = None) -> int:
    """Take a grant back, by its number in `outcry grants list`.

    Parameters
    ----------
    grant
        Its number.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        if house.store.revoke_grant(grant, house.clock.now_ns()):
            return 0
    print(f"outcry: no grant {grant} is in force: see `outcry grants list`", file=sys.stderr)
    return 1


@grants.command(name="list")
def list_grants(*, data: str | None = None) -> int:
    """List the grants in force, tab-separated: number, grantee, scope, symbols, from, until, embargo in hours.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        for row in house.store.grants():
            hours = str(row.embargo_ns // NANOS_PER_HOUR)
            dates = (str(day) if day else "" for day in (row.from_date, row.until_date))
            print(
                "\t".join((str(row.id), row.grantee, row.scope, ",".join(row.roots) or "all", *dates, hours))
            )
    return 0
