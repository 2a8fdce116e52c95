"""The generic body has exactly the fields of the interface, for any alerts."""

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.delivery.messages import NOW_NS, PAGES, alert, make_message, many

from outcry.delivery.model import Target
from outcry.delivery.payload import LONGEST_TEXT, body_of, encoded, shortened
from outcry.live.model import AlertRow
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind

FIELDS = ["kind", "key", "symbol", "type", "severity", "session", "price", "ref", "message", "params", "url"]


def sent(alerts: list[AlertRow], symbols: tuple[str, ...] = ()) -> dict:
    body = encoded(body_of(make_message(Target.HTTPS, alerts, symbols=symbols), PAGES, NOW_NS))
    assert b"\n" not in body
    assert b": " not in body.replace(b"alerts: ", b"")  # compact: blanks occur only in texts
    return json.loads(body, parse_constant=pytest.fail)


def test_the_fields_of_an_alert() -> None:
    assert sent([alert()]) == {
        "version": 2,
        "text": "ES traded at 6912.5, above the initial balance (IBH 6912.25).",
        "alerts": [
            {
                "kind": "structure",
                "key": "ES:ib-break-up:1767366240000",
                "symbol": "ES",
                "type": "ib-break-up",
                "severity": "critical",
                "session": "rth",
                "price": 6912.5,
                "ref": "IBH",
                "message": "ES traded at 6912.5, above the initial balance (IBH 6912.25).",
                "params": {"ibHigh": 6912.25, "otherSideBroken": False},
                "url": "https://outcry.example.com/alerts",
            }
        ],
    }


@pytest.mark.parametrize(("symbols", "symbol"), [((), "ES"), (("6E", "NQ"), "6E")])
def test_the_fields_of_a_test_alert(symbols: tuple[str, ...], symbol: str) -> None:
    (test,) = sent([], symbols)["alerts"]
    assert list(test) == FIELDS
    assert {name: test[name] for name in FIELDS if name != "message"} == {
        "kind": "test", "key": f"{symbol}:webhook-test:1767366245123", "symbol": symbol, "type": "webhook-test",
        "severity": "info", "session": "rth", "price": 0, "ref": "test", "params": None,
        "url": "https://outcry.example.com/alerts",
    }  # fmt: skip
    assert "not a market signal" in test["message"]


def test_several_alerts_are_counted_and_named() -> None:
    alerts = [
        alert(),
        alert(AlertType.NAKED_POC, "NQ", ref="2025-12-30", params={}),
        *many(2, alert(symbol="GC")),
    ]
    body = sent(alerts)
    assert body["text"] == "4 alerts: ES ib-break-up, NQ naked-poc, GC ib-break-up (2 times)."
    assert [one["symbol"] for one in body["alerts"]] == ["ES", "NQ", "GC", "GC"]


def test_more_than_there_is_room_for_are_counted() -> None:
    alerts = [alert(symbol=f"{letter}{other}") for letter in "ABCDEFGH" for other in "ABCDEFGH"]
    text = sent(alerts)["text"]
    assert len(text) <= LONGEST_TEXT
    named = text.removeprefix("64 alerts: ").count("ib-break-up")
    assert text.endswith(f", and {64 - named} more.")
    assert named > 20


def test_simulated_alerts_are_labelled() -> None:
    one, several = sent([alert(invented=True)]), sent([alert(), alert(invented=True)])
    assert one["text"].endswith("(Simulated data.)")
    assert several["text"].endswith("(Simulated data.)")


def test_the_hours_between_are_told_as_such() -> None:
    assert sent([replace(alert(), session=SessionKind.ETH)])["alerts"][0]["session"] == "eth"


rows = st.builds(
    alert,
    st.sampled_from(AlertType),
    st.sampled_from(["ES", "6E", "ZB", "MBT"]),
    at_ms=st.integers(1, 2**42),
    ref=st.text(max_size=40),
    params=st.dictionaries(
        st.sampled_from(["ibHigh", "vah", "rule", "tries", "letters"]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**60), 2**60),
            st.text(max_size=9),
            st.lists(st.integers(0, 9)),
        ),
    ),
    invented=st.booleans(),
).flatmap(lambda row: st.builds(lambda price: replace(row, price_e9=price), st.integers(-(2**62), 2**62)))


@given(st.lists(rows, min_size=1, max_size=20))
def test_any_alerts_make_a_body_of_exactly_these_fields(alerts: list[AlertRow]) -> None:
    body = json.loads(
        encoded(body_of(make_message(Target.HTTPS, alerts), PAGES, NOW_NS)), parse_constant=pytest.fail
    )
    assert list(body) == ["version", "text", "alerts"]
    assert len(body["text"].encode("utf-16-le")) <= 2 * LONGEST_TEXT
    assert len(body["alerts"]) == len(alerts)
    for one, row in zip(body["alerts"], alerts, strict=True):
        assert list(one) == FIELDS
        assert one["key"] == row.key
        assert one["price"] == row.price_e9 / 10**9
        assert isinstance(one["params"], dict)


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_shortened_text_is_as_long_as_it_may_be(text: str, most: int) -> None:
    units = len(text.encode("utf-16-le")) // 2
    short = shortened(text, most)
    if units <= most:
        assert short == text
    else:  # a character of two UTF-16 units is omitted whole
        assert most - 1 <= len(short.encode("utf-16-le")) // 2 <= most
        assert short.endswith("…")
        assert text.startswith(short[:-1])


def test_a_body_has_no_field_that_is_unknown_to_its_reader() -> None:
    class Strict(msgspec.Struct, forbid_unknown_fields=True):
        version: int
        text: str
        alerts: list[dict]

    body = encoded(body_of(make_message(Target.HTTPS, [alert()]), PAGES, NOW_NS))
    assert msgspec.json.decode(body, type=Strict).version == 2
