"""Wire format of pushed events: a round trip changes nothing, and any bytes are either read or refused."""

from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcry.base.errors import InvalidRequest
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Amend,
    Backfill,
    Bars,
    CaughtUp,
    Ended,
    Event,
    FeedCaps,
    Gap,
    Heartbeat,
    Repaired,
    Replaced,
    Resume,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.trades.push_format import MOST_BODY_BYTES, Again, Push, read_push, write_push
from outcry.trades.records import BAR, Quality
from outcry.trades.reference_tables import load_reference

UNIVERSE = load_reference().universe
ES = Contract("ES", 2013, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False, own_clock=True)
PRESENT = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False)
MARCH = Contract("ES", 2026, 3)
AT_NS = 1_381_239_000_000_000_000  # 2013-10-08 13:30 UTC
NOW_NS = 1_767_366_245_000_000_000  # 2026-01-02
DAY = 86_400_000_000_000


def trades(**columns: Any) -> Trades:
    rows = np.zeros(3, LIVE_TRADE)
    rows["ts_event"] = rows["ts_recv"] = AT_NS
    rows["price"], rows["size"], rows["side"] = 1_655_750_000_000, 2, [b"B", b"A", b"N"]
    for name, value in columns.items():
        rows[name] = value
    return Trades(rows)


def bars(quality: Quality = Quality.BARS_1M, **columns: Any) -> Bars:
    rows = np.zeros(2, BAR)
    rows["ts_event"] = AT_NS, AT_NS + 60_000_000_000
    rows["open"], rows["high"], rows["low"], rows["close"], rows["volume"] = 5, 9, -3, 7, 100
    for name, value in columns.items():
        rows[name] = value
    return Bars(rows, quality)


def push(*events: Event, **more: Any) -> Push:
    return Push(
        "a" * 20, more.pop("contract", ES), more.pop("caps", CAPS), more.pop("first", 7), events, **more
    )


