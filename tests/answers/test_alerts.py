"""Current and past alerts: visibility, filters, order, and their sentences."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sample_live_session import (
    ANN,
    BOB,
    LIVE,
    NOW_NS,
    NQH26,
    PRIOR_DAY,
    MemoryAlerts,
    Shown,
    alert_row,
    query,
)

from outcry.access.licences import Grant, Scope
from outcry.answers import wording
from outcry.base.errors import InvalidParameter
from outcry.live.registry import Registry
from outcry.market.alerts.machine import AlertType
from outcry.wire.alerts import AlertsHistoryAnswer

# -- alerts of today


def posted(registry: Registry, *rows: Any) -> None:
    registry.post(rows)


def keys(found: Any) -> list[str]:
    return [f"{alert.symbol} {alert.type} {alert.price:g} {alert.ref}" for alert in found.alerts]


def test_alerts_are_todays_newest_first_with_exactly_the_fields_of_the_interface() -> None:
    registry = Registry()
    Shown(registry)
    posted(
        registry, alert_row(1, trade_date=PRIOR_DAY), alert_row(2), alert_row(3, price_e9=6912_250_000_000)
    )
    found = query(registry).alerts(ANN, None, NOW_NS).answer
    body = msgspec.json.decode(msgspec.json.encode(found))
    assert list(body) == ["updatedAt", "count", "alerts"]
    assert (body["updatedAt"], body["count"]) == ("2026-01-06T20:15:00.000Z", 2)
    assert body["alerts"][0] == {
        "symbol": "ES", "type": "va-test-high", "severity": "info", "price": 6912.25, "ref": "VAH",
        "message": "ES traded at 6912.25, at the upper edge of the prior value area (VAH 6912.5).",
    }  # fmt: skip
    assert body["alerts"][1]["price"] == 6912.0


def test_alerts_of_a_feed_only_for_those_who_see_it() -> None:
    registry = Registry()
    Shown(registry)
    Shown(registry, owner=2, feed="mine")
    posted(registry, alert_row(1), alert_row(2, owner=2, feed="mine", price_e9=6913_000_000_000))
    asked = query(registry)
    for _ in range(2):  # the order of requests does not matter
        assert keys(asked.alerts(ANN, None, NOW_NS).answer) == ["ES va-test-high 6912 VAH"]
        assert keys(asked.alerts(BOB, None, NOW_NS).answer) == ["ES va-test-high 6913 VAH"]
        assert asked.alerts(Scope(3, ()), None, NOW_NS).answer.count == 0


def test_a_feed_connected_later_is_visible_to_its_owner_only() -> None:
    """Ann and Cid saw the same feeds and shared a list. Then Ann connects a feed, whose alerts only she sees."""
    registry = Registry()
    Shown(registry)
    asked = query(registry)
    cid = Scope(3, ANN.grants)
    first = asked.alerts(ANN, None, NOW_NS).live_answer
    assert asked.alerts(cid, None, NOW_NS).live_answer is first
    Shown(registry, owner=1, feed="hers")
    posted(registry, alert_row(1, owner=1, feed="hers"))
    assert asked.alerts(cid, None, NOW_NS).answer.count == 0
    assert asked.alerts(ANN, None, NOW_NS).answer.count == 1
    assert first is not None
    made = first.render(NOW_NS)
    assert made is not None
    assert made.answer.count == 0, "not even through the list they had"


@pytest.mark.parametrize(
    ("reason", "listed"),
    [("live", True), ("disconnected", True), ("closed", True), ("not_front", True), ("ended", False),
     ("connecting", False), ("login_failed", False)],
)  # fmt: skip
def test_the_list_has_alerts_of_live_feeds_only(reason: str, listed: bool) -> None:
    """A feed in trouble still counts; one that has ended, refuses data or never reconnected does not."""
    registry = Registry()
    shown = Shown(registry)
    posted(registry, alert_row(1))
    registry.set_availability(shown.channel, replace(LIVE, live=reason == "live", reason=reason))
    assert query(registry).alerts(ANN, None, NOW_NS).answer.count == int(listed)


@pytest.mark.parametrize(
    ("symbol", "count"),
    [
        (None, 2), ("ES", 1), ("es", 1), ("MES", 1), ("ESH6", 1), ("CON.F.US.EP.H26", 1), ("ESM6", 0), ("NQ", 1),
        ("GC", 0), ("ZZZ", 0), ("\x00", 0), ("A" * 5000, 0), ("💥", 0),
    ],
)  # fmt: skip
def test_alerts_of_a_symbol_in_any_format_and_none_of_an_unknown_one(symbol: str | None, count: int) -> None:
    registry = Registry()
    Shown(registry)
    Shown(registry, contract=NQH26)
    posted(registry, alert_row(1), alert_row(2, contract="NQH2026", symbol="NQ"))
    assert query(registry).alerts(ANN, symbol, NOW_NS).answer.count == count


def test_the_list_changes_with_every_alert_and_is_recomputed_after_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [10**12]
    monkeypatch.setattr("outcry.answers.live_answers.monotonic_ns", lambda: now[0])
    registry = Registry()
    Shown(registry)
    asked = query(registry)
    live_answer = asked.alerts(ANN, None, NOW_NS).live_answer
    assert live_answer is not None
    now[0] += 3_000_000
    assert live_answer.current() is not None
    posted(registry, alert_row(1))
    assert live_answer.current() is None
    made = live_answer.render(NOW_NS + 1)
    assert made is not None
    assert made.answer.count == 1
    now[0] += 999_999_999
    assert live_answer.current() is made
    now[0] += 1
    assert live_answer.current() is None
    again = live_answer.render(NOW_NS + 10**9)
    assert again is not None
    assert again.answer.updated_at == "2026-01-06T20:15:01.000Z"


def test_cached_lists_of_removed_feeds_are_dropped() -> None:
    registry = Registry()
    asked = query(registry)
    for user in range(1, 20):
        shown = Shown(registry, owner=user, feed="own")
        asked.alerts(Scope(user, ()), None, NOW_NS)
        registry.drop(shown.channel.key)
    assert len(asked._alerts._live_answers) <= 1  # pyright: ignore[reportPrivateUsage]


# -- alerts of the past


#: 12¼ seconds after the event of `alert_row(7)`.
RECORDED_NS = 1_767_709_819_250_000_000


def history(rows: Sequence[Any], scope: Scope = ANN, **asked: Any) -> AlertsHistoryAnswer:
    given: dict[str, Any] = dict.fromkeys(("symbol", "from_", "to", "before", "after", "limit")) | asked
    found = query(Registry(), alerts=MemoryAlerts(rows)).alerts_history(scope, **given, now_ns=NOW_NS)
    assert found.fresh_until_ns is not None
    assert found.fresh_until_ns <= NOW_NS, "alerts come without any revision moving"
    return found.answer


def test_a_past_alert_with_all_its_fields() -> None:
    body = msgspec.json.decode(
        msgspec.json.encode(history([alert_row(7, invented=True, recorded_ns=RECORDED_NS)]))
    )
    assert body == {
        "count": 1,
        "alerts": [{
            "symbol": "ES", "type": "va-test-high", "severity": "info", "price": 6912.0, "ref": "VAH",
            "message": "ES traded at 6912, at the upper edge of the prior value area (VAH 6912.5). (Simulated data.)",
            "key": "ES:va-test-high:1767709807000", "seq": 7, "at": "2026-01-06T14:30:07.000Z", "session": "rth",
            "contract": "ESH2026", "tradeDate": "2026-01-06", "dataSource": "shared", "invented": True,
            "params": {"vah": 6912.5, "tolTicks": 2, "approach": "inside", "brackets": [1, 2], "probeExtreme": None},
            "recordedAt": "2026-01-06T14:30:19.250Z",
        }],
        "nextBefore": None,
    }  # fmt: skip


def seqs(found: AlertsHistoryAnswer) -> list[int]:
    return [alert.seq for alert in found.alerts]


def test_pages_have_no_gaps_or_repetitions() -> None:
    rows = [alert_row(seq) for seq in range(1, 8)]
    pages, before = list[list[int]](), None
    while True:
        found = history(rows, before=before, limit=3)
        pages.append(seqs(found))
        before = found.next_before
        if before is None:
            break
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]


def test_bounds_of_date_and_seq() -> None:
    rows = [alert_row(seq, trade_date=date(2026, 1, seq)) for seq in range(2, 7)]
    assert seqs(history(rows, from_="2026-01-03", to="2026-01-05")) == [5, 4, 3]
    assert seqs(history(rows, after=4)) == [6, 5]
    assert seqs(history(rows, after=2, before=5)) == [4, 3]
    assert seqs(history(rows, from_="2026-01-05", to="2026-01-03")) == []
    with pytest.raises(InvalidParameter):
        history(rows, from_="yesterday")


def test_past_alerts_are_of_feeds_the_caller_sees_now() -> None:
    rows = [
        alert_row(1), alert_row(2, owner=1, feed="hers"), alert_row(3, owner=2, feed="his"),
        alert_row(4, contract="NQH2026", symbol="NQ"), alert_row(5, contract="QQH2026", symbol="QQ"),
    ]  # fmt: skip
    assert [(a.seq, a.data_source) for a in history(rows).alerts] == [
        (4, "shared"),
        (2, "personal"),
        (1, "shared"),
    ]
    assert [(a.seq, a.data_source) for a in history(rows, BOB).alerts] == [(3, "personal")]
    nq = Scope(1, (Grant("everyone", "live", ("NQ",), None, None),))
    assert seqs(history(rows, nq)) == [4, 2]
    assert seqs(history(rows, symbol="NQ")) == [4]
    assert seqs(history(rows, symbol="MESH6")) == [2, 1]
    assert seqs(history(rows, symbol="ESM6")) == []
    assert seqs(history(rows, symbol="ZZZ")) == []


def test_rows_of_other_users_are_not_queried_and_hidden_rows_do_not_end_a_page() -> None:
    store = MemoryAlerts(
        [alert_row(seq, symbol="NQ", contract="NQH2026") for seq in range(2, 2500)] + [alert_row(1)]
    )
    es = Scope(1, (Grant("everyone", "live", ("ES",), None, None),))
    found = (
        query(Registry(), alerts=store).alerts_history(es, None, None, None, None, None, None, NOW_NS).answer
    )
    assert (seqs(found), found.next_before) == ([1], None)
    assert set(store.asked) == {(1, 0)}
    query(Registry(), alerts=store).alerts_history(BOB, None, None, None, None, None, None, NOW_NS)
    assert store.asked[-1] == (2,)


def test_a_search_too_long_for_one_answer_continues_on_the_next_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.answers.alerts._PAGE", 10)
    monkeypatch.setattr("outcry.answers.alerts._MOST_PAGES", 2)
    rows = [alert_row(1), *(alert_row(seq, symbol="NQ", contract="NQH2026") for seq in range(2, 40))]
    es = Scope(1, (Grant("everyone", "live", ("ES",), None, None),))
    first = history(rows, es)
    assert (seqs(first), first.next_before) == ([], 20)
    assert seqs(history(rows, es, before=20)) == [1]


def test_without_a_store_there_are_no_past_alerts() -> None:
    found = query(Registry()).alerts_history(ANN, None, None, None, None, None, None, NOW_NS).answer
    assert (found.count, found.next_before) == (0, None)


# -- wording


def bar(level: int, reached: int) -> dict[str, object]:
    return {"level": level * 1_000_000_000, "reached": reached * 1_000_000_000, "observed": "bar"}


@pytest.mark.parametrize(
    ("kind", "ref", "params", "message_text"),
    [
        (AlertType.VA_TEST_LOW, "VAL", {"val": 6889_750_000_000},
         "ES traded at 6912, at the lower edge of the prior value area (VAL 6889.75)."),
        (AlertType.VA_REJECT_HIGH, "VAH", {"vah": 6912_500_000_000, "probeExtreme": 6914_000_000_000},
         "ES reached 6914, above the prior value area (VAH 6912.5). A 5-minute bar then closed back inside at 6912."),
        (AlertType.VA_REJECT_LOW, "VAL", {},
         "ES traded below the prior value area (VAL). A 5-minute bar then closed back inside at 6912."),
        (AlertType.VA_ACCEPT_ABOVE, "VAH", {"vah": 6912_500_000_000},
         "ES had two consecutive 30-minute closes above the prior value area (VAH 6912.5), the second at 6912."),
        (AlertType.IB_BREAK_UP, "IBH", {"ibHigh": 6911_000_000_000, "otherSideBroken": False},
         "ES traded at 6912, above the initial balance (IBH 6911)."),
        (AlertType.IB_BREAK_DOWN, "IBL", {"ibLow": 6913_000_000_000, "otherSideBroken": True},
         "ES traded at 6912, below the initial balance (IBL 6913); both sides are broken."),
        (AlertType.NAKED_POC, "2026-01-02", {},
         "ES traded at 6912, the previously untouched POC of 2026-01-02."),
        (AlertType.POOR_HIGH, "2026-01-02", {"event": "revisit"},
         "ES traded at 6912, near the poor high of 2026-01-02."),
        (AlertType.POOR_LOW, "2026-01-02", {"event": "repaired"},
         "ES traded at 6912, below the poor low of 2026-01-02."),
        (AlertType.POOR_HIGH, "2026-01-02", {"event": "revisit", "level": 6912_250_000_000, "observed": "trade"},
         "ES traded at 6912, near the poor high of 2026-01-02 (6912.25)."),
        # a bar that closed at 6912
        (AlertType.VA_TEST_HIGH, "VAH", {"vah": 6913_000_000_000, **bar(6913, 6913)},
         "ES reached 6913 within a bar, at the upper edge of the prior value area (VAH 6913)."),
        (AlertType.IB_BREAK_UP, "IBH", {"ibHigh": 6913_000_000_000, **bar(6913, 6914)},
         "ES reached 6914 within a bar, above the initial balance (IBH 6913)."),
        (AlertType.NAKED_POC, "2026-01-02", bar(6913, 6913),
         "ES reached 6913 within a bar, the previously untouched POC of 2026-01-02."),
        (AlertType.POOR_LOW, "2026-01-02", {"event": "repaired", **bar(6911, 6910)},
         "ES reached 6910 within a bar, below the poor low of 2026-01-02 (6911)."),
    ],
)  # fmt: skip
def test_messages_are_plain_facts(kind: AlertType, ref: str, params: Any, message_text: str) -> None:
    assert wording.message(alert_row(1, type=kind, ref=ref, params=params)) == message_text


def test_every_alert_and_every_state_has_a_sentence() -> None:
    for kind in AlertType:
        assert wording.message(alert_row(1, type=kind, params={})).startswith("ES ")
    assert all(text.endswith(".") for text in wording.STATES.values())
    assert LIVE.reason in wording.STATES


def test_every_state_is_in_the_documents() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "live.md").read_text()
    assert [state for state in wording.STATES if f"`{state}`" not in page] == []
