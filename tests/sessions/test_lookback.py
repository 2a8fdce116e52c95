"""The session about to open and the answer about the last one use the same look-back sessions."""

from datetime import date

from tests.installations import Write

from outcry.access.licences import OPERATOR, Grant, Scope
from outcry.app.installation import Installation
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.market.opening import IncompleteSession, Opening
from outcry.recordings.file_model import ReadOptions
from outcry.sessions.completed_sessions import CompletedSessions
from outcry.sessions.session_history import SessionInContext

SEPTEMBER = Contract("ES", 2024, 9)
MINUTES = 405  # 09:30 to 16:15 in New York


def put(installation: Installation, write: Write, day: str, price: int, *, month: str = "202409", lots: int = 10,
        opens: int = 13) -> None:  # fmt: skip
    """Import a complete session that trades at one price each minute, and once a point above.

    `opens`: the hour (UTC) of the open, which is at half past."""
    times = [f"{opens + (30 + n) // 60}:{(30 + n) % 60:02d}:00" for n in range(MINUTES)]
    trades = [(at, str(price), lots) for at in times] + [(f"{times[-1][:-2]}30", str(price + 1), 1)]
    path = write(day, *trades, month=month, folder=f"{day}{month}")
    installation.importer.run(path, OPERATOR, ReadOptions(), installation.clock.now_ns())


def openings(installation: Installation, day: date, contract: Contract, streamed: list[Contract]) -> Opening:
    completed = CompletedSessions(
        installation.store, installation.reference.universe, installation.reference.calendar
    )
    session = installation.reference.calendar.session(contract.root, day, SessionKind.RTH)
    assert session is not None
    return completed.opening(None, contract, session, None, streamed, installation.clock.now_ns())


def newest(installation: Installation, contract: Contract | None = None) -> SessionInContext:
    product = installation.reference.universe.products["ES"]
    scope = Scope(1, (Grant("everyone", "completed", (), None, None),))
    completed = CompletedSessions(
        installation.store, installation.reference.universe, installation.reference.calendar
    )
    visible, _ = completed.visible(scope, product, installation.clock.now_ns())
    return visible.in_context(contract)[-1]


def test_the_look_back_counts_recorded_sessions_live_and_delayed(
    installation: Installation, ticks: Write
) -> None:
    """A POC of 1 February and one of 1 July, 151 days later, are both naked, with no session recorded in between."""
    put(installation, ticks, "20240201", 4900, opens=14)
    put(installation, ticks, "20240701", 5500)
    live, delayed = openings(installation, date(2024, 7, 2), SEPTEMBER, [SEPTEMBER]), newest(installation)
    assert [(level.price_ticks, str(level.made_on)) for level in live.carried.naked_pocs] == [
        (22_000, "2024-07-01"), (19_600, "2024-02-01"),
    ]  # fmt: skip
    assert live.carried == delayed.carried
    assert live.average_range == 4


def test_a_hole_in_the_first_recorded_session_is_named_live_and_delayed(
    installation: Installation, ticks: Write
) -> None:
    """1 July lacks the minutes from 11:00 to 13:00 in New York. No session before it is recorded."""
    minutes = [f"{13 + (30 + n) // 60}:{(30 + n) % 60:02d}:00" for n in range(MINUTES) if not 90 <= n < 210]
    path = ticks("20240701", *[(at, "5500", 10) for at in minutes], folder="hole")
    report = installation.importer.run(path, OPERATOR, ReadOptions(), installation.clock.now_ns())
    hole = 1_719_846_000_000_000_000, 1_719_853_200_000_000_000
    assert [session.holes for session in report.sessions if session.kind is SessionKind.RTH] == [(hole,)]
    put(installation, ticks, "20240702", 5500)
    live = openings(installation, date(2024, 7, 3), SEPTEMBER, [SEPTEMBER])
    assert live.incomplete == (IncompleteSession(date(2024, 7, 1), recorded=True, holes=(hole,)),)
    scope = Scope(1, (Grant("everyone", "completed", (), None, None),))
    context = installation.query.context(scope, "ES", installation.clock.now_ns()).answer
    (missing,) = context.completeness.missing
    assert (missing.date, missing.holes[0].from_, missing.holes[0].to) == (
        "2024-07-01", "2024-07-01T15:00:00.000Z", "2024-07-01T17:00:00.000Z",
    )  # fmt: skip


def test_live_and_history_roll_on_the_deadline_of_december_2013(
    installation: Installation, ticks: Write
) -> None:
    """ESZ3 ends on 2013-12-20, so ESH4 is front from two business days before, the 18th, whatever volume ESZ3 has."""
    december, march = Contract("ES", 2013, 12), Contract("ES", 2014, 3)
    for day, price in (("20131216", 1780), ("20131217", 1785)):
        put(installation, ticks, day, price, month="201312", lots=90, opens=14)
        put(installation, ticks, day, price - 7, month="201403", opens=14)
    day = date(2013, 12, 18)
    both = [december, march]
    live = {contract: openings(installation, day, contract, both) for contract in both}
    assert [live[contract].front for contract in both] == [False, True]
    assert live[march].rolled_from == "ESZ2013"
    put(installation, ticks, "20131218", 1790, month="201312", lots=90, opens=14)
    put(installation, ticks, "20131218", 1783, month="201403", opens=14)
    place = newest(installation)
    assert (place.session.row.trade_date, place.session.contract, place.rolled_from) == (day, march, december)


def test_after_a_gap_of_years_there_is_no_roll(installation: Installation, ticks: Write) -> None:
    put(installation, ticks, "20131216", 1780, month="201312", opens=14)
    put(installation, ticks, "20240701", 5500)
    place = newest(installation)
    assert (place.session.contract, place.rolled_from) == (SEPTEMBER, None)
    assert openings(installation, date(2024, 7, 2), SEPTEMBER, [SEPTEMBER]).rolled_from is None
