"""`outcry keys …` and `outcry grants …`: who may ask, and what of the operator's data they see."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Literal

from cyclopts import App

from outcry.accounts.emails import is_email, spellings
from outcry.accounts.keys import KEY_LENGTH, MARK, is_beginning, is_label
from outcry.accounts.keys import prefix as key_prefix
from outcry.accounts.licences import LicenceClass
from outcry.core.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.ports.store import GrantRow, KeyRow, Role, Tier
from outcry.services.datasets import Datasets, Grantee, GrantRefused, Terms
from outcry.settings import read_settings
from outcry.wiring import open_house

OPERATOR_NAME = "operator"
#: Who it was, in the log of grants: whoever has the data folder.
BY_COMMAND = "command"
EMBARGO_HOURS = 24
LONGEST_HOURS = 10 * 366 * 24
#: Keys that an error names at most.
MOST_MATCHES = 10

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
        print(
            house.keys.create(
                spellings(email)[-1], tier, now_ns, role=role, label=label, expires_ns=expires_ns
            )
        )
    return 0


@keys.command
def revoke(prefix: str, *, data: str | None = None) -> int:
    """Revoke the key that begins with PREFIX; running services refuse it within a second.

    Parameters
    ----------
    prefix
        The first characters of one key, as many as tell it from the others (see `outcry keys list`), or the whole key.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        text = prefix.strip()
        row = house.keys.revoke(text, house.clock.now_ns())
        if row is None:
            print(f"outcry: {_not_revoked(text, house.keys.named(text))}", file=sys.stderr)
            return 1
    print(f"revoked {row.prefix} of {row.email}", file=sys.stderr)
    return 0


def _not_revoked(text: str, found: Sequence[KeyRow]) -> str:
    """Return why no key was revoked. Of `text` only what may be shown of a key is repeated."""
    if not is_beginning(text):
        return f"This is not the beginning of a key: keys begin with {MARK!r}. Run `outcry keys list` to see them."
    active = [row for row in found if row.revoked_ns is None]
    if len(active) == 1:
        return (
            f"All keys begin with {MARK!r}. Give more characters of {active[0].prefix} ({active[0].email})."
        )
    if active:
        shown = [f"{row.prefix} ({row.email})" for row in active[:MOST_MATCHES]]
        more = [f"and {len(active) - MOST_MATCHES} more"] if len(active) > MOST_MATCHES else []
        return (
            f"{len(active)} keys begin with {key_prefix(text)!r}: {', '.join(shown + more)}. Give more characters of "
            "one of them."
        )
    if len(found) == 1:
        return f"Key {found[0].prefix} is already revoked (since {_instant(found[0].revoked_ns)})."
    if len(text) == KEY_LENGTH:
        return (
            f"No key matches the whole key {key_prefix(text)}…. Check that it is complete and belongs to this "
            "installation, or give only its first characters as `outcry keys list` shows them."
        )
    return f"No active key begins with {key_prefix(text)!r}. Run `outcry keys list` to see all keys."


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
    scope: Literal["completed", "live"] = "completed", embargo_hours: int | None = None,
    licence: LicenceClass | None = None, data: str | None = None,
) -> int:  # fmt: skip
    """Grant the operator's completed sessions, or his live feed.

    Data of an exchange is generally licensed for passing on only 24 hours after the close, if at all: ask your licence.
    What is shown live or sooner needs --licence, by which you declare to have one; `outcry grants log` keeps that.

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
    licence
        The class of licence you declare to have of the data: internal (for named users and keys), redistributable or
        public (for anyone). One for personal use lets nobody else see it.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    if scope == "live" and (from_ or until or embargo_hours is not None):
        print("outcry: a live feed is granted for now: it has neither dates nor an embargo", file=sys.stderr)
        return 2
    kind, _, name = grantee.partition(":")
    kinds: dict[str, Grantee] = {"everyone": "everyone", "tier": "tier", "user": "user", "key": "key"}
    if kind not in kinds or (kind == "everyone" and name):
        return _refused("user", grantee, symbols)
    roots = tuple(root.strip().upper() for root in symbols.split(",") if root.strip())
    hours = EMBARGO_HOURS if embargo_hours is None else embargo_hours
    with open_house(read_settings(data=data)) as house:
        datasets = Datasets(house.store, house.store, house.reference.universe.products)
        try:
            terms = Terms(kinds[kind], name, scope, roots, from_, until, hours, licence)
            print(datasets.grant(terms, house.clock.now_ns(), BY_COMMAND).id)
        except GrantRefused as refusal:
            return _refused(refusal.code, grantee, symbols)
    return 0


def _refused(code: str, grantee: str, symbols: str) -> int:
    nobody = f"{grantee!r} is nobody: everyone, tier:free|pro|admin, user:EMAIL or key:PREFIX"
    said = {
        "product": f"not all of {symbols!r} are products",
        "dates": "the last date lies before the first",
        "embargo": "an embargo lasts from 0 hours to ten years",
        "embargo_needs_attestation": "what is shown live or within 24 hours of the close needs a licence of the data's "
        "owner: declare yours with --licence",
        "licence": "a licence for personal use lets nobody else see the data, an internal one only named users and "
        "keys",
    }
    print(f"outcry: {said.get(code, nobody)}", file=sys.stderr)
    return 2


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
        if house.store.revoke_grant(grant, house.clock.now_ns(), by=BY_COMMAND):
            return 0
    print(f"outcry: no grant {grant} is in force: see `outcry grants list`", file=sys.stderr)
    return 1


@grants.command(name="list")
def list_grants(*, data: str | None = None) -> int:
    """List the grants in force, tab-separated: number, grantee, scope, symbols, from, until, embargo in hours, licence.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        for row in house.store.grants():
            print("\t".join(_terms(row)))
    return 0


@grants.command
def log(*, data: str | None = None) -> int:
    """List what was granted and withdrawn, newest first, tab-separated: when, granted or withdrawn, by whom, the grant
    as in `outcry grants list`, what was declared with it.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        for line in house.store.grant_events(sys.maxsize):
            print("\t".join((_instant(line.at_ns), line.event, line.by, *_terms(line.grant), line.attested)))
    return 0


def _terms(row: GrantRow) -> tuple[str, ...]:
    dates = (str(day) if day else "" for day in (row.from_date, row.until_date))
    hours = str(row.embargo_ns // NANOS_PER_HOUR)
    return (str(row.id), row.grantee, row.scope, ",".join(row.roots) or "all", *dates, hours, row.licence)
