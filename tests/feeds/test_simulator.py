"""Simulated market: deterministic, on the tick grid, within trading hours, with all kinds of auction structure."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

import numpy as np
import pytest

from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import Session, SessionKind
from outcry.market.day_type import DayType, OpenType, day_type, open_type
from outcry.market.fold import SessionFold
from outcry.market.instruments import Contract
from outcry.market.ladder import IB_BRACKETS, Ladder, bracket_windows
from outcry.market.levels import CarriedLevels, CompletedSession, carried_levels
from outcry.market.live_session import LiveSession
from outcry.market.opening import Opening, Prior
from outcry.market.profile import SessionProfile, profile_of
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_MS
from outcry.trades.feed import LIVE_TRADE
from outcry.trades.records import Rows
from outcry.trades.reference_tables import Reference, load_reference

UNTIL = date(2026, 11, 20)  # a Friday; Thanksgiving is the 26th
SEED = 1


@pytest.fixture(scope="module")
def reference() -> Reference:
    return load_reference()


@pytest.fixture(scope="module")
def market(reference: Reference) -> SimulatedMarket:
    return SimulatedMarket(SEED, reference.universe.products, reference.calendar)


@dataclass
class PastSessions:
    """Twenty trade dates of one product: every session with its rows, and the regular ones folded."""

    tick_e9: int
    sessions: list[tuple[Session, Rows]]
    regular: list[tuple[Session, Ladder, SessionProfile]]
    carried: CarriedLevels

    def lots(self, kind: SessionKind) -> int:
        return sum(int(rows["size"].sum()) for session, rows in self.sessions if session.kind is kind)


def fold(session: Session, rows: Rows, tick_e9: int) -> Ladder:
    one = SessionFold(bracket_windows(session.segments, 30))
    ticks = (rows["price"] // tick_e9).tolist()
    one.trades(zip(rows["ts_event"].tolist(), ticks, rows["size"].tolist(), strict=True))
    ladder = one.ladder()
    assert ladder is not None
    return ladder


@pytest.fixture(scope="module")
def pasts(reference: Reference, market: SimulatedMarket) -> dict[str, PastSessions]:
    found: dict[str, PastSessions] = {}
    for root in market.roots:
        tick_e9 = reference.universe.products[root].tick_e9
        contract = reference.universe.front(root, UNTIL)
        sessions = list(past_sessions(market, contract, reference.calendar, UNTIL))
        regular: list[tuple[Session, Ladder, SessionProfile]] = []
        for session, rows in sessions:
            if session.kind is SessionKind.RTH:
                ladder = fold(session, rows, tick_e9)
                regular.append((session, ladder, profile_of(ladder, IB_BRACKETS)))
        done = [CompletedSession(session.trade_date, ladder, profile) for session, ladder, profile in regular]
        found[root] = PastSessions(tick_e9, sessions, regular, carried_levels(done))
    return found


DIGEST = """
import hashlib, sys
from datetime import date
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.trades.reference_tables import load_reference
reference = load_reference()
market = SimulatedMarket(7, reference.universe.products, reference.calendar)
wanted = [(root, date(2026, 11, day), kind) for root in ("ES", "6J", "ZN") for day in (16, 18) for kind in SessionKind]
rows = {}
for each in reversed(wanted) if "backwards" in sys.argv else wanted:
    root, day, kind = each
    session = reference.calendar.session(root, day, kind)
    rows[each] = market.trades(Contract(root, 2026, 12), session).tobytes()
