"""Datasets of the operator, and the grants that let users see them.

An operator sees how much data each owner has, but not its content. A grant must name an existing recipient, known
products and a valid range of dates. To show data live or within a day of the close, the operator needs a licence and
must declare it; the declaration is stored.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from outcry.access.licences import (
    LICENCE_CLASSES,
    OPERATOR,
    LicenceClass,
    licence_allows,
    needs_licence,
)
from outcry.access.model import GrantEvent, GrantRow
from outcry.market.units import NANOS_PER_HOUR
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import DatasetRow

LONGEST_EMBARGO_HOURS = 10 * 366 * 24
Grantee = Literal["everyone", "tier", "user", "key"]
#: Declaration by the operator for a grant that needs a licence; stored with the grant.
ATTESTATION = (
    "I have a licence of class {licence} from the data's owner. It allows me to show this data to the users of this "
    "grant with this embargo."
)
_EVENTS_SHOWN = 200


class GrantRefused(Exception):
    """A grant is invalid. `code`: the reason; `field`: the form field that causes it.

    Codes: `product`, `live_dates`, `dates`, `embargo`, `tier`, `user`, `key`, `embargo_needs_attestation`, `licence`.
    """

    def __init__(self, code: str, field: str) -> None:
        super().__init__(code)
        self.code, self.field = code, field


@dataclass(frozen=True, slots=True)
class Terms:
    """What a new grant permits, and who receives it.

    name: the tier, the user's email address, or the first characters of a key. roots: products; empty for all. licence:
    the class of licence that the operator declares; None without a declaration.
    """

    grantee: Grantee
    name: str
    scope: Literal["completed", "live"]
    roots: tuple[str, ...]
    from_date: date | None
    until_date: date | None
    embargo_hours: int
    licence: LicenceClass | None = None


@dataclass(frozen=True, slots=True)
class Others:
    """Totals of the data that users own: how many users have any, and how many sessions they have."""

    users: int
    sessions: int


class Datasets:
    """Lists datasets and manages grants. roots: the known products. All methods may raise `StoreBusy`."""

    def __init__(self, store: SqlStore, roots: Collection[str]) -> None:
        self._store, self._roots = store, roots

    def known(self) -> tuple[Sequence[DatasetRow], Others]:
        """Return the operator's datasets, and the totals of users' own data."""
        rows = self._store.datasets()
        others = [row for row in rows if row.owner != OPERATOR]
        counted = Others(len({row.owner for row in others}), sum(row.sessions for row in others))
        return [row for row in rows if row.owner == OPERATOR], counted

    def grants(self) -> Sequence[GrantRow]:
        """Return the active grants."""
        return self._store.grants()

    def events(self) -> Sequence[GrantEvent]:
        """Return the latest grants and revocations, newest first."""
        return self._store.grant_events(_EVENTS_SHOWN)

    def grant(self, terms: Terms, now_ns: int, by: str) -> GrantRow:
        """Create a grant. by: who creates it. Raises `GrantRefused`."""
        if any(root not in self._roots for root in terms.roots):
            raise GrantRefused("product", "roots")
        live = terms.scope == "live"
        if live and (terms.from_date or terms.until_date):
            raise GrantRefused("live_dates", "from_date" if terms.from_date else "until_date")
        if terms.from_date and terms.until_date and terms.until_date < terms.from_date:
            raise GrantRefused("dates", "until_date")
        if not 0 <= terms.embargo_hours <= LONGEST_EMBARGO_HOURS:
            raise GrantRefused("embargo", "embargo_hours")
        embargo_ns = 0 if live else terms.embargo_hours * NANOS_PER_HOUR
        subject = self._subject(terms)
        attested = ""
        if needs_licence(terms.scope, embargo_ns):
            attested = _attested(terms.licence, subject)
        row = GrantRow(
            0, subject, terms.scope, terms.roots, terms.from_date, terms.until_date, embargo_ns, None,
            licence=terms.licence or "",
        )  # fmt: skip
        number = self._store.add_grant(row, now_ns, by=by, attested=attested)
        return replace(row, id=number)

    def withdraw(self, grant_id: int, now_ns: int, by: str) -> bool:
        """Revoke a grant; return False if there is no active grant of that id. by: who revokes it."""
        return self._store.revoke_grant(grant_id, now_ns, by=by)

    def _subject(self, terms: Terms) -> str:
        if terms.grantee == "everyone":
            return "everyone"
        if terms.grantee == "tier":
            if terms.name not in {"free", "pro", "admin"}:
                raise GrantRefused("tier", "name")
            return f"tier:{terms.name}"
        if terms.grantee == "key":
            known = self._store.keys()
            found = [row.id for row in known if terms.name and row.prefix == terms.name]
            if len(found) != 1:
                raise GrantRefused("key", "name")
            return f"key:{found[0]}"
        user_id = self._store.find_user(terms.name) if terms.name else None
        if user_id is None:
            raise GrantRefused("user", "name")
        return f"user:{user_id}"


def _attested(licence: LicenceClass | None, grantee: str) -> str:
    """Return the licence declaration to store with a grant; empty if the grant needs none.

    Raises `GrantRefused` if the grant needs a declaration and there is none.
    """
    if licence is None:
        raise GrantRefused("embargo_needs_attestation", "licence")
    if licence not in LICENCE_CLASSES or not licence_allows(licence, grantee):
        raise GrantRefused("licence", "licence")
    return ATTESTATION.format(licence=licence)
