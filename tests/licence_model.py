"""Model of users, their data and grants, and an oracle of what each API key may see, written from the rules alone.

Each recording, live feed and alert has a price of its own, so the prices in an answer reveal its sources. The oracle
uses grants and clocks, and no code of `access.licences`:

- A user's recordings and feeds are visible to that user's keys only.
- The operator's recordings are visible through a `completed` grant of the product and day, once the embargo has passed
  since the close. The operator's feed is visible through a `live` grant of the product.
- A grant applies to everyone, a tier, a user or a key.
- A live answer precedes a delayed one, the user's data the operator's, and a newer session an older one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from tests.api.harness import MemoryAccounts
from tests.sample_live_session import (
    CARRIED,
    CLOSE_NS,
    DAY,
    LIVE,
    NOW_NS,
    OPEN_NS,
    OPENING,
    PRIOR,
    PROFILE,
    VIEW,
    MemoryAlerts,
    Shown,
    alert_row,
)

from outcry.access.model import GrantRow, KeyRow
from outcry.live.model import AlertRow
from outcry.live.registry import Registry
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.market.ladder import Bracket, Ladder
from outcry.market.levels import CarriedLevel
from outcry.market.live_session import LiveView
from outcry.market.snapshot import dump
from outcry.sessions.store_model import SessionRow
from outcry.trades.records import Quality

HOUR = 3600 * 10**9
OPERATOR = 0
CONTRACTS = {
    "ES": Contract("ES", 2026, 3),
    "NQ": Contract("NQ", 2026, 3),
    "GC": Contract("GC", 2026, 4),
}
TICKS_PER_POINT = {"ES": 4, "NQ": 4, "GC": 10}
#: Trade dates of the recordings, newest first: Monday, Friday, Tuesday.
DAYS = (date(2026, 1, 5), date(2026, 1, 2), date(2025, 12, 30))
TIERS = ("free", "pro", "admin")
#: States of a feed. `no_trades`: live, but without trades so far.
FEED_STATES = (
    "live",
    "disconnected",
    "closed",
    "catching_up",
    "stale_link",
    "connecting",
    "ended",
    "no_trades",
)
UNLISTED = {"connecting", "ended"}
_FIRST_PRICE = 10_000


@dataclass(frozen=True)
class Recording:
    owner: int
    root: str
    day: date
    complete: bool
    price: int

    @property
    def close_ns(self) -> int:
        return CLOSE_NS - (DAY - self.day) // timedelta(days=1) * 24 * HOUR


@dataclass
class OwnedFeed:
    owner: int
    root: str
    price: int
    state: str
    alert: AlertRow
    shown: Shown

    def change_state(self, state: str) -> None:
        self.state = state
        self.shown.view = None if state == "no_trades" else _view(self.root, self.price)
        self.shown.channel.version += 1
        if state in {"live", "no_trades"}:
            self.shown.registry.set_availability(self.shown.channel, LIVE)
        else:
            self.shown.stop(state)


@dataclass
class LicenceModel:
    """All data and grants, and what each key may see. Tests advance `now_ns`."""

    accounts: MemoryAccounts = field(default_factory=MemoryAccounts)
    registry: Registry = field(default_factory=Registry)
    recordings: list[Recording] = field(default_factory=list)
    feeds: list[OwnedFeed] = field(default_factory=list)
    archive: MemoryAlerts = field(default_factory=MemoryAlerts)
    now_ns: int = NOW_NS
    _prices: Iterator[int] = field(default_factory=lambda: iter(range(_FIRST_PRICE, 10**6, 2)))

    # -- data and grants

    def record(self, owner: int, root: str, day: date, *, complete: bool = True) -> Recording:
        """Add a recording; it replaces the one of the same owner, product and day."""
        self.recordings = [
            one for one in self.recordings if (one.owner, one.root, one.day) != (owner, root, day)
        ]
        made = Recording(owner, root, day, complete, next(self._prices))
        self.recordings.append(made)
        self.accounts.moves += 1
        return made

    def connect(self, owner: int, root: str, state: str) -> OwnedFeed:
        """Add a feed, or change the state of the owner's existing feed of this product."""
        for feed in self.feeds:
            if (feed.owner, feed.root) == (owner, root):
                feed.change_state(state)
                return feed
        price = next(self._prices)
        seq = len(self.archive.rows) + 1
        contract, name = CONTRACTS[root], f"feed-{owner}-{root}"
        row = alert_row(
            seq, owner=owner, feed=name, contract=contract.key, symbol=root, price_e9=price * 10**9,
            key=f"{name}:{seq}", params={"vah": price * 10**9, "tolTicks": 2},
        )  # fmt: skip
        made = OwnedFeed(owner, root, price, state, row, Shown(self.registry, owner, contract, name))
        self.archive.rows.append(row)
        self.registry.post([row])
        self.feeds.append(made)
        made.change_state(state)
        return made

    def disconnect(self, feed: OwnedFeed) -> None:
        self.registry.drop(feed.shown.channel.key)
        self.feeds.remove(feed)

    def grant(self, grantee: str, scope: Any, roots: Sequence[str], hours: int, first: date | None) -> int:
        row = GrantRow(0, grantee, scope, tuple(roots), first, None, hours * HOUR, None)
        return self.accounts.add_grant(row, self.now_ns)

    # -- the part of the store that queries use

    def revision(self) -> int:
        return self.accounts.revision()

    def sessions(self, owners: Sequence[int], root: str) -> Sequence[SessionRow]:
        return [_row(one) for one in self.recordings if one.owner in owners and one.root == root]

    def sessions_and_damaged(
        self, owners: Sequence[int], root: str
    ) -> tuple[Sequence[SessionRow], list[Any]]:
        return self.sessions(owners, root), []

    def roots(self, owners: Sequence[int]) -> Sequence[str]:
        return sorted({one.root for one in self.recordings if one.owner in owners})

    # -- the oracle

    def granted(self, key: KeyRow) -> list[GrantRow]:
        """Return the active grants for this key, its user, its tier or everyone."""
        names = ("everyone", f"tier:{key.tier}", f"user:{key.user_id}", f"key:{key.id}")
        return [one for one in self.accounts.granted if one.revoked_ns is None and one.grantee in names]

    def visible_from_ns(self, key: KeyRow, recording: Recording) -> int | None:
        """Return the time from which this key may see a recording; None: never."""
        if recording.owner == key.user_id:
            return recording.close_ns
        if recording.owner != OPERATOR:
            return None
        ends = [
            recording.close_ns + one.embargo_ns
            for one in self.granted(key)
            if one.scope == "completed"
            and (not one.roots or recording.root in one.roots)
            and (one.from_date is None or recording.day >= one.from_date)
        ]
        return min(ends, default=None)

    def may_see_feed(self, key: KeyRow, owner: int, root: str) -> bool:
        if owner == key.user_id:
            return True
        shared = [one for one in self.granted(key) if one.scope == "live"]
        return owner == OPERATOR and any(not one.roots or root in one.roots for one in shared)

    def visible_feeds(self, key: KeyRow, root: str) -> list[OwnedFeed]:
        """Return the feeds of a product that this key may see, the user's own first."""
        seen = [one for one in self.feeds if one.root == root and self.may_see_feed(key, one.owner, root)]
        return sorted(seen, key=lambda one: one.owner == OPERATOR)

    def live_feed(self, key: KeyRow, root: str) -> OwnedFeed | None:
        return next((one for one in self.visible_feeds(key, root) if one.state == "live"), None)

    def completed(self, key: KeyRow, root: str) -> list[Recording]:
        """Return one visible recording for each day, ascending; the user's own has precedence over the operator's."""
        best: dict[date, Recording] = {}
        for one in self.recordings:
            from_ns = self.visible_from_ns(key, one)
            if one.root == root and one.complete and from_ns is not None and from_ns <= self.now_ns:
                previous = best.get(one.day)
                if previous is None or previous.owner == OPERATOR:
                    best[one.day] = one
        return [best[day] for day in sorted(best)]

    def answer(self, key: KeyRow, root: str) -> tuple[str, str | None, int] | None:
        """Return the expected `dataSource`, `asOf` and price of a levels answer; None: status 409."""
        feed = self.live_feed(key, root)
        if feed is not None:
            return ("shared" if feed.owner == OPERATOR else "personal"), None, feed.price
        sessions = self.completed(key, root)
        return ("delayed", str(sessions[-1].day), sessions[-1].price) if sessions else None

    def reasons(self, key: KeyRow, root: str) -> tuple[list[str], int | None]:
        """Return the reasons why there is no answer, and the end of the embargo if that is one."""
        seen = self.visible_feeds(key, root)
        of_root = [one for one in self.recordings if one.root == root and one.complete]
        froms = [self.visible_from_ns(key, one) for one in of_root if one.owner in (key.user_id, OPERATOR)]
        early = [from_ns for from_ns in froms if from_ns is not None and from_ns > self.now_ns]
        reasons = [seen[0].state if seen else "no_connection"]
        reasons += ["embargo"] * bool(early)
        denied = bool(self.granted(key)) and None in froms
        reasons += ["not_granted"] * (denied or not self.granted(key))
        reasons += ["no_completed_session"] * (not early and not denied)
        return reasons, min(early, default=None)

    def current_alert_prices(self, key: KeyRow) -> list[int]:
        """Return the prices of today's alerts, newest first."""
        rows = [
            one.alert
            for root in CONTRACTS
            for one in self.visible_feeds(key, root)
            if one.state not in UNLISTED
        ]
        return [row.price_e9 // 10**9 for row in sorted(rows, key=lambda row: -row.seq)]

    def all_alert_prices(self, key: KeyRow) -> list[int]:
        """Return the prices of all alerts, newest first, including those of disconnected feeds."""
        rows = [row for row in self.archive.rows if self.may_see_feed(key, row.owner, row.symbol)]
        return [row.price_e9 // 10**9 for row in reversed(rows)]

    def visible_prices(self, key: KeyRow) -> set[int]:
        """Return every price that an answer to this key may contain now."""
        recorded = [(one.price, self.visible_from_ns(key, one)) for one in self.recordings]
        # Prices of partial recordings are included.
        prices = {price for price, from_ns in recorded if from_ns is not None and from_ns <= self.now_ns}
        return prices | set(self.all_alert_prices(key)) | {row.price for row in self._feeds_of(key)}

    def _feeds_of(self, key: KeyRow) -> list[OwnedFeed]:
        return [one for root in CONTRACTS for one in self.visible_feeds(key, root)]


def prices_in(answer: Any) -> set[int]:
    """Return every price of a recording, feed or alert that an answer contains, at any depth."""
    found: set[int] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            walk(list(part.values()))
        elif isinstance(part, list):
            for one in part:
                walk(one)
        elif isinstance(part, int | float) and not isinstance(part, bool) and part == int(part):
            if _FIRST_PRICE <= part < 10**6:
                found.add(int(part))
        elif isinstance(part, str):  # sentences contain prices too
            found.update(_prices_in_text(part.replace(",", " ").replace("(", " ").split()))

    walk(answer)
    return found


def _prices_in_text(words: Iterable[str]) -> set[int]:
    numbers = [word.rstrip(".").partition(".")[0] for word in words]
    return {int(one) for one in numbers if one.isdigit() and _FIRST_PRICE <= int(one) < 10**6}


def _view(root: str, price: int) -> LiveView:
    """Return a live session with all levels at one price."""
    ticks = price * TICKS_PER_POINT[root]
    prior = replace(PRIOR, poc=ticks, vah=ticks, val=ticks, high=ticks, low=ticks, close=ticks)
    opening = replace(
        OPENING, contract=CONTRACTS[root].key, root=root, prior=prior,
        carried=replace(CARRIED, naked_pocs=(CarriedLevel(ticks, PRIOR.trade_date),), poor_highs=()),
    )  # fmt: skip
    profile = replace(PROFILE, poc=ticks, poc_candidates=(ticks,), vah=ticks, val=ticks)
    lines = tuple(replace(line, price_ticks=ticks) for line in VIEW.levels)  # distances could pass for prices
    return replace(VIEW, opening=opening, profile=profile, last_ticks=ticks, levels=lines)


def _row(recording: Recording) -> SessionRow:
    """Return a session that traded at one price in each of its brackets."""
    close_ns, ticks = recording.close_ns, recording.price * TICKS_PER_POINT[recording.root]
    opened, step = close_ns - (CLOSE_NS - OPEN_NS), HOUR // 2
    brackets = tuple(
        Bracket(n, ticks, ticks, ticks, ticks, opened + n * step, opened + n * step + 1) for n in range(13)
    )
    return SessionRow(
        owner=recording.owner, root=recording.root, contract=CONTRACTS[recording.root].key,
        trade_date=recording.day, kind=SessionKind.RTH, open_ns=opened, close_ns=close_ns, source="dbn",
        quality=Quality.TICKS, complete=recording.complete, short=False, rows=26, volume=26, off_tick=0,
        out_of_order=0, first_ns=opened, last_ns=opened + 12 * step + 1, received_ns=recording.price,
        profile=dump(Ladder(brackets, ticks, (26,), ((ticks, ticks),), "trades")),
    )  # fmt: skip