print(hashlib.sha256(b"".join(rows[each] for each in wanted)).hexdigest())
"""


def digest(hash_seed: str, zone: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", DIGEST, *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_the_rows_are_the_same_in_every_process() -> None:
    """Under two hash seeds and two time zones, in one order and the other: byte for byte."""
    first = digest("0", "UTC")
    assert len(first) == 64
    assert digest("4711", "Pacific/Auckland", "backwards") == first


def test_a_session_needs_no_session_before_it(reference: Reference, market: SimulatedMarket) -> None:
    """A market that has just been made, and one that has played all products, say the same of one session."""
    session = reference.calendar.session("CL", date(2026, 11, 19), SessionKind.ETH)
    assert session is not None
    fresh = SimulatedMarket(SEED, reference.universe.products, reference.calendar)
    contract = Contract("CL", 2027, 1)
    assert fresh.trades(contract, session).tobytes() == market.trades(contract, session).tobytes()


def test_seed_product_date_and_kind_each_make_another_session(
    reference: Reference, market: SimulatedMarket
) -> None:
    calendar, products = reference.calendar, reference.universe.products
    day, other = date(2026, 11, 18), date(2026, 11, 19)

    def seen(market: SimulatedMarket, root: str, day: date, kind: SessionKind) -> str:
        session = calendar.session(root, day, kind)
        assert session is not None
        rows = market.trades(Contract(root, 2026, 12), session)
        steps = np.diff(rows["price"] // products[root].tick_e9)
        return hashlib.sha256(steps.tobytes()).hexdigest()

    rth = SessionKind.RTH
    different = {
        seen(market, "ES", day, rth), seen(market, "ES", other, rth), seen(market, "NQ", day, rth),
        seen(market, "ES", day, SessionKind.ETH), seen(SimulatedMarket(SEED + 1, products, calendar), "ES", day, rth),
    }  # fmt: skip
    assert len(different) == 5


def test_every_full_size_product_is_invented(reference: Reference, market: SimulatedMarket) -> None:
    full = {product.root for product in reference.universe.products.values() if product.parent is None}
    assert set(market.roots) == full
    assert len(full) == 32


def test_rows_are_on_the_tick_in_order_and_within_hours(pasts: dict[str, PastSessions]) -> None:
    for past in pasts.values():
        for session, rows in past.sessions:
            times = rows["ts_event"]
            assert rows.dtype == LIVE_TRADE
            assert not (rows["price"] % past.tick_e9).any()
            assert (times[1:] >= times[:-1]).all()
            assert not (times % NANOS_PER_MS).any()
            inside = sum((times >= start) & (times < end) for start, end in session.segments)
            assert (inside == 1).all()
            assert (rows["ts_recv"] == times + 5 * NANOS_PER_MS).all()
            assert rows["size"].min() >= 1
            assert set(np.unique(rows["side"]).tolist()) == {b"A", b"B"}
            assert rows["price"].min() > 0


def test_numbers_grow_and_are_never_used_twice(pasts: dict[str, PastSessions]) -> None:
    """JSON readers keep whole numbers up to 2**53."""
    for past in pasts.values():
        numbers = np.concatenate([rows["id"] for _, rows in past.sessions])
        assert (numbers[1:] > numbers[:-1]).all()
        assert int(numbers[-1]) < 2**53
        for _, rows in past.sessions:
            assert rows["sequence"].tolist() == list(range(1, len(rows) + 1))


def test_twenty_trade_dates_before(pasts: dict[str, PastSessions]) -> None:
    """From Friday 20 November back: no holiday of the exchanges lies in between, so the first is Friday 23 October."""
    for root, past in pasts.items():
        kinds = Counter(session.kind for session, _ in past.sessions)
        assert kinds[SessionKind.RTH] == 20
        assert kinds[SessionKind.ETH] == (0 if root in {"LE", "HE", "GF"} else 20)
        assert past.sessions[0][0].trade_date == date(2026, 10, 23)
        assert past.sessions[-1][0].trade_date == date(2026, 11, 19)


def test_es_is_like_es(pasts: dict[str, PastSessions]) -> None:
    """About 6,900; days of 10 to 200 points; ten to sixty thousand trades a day."""
    past = pasts["ES"]
    for _, ladder, profile in past.regular:
        points = (profile.high - profile.low) / 4
        assert 10 < points < 200
        assert 6000 < profile.poc / 4 < 7800
        assert ladder.brackets[-1].index == 13  # half-hours from 09:30 to 16:15, the last a short one
    for session, rows in past.sessions:
        if session.kind is SessionKind.RTH:
            assert 10_000 < len(rows) < 60_000


def test_the_night_is_thin_and_the_open_is_busy(pasts: dict[str, PastSessions]) -> None:
    for past in pasts.values():
        assert past.lots(SessionKind.ETH) < 0.2 * past.lots(SessionKind.RTH)
        first = noon = last = 0
        for session, rows in past.sessions:
            if session.kind is SessionKind.RTH:
                since, length = rows["ts_event"] - session.open_ns, session.close_ns - session.open_ns
                half_hour = 30 * NANOS_PER_MINUTE
                first += int((since < half_hour).sum())
                noon += int((abs(since - length // 2) < half_hour // 2).sum())
                last += int((since >= length - half_hour).sum())
        assert first > 1.5 * noon
        assert last > 1.1 * noon


def test_sizes_have_a_heavy_tail(pasts: dict[str, PastSessions]) -> None:
    sizes = np.concatenate([rows["size"] for _, rows in pasts["ES"].sessions])
    assert np.median(sizes) < sizes.mean() < 12
    assert sizes.max() > 20 * sizes.mean()


def test_no_silence_that_would_pass_for_a_broken_feed(pasts: dict[str, PastSessions]) -> None:
    """The market counts as stale after sixty of its usual intervals, half a minute at least."""
    for past in pasts.values():
        for session, rows in past.sessions:
            if session.kind is SessionKind.RTH:
                waits = np.diff(rows["ts_event"])
                usual = np.convolve(waits, np.full(255, 1 / 255), "valid")
                limit = np.maximum(60 * usual[:-1], 30e9)
                assert (waits[255:] < limit).all()


def test_sessions_go_on_where_the_last_ended(pasts: dict[str, PastSessions], market: SimulatedMarket) -> None:
    """To a tenth of an ordinary range: the last trade of a thin night is minutes old when the open comes."""
    for root, past in pasts.items():
        for (_, rows), (after, next_rows) in pairwise(past.sessions):
            if after.kind is SessionKind.ETH or root not in {"LE", "HE", "GF"}:
                ticks = abs(int(rows["price"][-1]) - int(next_rows["price"][0])) // past.tick_e9
                assert ticks <= 2 + 0.1 * market._traits[root].range_ticks


def test_ranges_are_within_bounds(pasts: dict[str, PastSessions], market: SimulatedMarket) -> None:
    for root, past in pasts.items():
        usual = market._traits[root].range_ticks
        ranges = [(profile.high - profile.low) / usual for _, _, profile in past.regular]
        assert min(ranges) > 0.1
        assert max(ranges) < 3
        assert 0.5 < sum(ranges) / len(ranges) < 1.5


def value_events(pasts: dict[str, PastSessions]) -> Counter[str]:
    """Days on which the value area before was tested, accepted beyond or rejected at, by closes of half-hours."""
    found: Counter[str] = Counter()
    for past in pasts.values():
        for (_, _, prior), (_, ladder, profile) in pairwise(past.regular):
            for edge, side in ((prior.vah, 1), (prior.val, -1)):
                found["edges"] += 1
                closes = [(bracket.close_ticks - edge) * side for bracket in ladder.brackets]
                beyond = [
                    (bracket.high_ticks - edge if side > 0 else edge - bracket.low_ticks) > 0
                    for bracket in ladder.brackets
                ]
                found["tested"] += profile.low <= edge <= profile.high
                found["accepted"] += any(a > 0 and b > 0 for a, b in pairwise(closes))
                found["rejected"] += any(out and close < 0 for out, close in zip(beyond, closes, strict=True))
    return found


def test_all_that_alerts_are_about_happens(pasts: dict[str, PastSessions]) -> None:
    days = [each for past in pasts.values() for each in past.regular]
    broken = sum(p.high > p.ib_high or p.low < p.ib_low for _, _, p in days)
    assert 0.5 < broken / len(days) < 0.95
    naked = [len(past.carried.naked_pocs) for past in pasts.values()]
    assert min(naked) >= 1  # that of the newest session always
    assert sum(count >= 3 for count in naked) > 0.7 * len(naked)
    assert sum(bool(past.carried.poor_highs) for past in pasts.values()) > 0.4 * len(pasts)
    assert sum(bool(past.carried.poor_lows) for past in pasts.values()) > 0.4 * len(pasts)
    excess = sum(p.upper_tail_rows >= 2 for _, _, p in days)
    assert 0.3 < excess / len(days) < 0.9
    events = value_events(pasts)
    for event in ("tested", "accepted", "rejected"):
        assert events[event] > 0.2 * events["edges"], event


def test_on_one_day_of_all_products_every_alert_fires(
    reference: Reference, market: SimulatedMarket, pasts: dict[str, PastSessions]
) -> None:
    """And no product storms: at most thirty a session, under the re-arm rules of each."""
    fired: Counter[AlertType] = Counter()
    for root, past in pasts.items():
        session = reference.calendar.session(root, UNTIL, SessionKind.RTH)
        assert session is not None
        contract = reference.universe.front(root, UNTIL)
        rows = market.trades(contract, session)
        before, _, p = past.regular[-1]
        opening = Opening(
            contract=contract.key, root=root, kind=session.kind, trade_date=UNTIL, segments=session.segments,
            short=False, prior=Prior(before.trade_date, p.poc, p.vah, p.val, p.high, p.low, p.close),
            carried=past.carried,
        )  # fmt: skip
        live = LiveSession(opening)
        ticks = (rows["price"] // past.tick_e9).tolist()
        alerts = live.trades(rows["ts_event"].tolist(), ticks, rows["size"].tolist())
        assert len(alerts) <= 30
        fired.update(alert.type for alert in alerts)
    assert set(fired) == set(AlertType)


def kinds(pasts: dict[str, PastSessions]) -> tuple[Counter[DayType], Counter[OpenType | None]]:
    days: Counter[DayType] = Counter()
    opens: Counter[OpenType | None] = Counter()
    for past in pasts.values():
        ranges: list[int] = []
        before: Sequence[SessionProfile] = ()
        for _, ladder, profile in past.regular:
            days[day_type(profile, sum(ranges) // len(ranges) if ranges else None)] += 1
            references = [level for p in before for level in (p.high, p.low, p.vah, p.val)]
            opens[open_type(ladder, references, (before[0].low, before[0].high) if before else None)] += 1
            ranges.append(profile.high - profile.low)
            before = (profile,)
    return days, opens


def test_every_kind_of_day_and_of_open_happens(pasts: dict[str, PastSessions]) -> None:
    days, opens = kinds(pasts)
    assert set(days) == set(DayType)
    assert set(opens) >= set(OpenType)
    assert min(days.values()) >= 0.02 * sum(days.values())
    assert min(opens.values()) >= 0.02 * sum(opens.values())