def reason(body: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read_push(body, UNIVERSE, NOW_NS)
    return str(caught.value.details["reason"])


def test_every_kind_of_event_survives_a_round_trip() -> None:
    events: list[Event] = [
        CaughtUp(AT_NS, Quality.BARS_1S), Gap(AT_NS, AT_NS + 1, "reconnect"), Repaired(AT_NS, AT_NS + 1),
        Amend(2**64 - 1, "cancel"), Amend(5, "correct", -250_000_000, 3), Heartbeat(AT_NS),
        VolumeCounter(AT_NS, 10**9), Status(subscribed=True, code="ok", text="Börse"), Ended(AT_NS),
    ]  # fmt: skip
    ticks = [Replaced(AT_NS, AT_NS + 1, trades().rows), Replaced(AT_NS, AT_NS + 1, trades().rows[:0])]
    again = Again(9, CaughtUp(AT_NS, Quality.TICKS), "b" * 32)
    sent = push(trades(), bars(), *ticks, *events, again=again)
    found = read_push(write_push(sent), UNIVERSE, NOW_NS)
    assert found.events[4:] == tuple(events)
    for event, was in zip(found.events[:4], sent.events[:4], strict=True):
        assert type(event) is type(was)
        assert isinstance(event, Trades | Bars | Replaced)
        assert isinstance(was, Trades | Bars | Replaced)
        assert event.rows.dtype == was.rows.dtype
        assert event.rows.tobytes() == was.rows.tobytes()
    assert (found.session, found.contract, found.caps, found.first, found.again) == (
        sent.session, ES, CAPS, 7, again,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (trades(ts_event=0), "times"),
        (trades(ts_recv=2**63 - 1), "times"),
        (trades(ts_event=[AT_NS, -1, AT_NS]), "times"),
        (trades(price=2**63 - 1), "rows"),
        (trades(price=-(2**63)), "rows"),
        (trades(side=b"X"), "rows"),
        (trades(flags=4), "rows"),
        (bars(Quality.TICKS), "quality"),
        (bars(low=6), "rows"),
        (bars(high=6), "rows"),
        (bars(high=2**63 - 1), "rows"),
        (bars(volume=2**63), "rows"),
        (bars(ts_event=[AT_NS + 1, AT_NS]), "rows"),
        (Trades(np.zeros(0, LIVE_TRADE)), "rows"),
        (Gap(AT_NS, AT_NS, "empty"), "gap"),
        (Replaced(AT_NS, AT_NS, trades().rows), "gap"),
        (Replaced(AT_NS - 5, AT_NS, trades().rows), "rows"),
        (Replaced(AT_NS, AT_NS + 5, trades(ts_event=[AT_NS + 1, AT_NS, AT_NS]).rows), "rows"),
        (Replaced(AT_NS, AT_NS + 5, trades(price=2**63 - 1).rows), "rows"),
        (Replaced(1, AT_NS + 5, trades().rows), "times"),
        (Gap(AT_NS, AT_NS + 1, "line\nbreak"), "gap"),
        (Repaired(AT_NS + 1, AT_NS), "gap"),
        (Amend(-1, "cancel"), "amend"),
        (Amend(1, "correct", 1, -1), "amend"),
        (VolumeCounter(AT_NS, -1), "volume"),
        (Status(subscribed=True, code="x" * 301), "status"),
        (Heartbeat(1), "times"),
        (Ended(2**63 - 1), "times"),
    ],
)
def test_an_invalid_event_is_refused_with_its_position(event: Event, why: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_push(write_push(push(Heartbeat(AT_NS), event)), UNIVERSE, NOW_NS)
    assert caught.value.details == {"reason": why, "event": 1}


def test_a_live_feed_cannot_be_ahead_of_our_clock() -> None:
    """Two hours ahead are refused for a live feed, and accepted for a replay or a simulation."""
    ahead = Heartbeat(NOW_NS + 2 * 3_600_000_000_000)
    now = Heartbeat(NOW_NS + 1)
    assert reason(write_push(push(ahead, caps=PRESENT, contract=MARCH))) == "times"
    assert read_push(write_push(push(ahead, contract=MARCH)), UNIVERSE, NOW_NS).events == (ahead,)
    assert read_push(write_push(push(now, caps=PRESENT, contract=MARCH)), UNIVERSE, NOW_NS).events


def test_rows_outside_the_life_of_their_contract_are_refused() -> None:
    """ESZ2013 last traded on Friday 20 December 2013, so rows may be dated up to 27 December, a week later.

    The first permitted day is 23 December 2000, 13 × 365 days before the 20th."""
    last_ns, first_ns = 1_388_188_800_000_000_000, 977_529_600_000_000_000  # both midnight UTC
    for inside in (last_ns - 1, first_ns):
        assert read_push(write_push(push(trades(ts_event=inside))), UNIVERSE, NOW_NS).events
    for outside in (last_ns, first_ns - 1):
        assert reason(write_push(push(trades(ts_event=[AT_NS, outside, AT_NS])))) == "not_listed"
    assert reason(write_push(push(bars(ts_event=[last_ns - 1, last_ns])))) == "not_listed"


@pytest.mark.parametrize("kind", [Heartbeat, Ended, "caught_up", "volume", "gap", "again"])
def test_events_a_year_after_a_contracts_end_are_refused(kind: Any) -> None:
    """366 days after 28 December 2013 is 29 December 2014."""
    end_ns = 1_419_811_200_000_000_000

    def sent(at_ns: int) -> bytes:
        match kind:
            case "caught_up":
                return write_push(push(CaughtUp(at_ns, Quality.TICKS)))
            case "volume":
                return write_push(push(VolumeCounter(at_ns, 1)))
            case "gap":
                return write_push(push(Gap(AT_NS, at_ns, "lost")))
            case "again":
                return write_push(push(again=Again(9, CaughtUp(at_ns, Quality.TICKS))))
            case _:
                return write_push(push(kind(at_ns)))

    assert read_push(sent(end_ns), UNIVERSE, NOW_NS)
    assert reason(sent(end_ns + 1)) == "times"


def test_an_expired_contract_is_accepted_from_replays_only() -> None:
    """ESH2026 last trades on 20 March 2026; a live feed may send its rows up to the 27th."""
    end_ns = 1_774_656_000_000_000_000  # 2026-03-28
    body = write_push(push(caps=PRESENT, contract=MARCH))
    assert read_push(body, UNIVERSE, end_ns - 1)
    with pytest.raises(InvalidRequest) as caught:
        read_push(body, UNIVERSE, end_ns)
    assert caught.value.details == {"reason": "expired"}
    assert read_push(write_push(push(contract=MARCH)), UNIVERSE, end_ns)


def test_a_bar_with_too_many_lots_to_sum_is_refused() -> None:
    assert read_push(write_push(push(bars(volume=2**40))), UNIVERSE, NOW_NS).events
    assert reason(write_push(push(bars(volume=2**40 + 1)))) == "rows"


def changed(**fields: Any) -> bytes:
    """Return a valid push with some of its fields replaced."""
    plain = msgspec.msgpack.decode(write_push(push(Heartbeat(AT_NS))))
    return msgspec.msgpack.encode({**plain, **fields})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "unreadable"),
        (b"\xc1", "unreadable"),
        (b"[" * 100_000, "unreadable"),
        (b"\x91" * 100_000, "unreadable"),
        (msgspec.msgpack.encode({"session": "a" * 20}), "unreadable"),
        (b"\0" * (MOST_BODY_BYTES + 1), "too_large"),
        (changed(session="short"), "unreadable"),
        (changed(session="a" * 20 + "\n"), "unreadable"),
        (changed(session="../../../../../etc"), "unreadable"),
        (changed(first=-1), "unreadable"),
        (changed(first=2**60), "unreadable"),
        (changed(more=1), "unreadable"),
        (changed(contract="ESZ3"), "unknown_contract"),
        (changed(contract="XXZ2013"), "unknown_contract"),
        (changed(contract="ESF2013"), "unknown_contract"),
        (changed(contract="ESZ0000"), "unknown_contract"),
        (changed(contract="ESZ２０１３"), "unknown_contract"),
        (changed(contract=""), "unknown_contract"),
        (changed(caps={**msgspec.to_builtins(CAPS), "resolution_ns": 0}), "caps"),
        (changed(caps={**msgspec.to_builtins(CAPS), "invented": True}), "caps"),
        (changed(caps={**msgspec.to_builtins(CAPS), "backfill": "all"}), "unreadable"),
        (changed(events=[["other", {}]]), "kind"),
        (changed(events=[["heartbeat", {}]]), "unreadable"),
        (changed(events=[["heartbeat", {"at_ns": 2**63}]]), "times"),
        (changed(events=[["trades", {"rows": b"x" * 41}]]), "rows"),
        (changed(events=[["trades", {"rows": b""}]]), "rows"),
        (changed(events=[["trades", {"rows": "text"}]]), "unreadable"),
        (changed(events=[["ended", {"at_ns": AT_NS}], ["heartbeat", {"at_ns": AT_NS}]]), "after_the_end"),
        (changed(events=[["heartbeat", {"at_ns": AT_NS}]] * 10_001), "unreadable"),
        (changed(first=7, again={"until": 6}), "again"),
        (changed(again={"until": 9, "caught_up": {"at_ns": 1, "quality": "ticks"}}), "times"),
    ],
)
def test_a_malformed_push_is_refused(body: bytes, why: str) -> None:
    assert reason(body) == why


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_an_altered_push_is_read_or_refused(data: st.DataObject) -> None:
    body = bytearray(
        write_push(push(trades(), bars(), CaughtUp(AT_NS, Quality.TICKS), Gap(AT_NS, AT_NS + 1, "x")))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with suppress(InvalidRequest):
        assert write_push(read_push(bytes(body), UNIVERSE, NOW_NS))
