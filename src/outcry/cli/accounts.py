"""`outcry keys …` and `outcry grants …`: API keys, and access to the operator's data."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Literal

from cyclopts import App

from outcry.access.key_format import KEY_LENGTH, MARK, is_beginning, is_label
from outcry.access.key_format import prefix as key_prefix
from outcry.access.licences import LicenceClass
from outcry.access.model import GrantRow, KeyRow, Role, Tier
from outcry.app.installation import open_installation
from outcry.app.settings import read_settings
from outcry.cli.columns import GRANT_LOG, GRANTS, KEYS
from outcry.cli.tables import Cell, Output, print_rows
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.people.email_address import is_email, spellings
from outcry.sessions.datasets import Datasets, Grantee, GrantRefused, Terms

OPERATOR_NAME = "operator"
#: The actor that the grant log records for changes made by command.
BY_COMMAND = "command"
EMBARGO_HOURS = 24
LONGEST_HOURS = 10 * 366 * 24
#: Maximum number of keys listed in one error message.
MOST_MATCHES = 10

keys = App(name="keys", help="Create, list and revoke API keys.")
grants = App(
    name="grants",
    help="Control who can see the operator's recordings and live feed. By default everyone sees the recordings, 24 "
    "hours after the close.",
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
    """Create an API key and print only the key on standard output. It is shown once; we store only a keyed hash.

        export OUTCRY_KEY=$(outcry keys create --email you@example.com)

    Parameters
    ----------
    email
        Email address of the key's owner. With --ingest, `operator` creates a key that pushes the operator's feed.
    tier
        Requests per minute: free 30, pro 120, admin 600. The tier does not change which data the key can read.
    ingest
        Create a key that can only push trades, as the owner's live feed. It cannot read anything.
    label
        Name shown in lists, at most 60 characters.
    expires
        Time until the key expires, such as 90d or 12h. By default the key does not expire.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    operator = ingest and email == OPERATOR_NAME
    if not (operator or is_email(email)):
        print(f"outcry: Invalid email address {email!r}: use the form name@example.com.", file=sys.stderr)
        return 2
    if not is_label(label.strip()):
        print("outcry: Invalid --label: use one line of at most 60 characters.", file=sys.stderr)
        return 2
    lasts_ns = _span_ns(expires) if expires else None
    if expires and lasts_ns is None:
        print(f"outcry: Invalid expiry {expires!r}: use 90d or 12h (max 10 years).", file=sys.stderr)
        return 2
    with open_installation(read_settings(data=data)) as installation:
        role: Role = "ingest-operator" if operator else "ingest" if ingest else "read"
        now_ns = installation.clock.now_ns()
        expires_ns = None if lasts_ns is None else now_ns + lasts_ns
        print(
            installation.keys.create(
                spellings(email)[-1], tier, now_ns, role=role, label=label, expires_ns=expires_ns
            )
        )
    return 0


@keys.command
def revoke(prefix: str, *, data: str | None = None) -> int:
    """Revoke the key that starts with PREFIX. Running services reject it within a second.

    Parameters
    ----------
    prefix
        First characters of the key, enough to match only one (see `outcry keys list`), or the whole key.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        text = prefix.strip()
        row = installation.keys.revoke(text, installation.clock.now_ns())
        if row is None:
            print(f"outcry: {_not_revoked(text, installation.keys.named(text))}", file=sys.stderr)
            return 1
    print(f"Revoked key {row.prefix} of {row.email}.", file=sys.stderr)
    return 0


def _not_revoked(text: str, found: Sequence[KeyRow]) -> str:
    """Return a message that explains why no key was revoked. It repeats no secret part of `text`."""
    if not is_beginning(text):
        return f"PREFIX is not the start of a key: all keys start with {MARK!r}. Run `outcry keys list` to see them."
    active = [row for row in found if row.revoked_ns is None]
    if len(active) == 1:
        return (
            f"All keys start with {MARK!r}. Give more characters of {active[0].prefix} ({active[0].email})."
        )
    if active:
        shown = [f"{row.prefix} ({row.email})" for row in active[:MOST_MATCHES]]
        more = [f"and {len(active) - MOST_MATCHES} more"] if len(active) > MOST_MATCHES else []
        return f"{len(active)} keys start with {key_prefix(text)!r}: {', '.join(shown + more)}. Give more characters."
    if len(found) == 1:
        return f"Key {found[0].prefix} is already revoked (since {_instant(found[0].revoked_ns)})."
    if len(text) == KEY_LENGTH:
        return (
            f"No key matches {key_prefix(text)}…. Check that the key is complete and belongs to this installation, "
            "or give only the first characters, as `outcry keys list` shows them."
        )
    return f"No active key starts with {key_prefix(text)!r}. Run `outcry keys list` to see all keys."


@keys.command(name="list")
def list_keys(*, output: Output = None, data: str | None = None) -> int:
    """List all keys: prefix, tier, email, created, revoked, role, label, expires, last used. Times are UTC.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        print_rows(KEYS, map(_key_line, installation.keys.list()), output)
    return 0


