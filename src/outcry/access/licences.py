"""What a key may see: its user's own recordings, and what of the operator's is granted to it.

Rule kept: one user's recordings never answer another user's key. The operator's data (owner 0) is seen only
through a grant, and a completed session only once its close is the grant's embargo past.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

from outcry.access.tiers import Tier

OPERATOR = 0
#: Somebody who is not signed in: owns nothing, and sees what is granted to everyone, if visitors see anything.
VISITOR = -1
EXCHANGE_EMBARGO_NS = 24 * 3600 * 1_000_000_000  # exchanges license data older than a day far more freely

#: What the operator's own licence of the data allows, as he declares it: `personal`, nobody else to see it; `internal`,
#: named users and keys; `redistributable` and `public`, anyone.
LicenceClass = Literal["personal", "internal", "redistributable", "public"]
LICENCE_CLASSES: tuple[LicenceClass, ...] = get_args(LicenceClass)


def needs_licence(scope: Literal["completed", "live"], embargo_ns: int) -> bool:
    """Whether a grant shows data so soon that the operator has to declare a licence for it: within a day of the close,
    or live. What is older exchanges license far more freely."""
    return scope == "live" or embargo_ns < EXCHANGE_EMBARGO_NS


def licence_allows(licence: str, grantee: str) -> bool:
    """Whether data under this class of licence may be shown to a grantee."""
    if licence == "internal":
        return grantee.startswith(("user:", "key:"))
    return licence in {"redistributable", "public"}


@dataclass(frozen=True, slots=True)
class Grant:
    """The operator's data licensed to `everyone`, a `tier:pro`, a `user:3` or a `key:7`.

    Covers `roots` (empty: all) between two trade dates, both included; None leaves that side open.
    """

    grantee: str
    scope: Literal["completed", "live"]
    roots: tuple[str, ...]
    from_date: date | None
    until_date: date | None
    embargo_ns: int = EXCHANGE_EMBARGO_NS

    def covers(self, root: str, trade_date: date) -> bool:
        """Whether a completed session of this product and day falls under the grant, embargo aside."""
        return (
            self.scope == "completed"
            and (not self.roots or root in self.roots)
            and (self.from_date is None or self.from_date <= trade_date)
            and (self.until_date is None or trade_date <= self.until_date)
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """All a caller may see. Two callers with equal scopes may share an answer, and no others."""

    user_id: int
    grants: tuple[Grant, ...]

    def __post_init__(self) -> None:
        if self.user_id < VISITOR or self.user_id == OPERATOR:
            raise ValueError("a scope belongs to a user; the operator's data is seen through grants")

    @property
    def owners(self) -> tuple[int, ...]:
        """Whose recordings to look at: the user's own first, then the operator's where anything is
        granted."""
        return (self.user_id, OPERATOR) if self.grants else (self.user_id,)

    def visible_from(self, owner: int, root: str, trade_date: date, close_ns: int) -> int | None:
        """Return the instant (ns UTC) from which a completed session may be shown; None where never."""
        if owner == self.user_id:
            return close_ns
        if owner != OPERATOR:
            return None
        return min(
            (close_ns + grant.embargo_ns for grant in self.grants if grant.covers(root, trade_date)),
            default=None,
        )

    def sees_live(self, root: str) -> bool:
        """Whether the operator's live feed of a product is granted. Dates and embargo do not apply: it is now."""
        return any(
            grant.scope == "live" and (not grant.roots or root in grant.roots) for grant in self.grants
        )

    def may_see(self, owner: int, root: str, trade_date: date, close_ns: int, now_ns: int) -> bool:
        """Whether a completed session may be shown now."""
        from_ns = self.visible_from(owner, root, trade_date, close_ns)
        return from_ns is not None and from_ns <= now_ns


def resolve(user_id: int, key_id: int, tier: Tier, grants: Iterable[Grant]) -> Scope:
    """Return what a key may see, given all grants in force. Equal grants are kept once, so equal scopes
    compare equal."""
    mine = {"everyone", f"tier:{tier}", f"user:{user_id}", f"key:{key_id}"}
    return Scope(user_id, tuple(dict.fromkeys(grant for grant in grants if grant.grantee in mine)))


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom the alerts of one feed and product reach: `everyone`, or the users named and those of the tiers named."""

    everyone: bool
    tiers: frozenset[str]
    users: frozenset[int]

    def includes(self, user_id: int, tier: Tier) -> bool:
        """Whether a person of that tier is among them."""
        return self.everyone or tier in self.tiers or user_id in self.users


def audience(owner: int, root: str, grants: Iterable[Grant]) -> Audience:
    """Whom alerts of a product reach: of a user's own feed that user, of the operator's those it is granted to live.

    The same rule as `Scope.sees_live`, from the other side: a subscription receives what its owner may see.
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
