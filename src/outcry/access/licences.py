"""Rules of what a caller may see: the user's own recordings, and the operator's data that a grant covers.

A user's recordings are never shown to another user. The operator's data (owner 0) is only visible through a grant, and
a completed session only after its close plus the grant's embargo. `Licences` decides this from memory, and reloads the
grants when the database's revision (a counter of changes) has changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, get_args

from outcry.access.account_store import SqlAccounts
from outcry.access.model import KeyRow
from outcry.access.tiers import Tier
from outcry.database.revision_cache import RevisionCache

OPERATOR = 0
#: User id of visitors who are not signed in. They own nothing and see what is granted to everyone.
VISITOR = -1
EXCHANGE_EMBARGO_NS = 24 * 3600 * 1_000_000_000  # exchanges license data older than a day far more freely

#: The operator's licence for the data, as declared: `personal` allows no other viewer, `internal` named users and keys,
#: `redistributable` and `public` anyone.
LicenceClass = Literal["personal", "internal", "redistributable", "public"]
LICENCE_CLASSES: tuple[LicenceClass, ...] = get_args(LicenceClass)


def needs_licence(scope: Literal["completed", "live"], embargo_ns: int) -> bool:
    """Return whether the operator must declare a data licence to make a grant.

    That is so for live data, and for completed sessions released less than a day after their close. Exchanges license
    older data far more freely.
    """
    return scope == "live" or embargo_ns < EXCHANGE_EMBARGO_NS


def licence_allows(licence: str, grantee: str) -> bool:
    """Return whether a licence of this class permits showing data to a grantee, such as `everyone` or `user:3`."""
    if licence == "internal":
        return grantee.startswith(("user:", "key:"))
    return licence in {"redistributable", "public"}


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to see the operator's data, for the grantee `everyone`, `tier:pro`, `user:3` or `key:7`.

    It covers the products `roots` (empty: all) between two trade dates, both inclusive; None leaves that side open.
    """

    grantee: str
    scope: Literal["completed", "live"]
    roots: tuple[str, ...]
    from_date: date | None
    until_date: date | None
    embargo_ns: int = EXCHANGE_EMBARGO_NS

    def covers(self, root: str, trade_date: date) -> bool:
        """Return whether the grant covers a completed session, regardless of the embargo."""
        return (
            self.scope == "completed"
            and (not self.roots or root in self.roots)
            and (self.from_date is None or self.from_date <= trade_date)
            and (self.until_date is None or trade_date <= self.until_date)
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may see.

    Callers share a cached answer only if their scopes are equal. `grants`: the grants of the operator's data that apply
    to the caller.
    """

    user_id: int
    grants: tuple[Grant, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.user_id < VISITOR or self.user_id == OPERATOR:
            raise ValueError("a scope belongs to a user; the operator's data is seen through grants")
        object.__setattr__(self, "_hash", hash((self.user_id, self.grants)))

    def __hash__(self) -> int:
        """Return the hash, which is computed once because each request looks up an answer by scope."""
        return self._hash

    @property
    def owners(self) -> tuple[int, ...]:
        """Owners whose recordings are visible: the user first, then the operator if a grant applies."""
        return (self.user_id, OPERATOR) if self.grants else (self.user_id,)

    def visible_from(self, owner: int, root: str, trade_date: date, close_ns: int) -> int | None:
        """Return the time (ns UTC) from which a completed session is visible; None if it never is."""
        if owner == self.user_id:
            return close_ns
        if owner != OPERATOR:
            return None
        return min(
            (close_ns + grant.embargo_ns for grant in self.grants if grant.covers(root, trade_date)),
            default=None,
        )

    def sees_live(self, root: str) -> bool:
        """Return whether the operator's live feed of a product is granted.

        Dates and embargo do not apply to live data.
        """
        return any(
            grant.scope == "live" and (not grant.roots or root in grant.roots) for grant in self.grants
        )

    def may_see(self, owner: int, root: str, trade_date: date, close_ns: int, now_ns: int) -> bool:
        """Return whether a completed session is visible at `now_ns`."""
        from_ns = self.visible_from(owner, root, trade_date, close_ns)
        return from_ns is not None and from_ns <= now_ns


def resolve(user_id: int, key_id: int, tier: Tier, grants: Iterable[Grant]) -> Scope:
    """Return the scope of a key, given all active grants.

    Duplicate grants are dropped, so that equal scopes compare equal.
    """
    mine = {"everyone", f"tier:{tier}", f"user:{user_id}", f"key:{key_id}"}
    return Scope(user_id, tuple(dict.fromkeys(grant for grant in grants if grant.grantee in mine)))


@dataclass(frozen=True, slots=True)
class Audience:
    """Who receives the alerts of one product of one feed: everyone, or the listed users and tiers."""

    everyone: bool
    tiers: frozenset[str]
    users: frozenset[int]

    def includes(self, user_id: int, tier: Tier) -> bool:
        """Return whether a user of that tier is a recipient."""
        return self.everyone or tier in self.tiers or user_id in self.users


def audience(owner: int, root: str, grants: Iterable[Grant]) -> Audience:
    """Return who receives the alerts of a feed's product: the feed's owner, or the users of a grant by the operator.

    This is the rule of `Scope.sees_live` for all users at once, because a webhook or email may receive only alerts that
    its owner may see.
    """
    if owner != OPERATOR:
        return Audience(everyone=False, tiers=frozenset(), users=frozenset({owner}))
    live = [
        grant.grantee.partition(":")
        for grant in grants
        if grant.scope == "live" and (not grant.roots or root in grant.roots)
    ]
    return Audience(
        everyone=any(kind == "everyone" for kind, _, _ in live),
        tiers=frozenset(name for kind, _, name in live if kind == "tier"),
        users=frozenset(int(name) for kind, _, name in live if kind == "user"),
    )


class Licences(RevisionCache):
    """All active grants in memory, and the scope that follows for each key, that is, what the key may see."""

    def __init__(self, store: SqlAccounts) -> None:
        super().__init__(store.revision)
        self._store = store
        self._grants: tuple[Grant, ...] = ()

    def scope(self, row: KeyRow) -> Scope:
        """Return what a key may see, from memory."""
        return resolve(row.user_id, row.id, row.tier, self._grants)

    def of_user(self, user_id: int) -> Scope:
        """Return what a user may see with any key of any tier.

        It applies to the user's feeds, which belong to the user and not to a key.
        """
        return resolve(
            user_id, 0, "free", tuple(g for g in self._grants if not g.grantee.startswith("tier:"))
        )

    def of_person(self, user_id: int, tier: Tier) -> Scope:
        """Return what a signed-in user may see on pages.

        This equals what the user's keys may see, except for grants to a single key.
        """
        return resolve(user_id, 0, tier, self._grants)

    def of_visitor(self) -> Scope:
        """Return what a visitor who is not signed in may see, where visitors are allowed."""
        return resolve(VISITOR, 0, "free", tuple(g for g in self._grants if g.grantee == "everyone"))

    def audience(self, owner: int, root: str) -> Audience:
        """Return who may receive the alerts of a feed and product."""
        return audience(owner, root, self._grants)

    def _load(self) -> bool:
        grants = tuple(
            Grant(row.grantee, row.scope, row.roots, row.from_date, row.until_date, row.embargo_ns)
            for row in self._store.grants()
            if row.revoked_ns is None
        )
        changed = grants != self._grants
        if changed:
            self._grants = grants
        return changed
