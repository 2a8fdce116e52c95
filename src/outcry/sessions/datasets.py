"""What data the operator has, and to whom it is granted.

Rules kept: whoever's recordings they are, an operator sees how much there is of them and nothing of what is in them; a
grant names somebody who exists, products there are, and an order of dates that can be; what is shown live or within a
day of the close rests on a licence the operator has declared, and that he did is kept.
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
from outcry.access.model import AccountStore, GrantEvent, GrantRow
from outcry.market.units import NANOS_PER_HOUR
from outcry.sessions.store_model import DatasetRow, SessionStore

LONGEST_EMBARGO_HOURS = 10 * 366 * 24
Grantee = Literal["everyone", "tier", "user", "key"]
#: What an operator declares with a grant that needs a licence; kept with it, so that what was declared can be shown.
ATTESTATION = (
    "I have a licence of class {licence} from the data's owner. It allows me to show this data to the users of this "
    "grant with this embargo."
)
_EVENTS_SHOWN = 200


class GrantRefused(Exception):
    """A grant cannot be made as wished: `code` says why, `field` which entry is at fault.

    Codes: `product`, `live_dates`, `dates`, `embargo`, `tier`, `user`, `key`, `embargo_needs_attestation`, `licence`.
    """

    def __init__(self, code: str, field: str) -> None:
        super().__init__(code)
        self.code, self.field = code, field


@dataclass(frozen=True, slots=True)
class Terms:
    """What shall be granted. `name`: the tier, the user's address, or the first characters of a key. `roots` empty: all
    products. `licence`: the class of licence that the operator declares to have for it, None if he declares none."""

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
    """What users have of their own: how many have anything, and how many sessions in all."""

    users: int
    sessions: int


class Datasets:
    """The data there is and its grants. `roots`: the products there are. All methods may raise `StoreBusy`."""

    def __init__(self, sessions: SessionStore, accounts: AccountStore, roots: Collection[str]) -> None:
        self._sessions, self._accounts, self._roots = sessions, accounts, roots

    def known(self) -> tuple[Sequence[DatasetRow], Others]:
        """The operator's datasets, and how much users have of their own."""
        rows = self._sessions.datasets()
        others = [row for row in rows if row.owner != OPERATOR]
        counted = Others(len({row.owner for row in others}), sum(row.sessions for row in others))
        return [row for row in rows if row.owner == OPERATOR], counted

    def grants(self) -> Sequence[GrantRow]:
        """Those in force."""
        return self._accounts.grants()

    def events(self) -> Sequence[GrantEvent]:
        """The newest of what was granted and withdrawn, newest first."""
        return self._accounts.grant_events(_EVENTS_SHOWN)

    def grant(self, terms: Terms, now_ns: int, by: str) -> GrantRow:
        """Grant something; `by`: who does. Raises `GrantRefused`."""
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
        number = self._accounts.add_grant(row, now_ns, by=by, attested=attested)
        return replace(row, id=number)

    def withdraw(self, grant_id: int, now_ns: int, by: str) -> bool:
        """Take a grant back; False where none of that number is in force. `by`: who does."""
        return self._accounts.revoke_grant(grant_id, now_ns, by=by)

    def _subject(self, terms: Terms) -> str:
        if terms.grantee == "everyone":
            return "everyone"
        if terms.grantee == "tier":
            if terms.name not in {"free", "pro", "admin"}:
                raise GrantRefused("tier", "name")
            return f"tier:{terms.name}"
        if terms.grantee == "key":
            known = self._accounts.keys()
            found = [row.id for row in known if terms.name and row.prefix == terms.name]
            if len(found) != 1:
                raise GrantRefused("key", "name")
            return f"key:{found[0]}"
        user_id = self._accounts.find_user(terms.name) if terms.name else None
        if user_id is None:
            raise GrantRefused("user", "name")
        return f"user:{user_id}"


def _attested(licence: LicenceClass | None, grantee: str) -> str:
    """What is declared with a grant that needs a licence. Raises `GrantRefused`."""
    if licence is None:
        raise GrantRefused("embargo_needs_attestation", "licence")
    if licence not in LICENCE_CLASSES or not licence_allows(licence, grantee):
        raise GrantRefused("licence", "licence")
    return ATTESTATION.format(licence=licence)