def _key_line(row: KeyRow) -> tuple[Cell, ...]:
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
    """Return the duration of `90d` or `12h` in ns, or None if the text is invalid or longer than ten years."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})([dh])", text)
    if found is None:
        return None
    hours = int(found[1]) * (24 if found[2] == "d" else 1)
    return hours * NANOS_PER_HOUR if hours <= LONGEST_HOURS else None


def _instant(at_ns: int | None) -> str | None:
    if at_ns is None:
        return None
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


@grants.command
def add(
    grantee: str, *, symbols: str = "", from_: date | None = None, until: date | None = None,
    scope: Literal["completed", "live"] = "completed", embargo_hours: int | None = None,
    licence: LicenceClass | None = None, data: str | None = None,
) -> int:  # fmt: skip
    """Grant access to the operator's completed sessions or live feed.

    Exchanges usually allow redistribution only 24 hours after the close, if at all: check your licence. Live access and
    shorter embargoes need --licence, your declaration that you hold one. `outcry grants log` records it.

    Parameters
    ----------
    grantee
        Who gets access: everyone, tier:pro, user:you@example.com or key:PREFIX.
    symbols
        Products, comma-separated, such as ES,NQ. Default: all products.
    from_
        First trade date of the grant. For completed sessions only.
    until
        Last trade date of the grant. For completed sessions only.
    scope
        completed: past sessions. live: the live feed, reported as `shared`, until you remove the grant.
    embargo_hours
        Hours between the close of a session and its release. Default: 24.
    licence
        The data licence that you declare to hold. internal covers named users and keys; redistributable and public
        cover anyone; personal covers only yourself.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    if scope == "live" and (from_ or until or embargo_hours is not None):
        print(
            "outcry: A live grant has no dates and no embargo: remove --from, --until and --embargo-hours.",
            file=sys.stderr,
        )
        return 2
    kind, _, name = grantee.partition(":")
    kinds: dict[str, Grantee] = {"everyone": "everyone", "tier": "tier", "user": "user", "key": "key"}
    if kind not in kinds or (kind == "everyone" and name):
        return _refused("user", grantee, symbols)
    roots = tuple(root.strip().upper() for root in symbols.split(",") if root.strip())
    hours = EMBARGO_HOURS if embargo_hours is None else embargo_hours
    with open_installation(read_settings(data=data)) as installation:
        datasets = Datasets(installation.store, installation.reference.universe.products)
        try:
            terms = Terms(kinds[kind], name, scope, roots, from_, until, hours, licence)
            print(datasets.grant(terms, installation.clock.now_ns(), BY_COMMAND).id)
        except GrantRefused as refusal:
            return _refused(refusal.code, grantee, symbols)
    return 0


def _refused(code: str, grantee: str, symbols: str) -> int:
    unknown = (
        f"Unknown grantee {grantee!r}: use everyone, tier:free|pro|admin, user:EMAIL of an account, or key:PREFIX of a "
        "key."
    )
    messages = {
        "product": f"Unknown product in --symbols {symbols!r}: use product symbols such as ES,NQ.",
        "dates": "--until is before --from: swap or correct the dates.",
        "embargo": "Invalid --embargo-hours: use 0 hours to 10 years.",
        "embargo_needs_attestation": "Access live or within 24 hours of the close needs a licence from the data's "
        "owner. Declare yours with --licence.",
        "licence": "This --licence does not cover the grantee: a personal licence covers only yourself, an internal "
        "one only named users and keys.",
    }
    print(f"outcry: {messages.get(code, unknown)}", file=sys.stderr)
    return 2


@grants.command
def remove(grant: int, *, data: str | None = None) -> int:
    """Remove a grant. Access ends at once.

    Parameters
    ----------
    grant
        Number of the grant, as `outcry grants list` shows it.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        if installation.store.revoke_grant(grant, installation.clock.now_ns(), by=BY_COMMAND):
            return 0
    print(f"outcry: No active grant {grant}. Run `outcry grants list` to see all grants.", file=sys.stderr)
    return 1


@grants.command(name="list")
def list_grants(*, output: Output = None, data: str | None = None) -> int:
    """List active grants: number, grantee, scope, symbols, from, until, embargo in hours, licence.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        print_rows(GRANTS, map(_terms, installation.store.grants()), output)
    return 0


@grants.command
def log(*, output: Output = None, data: str | None = None) -> int:
    """List the history of grants, newest first.

    The columns are: time, event (granted or withdrawn), actor, the columns of `outcry grants list`, and the licence
    declaration.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        lines = (
            (_instant(line.at_ns), line.event, line.by, *_terms(line.grant), line.attested)
            for line in installation.store.grant_events(sys.maxsize)
        )
        print_rows(GRANT_LOG, lines, output)
    return 0


def _terms(row: GrantRow) -> tuple[Cell, ...]:
    dates = (str(day) if day else None for day in (row.from_date, row.until_date))
    hours = row.embargo_ns // NANOS_PER_HOUR
    return (row.id, row.grantee, row.scope, ",".join(row.roots) or "all", *dates, hours, row.licence)
